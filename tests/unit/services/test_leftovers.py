"""Directories of topics that were deleted, or created again, while their node was down."""

import asyncio
from uuid import UUID

import pytest

from barnabas.core.errors import StorageError
from barnabas.core.model import TopicPartition
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.partition_metadata import read_topic_id
from barnabas.testing.disk import SimulatedDisk
from tests.unit.edge.kafka.support import create, produce, serving
from tests.unit.storage.builders import append, plain

FILE = "/data/t-0/partition.metadata"
OTHER = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw\n"
NAME = TopicPartition("t", 0)


async def used() -> tuple[SimulatedDisk, UUID]:
    """The disk of a node that was killed, with a topic of one record, and the id of the topic."""
    disk = SimulatedDisk(1)
    async with serving(disk=disk) as broker:
        await create(broker, "t", partitions=1)
        await produce(broker, "t", 1)
        topic_id = broker.served.get("t").topic_id
    disk.restart()
    return disk, topic_id


def overwrite(disk: SimulatedDisk, data: bytes) -> None:
    file = disk.open(FILE, create=True)
    file.truncate(0)
    file.write(0, data)


def test_the_id_of_a_topic_survives_a_crash_after_its_first_record() -> None:
    async def main() -> None:
        disk, topic_id = await used()
        assert read_topic_id(disk, "/data/t-0") == topic_id
        async with serving(disk=disk) as broker:
            assert broker.served.get_partition("t", 0).log.end_offset == 1

    asyncio.run(main())


def test_records_of_an_earlier_topic_of_the_same_name_are_never_served() -> None:
    async def main() -> None:
        disk, topic_id = await used()
        overwrite(disk, OTHER)
        async with serving(disk=disk) as broker:
            assert broker.served.get_partition("t", 0).find_log() is None
            assert "t-0" not in disk.list_dir("/data")
            await produce(broker, "t", 1)
            assert broker.served.get_partition("t", 0).log.end_offset == 1
            assert read_topic_id(disk, "/data/t-0") == topic_id

    asyncio.run(main())


def test_a_directory_of_an_earlier_version_gains_the_id_of_its_topic() -> None:
    async def main() -> None:
        disk, topic_id = await used()
        disk.remove(FILE)
        async with serving(disk=disk) as broker:
            assert broker.served.get_partition("t", 0).log.end_offset == 1
            assert read_topic_id(disk, "/data/t-0") == topic_id

    asyncio.run(main())


def test_files_of_another_topic_stay_until_the_metadata_is_known_to_be_current() -> None:
    disk = SimulatedDisk(1)
    data_dir = DataDir(disk, "/data")
    log = data_dir.create_log(NAME, LogConfig(), topic_id=UUID(int=1))
    append(log, plain(1))
    log.flush()
    disk.restart()
    data_dir = DataDir(disk, "/data")
    list(data_dir.open_logs(lambda _: LogConfig()))
    assert data_dir.topic_ids == {NAME: UUID(int=1)}
    with pytest.raises(StorageError, match="another topic of this name"):
        data_dir.create_log(NAME, LogConfig(), topic_id=UUID(int=2))
    assert data_dir.create_log(NAME, LogConfig(), topic_id=UUID(int=1)).end_offset == 1
    data_dir.is_settled = True
    assert data_dir.create_log(NAME, LogConfig(), topic_id=UUID(int=2)).end_offset == 0


def test_the_first_records_of_a_partition_bring_one_sync_more() -> None:
    counts = []
    for topic_id in (None, UUID(int=1)):
        disk = SimulatedDisk(1)
        data_dir = DataDir(disk, "/data")
        before = sum(disk.syncs.values())
        log = data_dir.create_log(NAME, LogConfig(), topic_id=topic_id)
        append(log, plain(1))
        log.flush()
        append(log, plain(1))
        log.flush()
        counts.append(sum(disk.syncs.values()) - before)
    assert counts == [4, 5]


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_an_id_that_cannot_be_read_is_damage_only_where_records_are_known_to_be_synced(is_checkpointed: bool) -> None:
    disk = SimulatedDisk(1)
    data_dir = DataDir(disk, "/data")
    log = data_dir.create_log(NAME, LogConfig(), topic_id=UUID(int=1))
    append(log, plain(1))
    log.flush()
    if is_checkpointed:
        data_dir.checkpoint()
    overwrite(disk, b"")
    data_dir = DataDir(disk, "/data")
    list(data_dir.open_logs(lambda _: LogConfig()))
    assert (NAME in data_dir.unreadable) == is_checkpointed
