"""What a node says of its data directory when it starts."""

import asyncio

import pytest

from barnabas.core.errors import CorruptLog
from barnabas.testing.disk import SimulatedDisk
from tests.unit.edge.kafka.support import create, produce, serving

LOST = "/data/t-1"


async def used() -> SimulatedDisk:
    """The disk of a node with a topic whose partitions 0 and 1 were used and 2 was not, and which was killed."""
    disk = SimulatedDisk(1)
    async with serving(disk=disk) as broker:
        await create(broker, "t", partitions=3)
        for partition in (0, 1):
            await produce(broker, "t", 1, partition=partition)
        broker.logs.data_dir.checkpoint()
    disk.restart()
    return disk


@pytest.mark.parametrize("has_recovery_points", [True, False])
def test_a_lost_directory_is_never_taken_for_an_unused_one_in_silence(
    has_recovery_points: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        disk = await used()
        disk.rename(LOST, "/data/elsewhere")
        if not has_recovery_points:
            disk.remove("/data/recovery-point-offset-checkpoint")
        async with serving(disk=disk):
            pass

    asyncio.run(main())
    said = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
    if has_recovery_points:
        assert [each for each in said if each.startswith(f"ERROR t-1 cannot be served: {LOST} is missing")] != []
    else:
        assert [each for each in said if "recovery-point-offset-checkpoint is missing; every log is" in each] != []
        assert [each for each in said if "treated as never used: t-1, t-2. If one was used" in each] != []


async def refused(disk: SimulatedDisk) -> str:
    """Why a node does not start."""
    with pytest.raises(ExceptionGroup) as refusal:
        async with serving(disk=disk):
            pass
    (error,) = refusal.value.exceptions
    assert isinstance(error, CorruptLog)
    return str(error)


@pytest.mark.parametrize("has_recovery_points", [True, False])
@pytest.mark.parametrize("is_emptied", [False, True])
def test_partitions_are_not_taken_for_those_of_deleted_topics_when_the_metadata_is_lost(
    has_recovery_points: bool, is_emptied: bool
) -> None:
    async def main() -> None:
        disk = await used()
        metadata = "/data/__cluster_metadata-0"
        disk.rename(metadata, "/data/elsewhere")
        if is_emptied:
            disk.make_dir(metadata)
            disk.open(f"{metadata}/accept-data-loss", create=True)
        if not has_recovery_points:
            disk.remove("/data/recovery-point-offset-checkpoint")
        for _ in range(2):
            said = await refused(disk)
            assert said.startswith(metadata)
            assert "Restore the directory from a backup" in said
            assert "accept-data-loss" not in said
            disk.restart()
        assert "00000000000000000000.log" in disk.list_dir(LOST)
        if not is_emptied:
            disk.rename("/data/elsewhere", metadata)
            async with serving(disk=disk) as broker:
                assert broker.served.get_partition("t", 1).log.end_offset == 1

    asyncio.run(main())


def test_partitions_that_no_topic_has_are_not_removed_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        disk = await used()
        for number in range(25):
            disk.make_dir(f"/data/gone-{number}")
        async with serving(disk=disk):
            assert "gone-0" not in disk.list_dir("/data")

    asyncio.run(main())
    (said,) = [record.getMessage() for record in caplog.records if "belong to no topic" in record.getMessage()]
    assert said.startswith("these partitions belong to no topic, and are removed: gone-0, gone-1, ")
    assert said.endswith(" and 5 more")
