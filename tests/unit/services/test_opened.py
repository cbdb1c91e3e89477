"""What a node says of its data directory when it starts."""

import asyncio

import pytest

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
        assert [each for each in said if "taken for ones that were never used: t-1, t-2. If one was" in each] != []
