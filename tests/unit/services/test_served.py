"""The topics a node serves, when things go wrong beneath them."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from barnabas.core.errors import StorageError
from barnabas.core.metadata.records import NO_LEADER
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.services.broker import Broker
from barnabas.services.leftovers import settle_leftovers
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


def test_the_log_of_a_replica_is_kept_where_the_metadata_say_at_once_that_it_is_here_and_that_nobody_leads() -> None:
    """As when a node that was down while a partition was moved to it has fetched a snapshot of the metadata.

    The replica counted as another node's, and its directory was removed as a leftover.
    """

    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=1)
        partition = broker.served.get_partition("t", 0)
        partition.append(encode_batch([Record(0, 0, None, b"kept")]), now_ms=0)
        partition.log.flush()
        state = broker.metadata.image.get_topic("t").partitions[0]
        elsewhere = msgspec.structs.replace(state, replicas=(7,), isr=(7,), leader=7, leader_epoch=1)
        partition.be_without_leader(1, broker.served._replication(broker.served.get("t"), elsewhere))
        broker.served.apply([msgspec.structs.replace(state, leader=NO_LEADER, leader_epoch=2)])
        settle_leftovers(broker.served, broker.logs.data_dir)

        assert partition.is_here
        assert partition.name in broker.logs.data_dir.logs
        broker.served.apply([msgspec.structs.replace(state, leader_epoch=3)])
        assert partition.end_offset == 1

    run(scenario)
