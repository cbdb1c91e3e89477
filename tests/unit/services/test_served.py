"""The topics a node serves, when things go wrong beneath them."""

from collections.abc import Callable, Sequence

import pytest

from barnabas.core.errors import StorageError
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.services.broker import Broker
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import Keep, SimulatedDisk
from tests.unit.edge.kafka.support import create, run


def test_files_that_cannot_be_removed_end_neither_the_node_nor_the_wait_for_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> list[str]:
        raise StorageError("the disk is gone")

    def begin_removal(partitions: Sequence[TopicPartition]) -> Callable[[], list[str]]:
        return fail

    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        broker.logs.data_dir.begin_removal = begin_removal  # type: ignore[method-assign]
        await broker.topics.delete("t")
        await broker.served.wait_removed("t")
        await create(broker, "other")
        assert list(broker.served.by_name) == ["other"]

    run(scenario)
    assert "the files of the deleted topic t are not removed: the disk is gone" in caplog.text


FAULTS: dict[str, Callable[[SimulatedDisk], None]] = {
    "no room for the checkpoints": lambda disk: disk.fail_write(lambda path: "checkpoint" in path, count=4),
    "no descriptor for the directory": lambda disk: disk.fail_open(lambda path: path == "/data", count=4),
    "no room for another name": lambda disk: disk.fail_rename(lambda path: path.endswith("-delete"), count=4),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_name_is_not_free_before_the_files_of_its_old_topic_are_gone_whatever_has_to_wait(fault: str) -> None:
    async def scenario(broker: Broker) -> None:
        disk = broker.logs.data_dir.disk
        assert isinstance(disk, SimulatedDisk)
        await create(broker, "t")
        broker.served.get_partition("t", 0).append(encode_batch([Record(0, 0, None, b"old")]), now_ms=0)
        broker.logs.data_dir.checkpoint()
        FAULTS[fault](disk)
        await broker.topics.delete("t")
        await create(broker, "t")
        partition = broker.served.get_partition("t", 0)
        assert (partition.log_start_offset, partition.end_offset) == (0, 0)
        log = broker.logs.data_dir.create_log(partition.name, LogConfig())
        assert log.end_offset == 0
        log.flush()
        disk.crash(Keep.NOTHING)
        found = DataDir(disk, "/data")
        assert found.create_log(partition.name, LogConfig()).end_offset == 0
        assert [name for name in disk.list_dir("/data") if name.endswith("-delete")] == []

    run(scenario, is_virtual=True)


def test_files_that_cannot_be_removed_for_now_do_not_keep_a_node_from_stopping(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(broker: Broker) -> None:
        disk = broker.logs.data_dir.disk
        assert isinstance(disk, SimulatedDisk)
        await create(broker, "t")
        broker.served.get_partition("t", 0).append(encode_batch([Record(0, 0, None, b"old")]), now_ms=0)
        disk.fail_rename(lambda path: path.endswith("-delete"), count=None)
        await broker.topics.delete("t")
        await broker.served.close()

    run(scenario, is_virtual=True)
    assert "the files of the deleted topic t are not removed" in caplog.text
