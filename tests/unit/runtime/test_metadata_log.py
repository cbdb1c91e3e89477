"""The metadata log on the simulated disk: commits in turn, refusals, failures, snapshots, damage."""

import asyncio
import errno
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from barnabas.core.errors import (
    ControllerBusy,
    NotController,
    RecordTooLarge,
    StorageError,
    StorageExhausted,
    TopicExists,
)
from barnabas.core.metadata import (
    MetadataDecision,
    MetadataRecord,
    set_configs,
)
from barnabas.core.metadata.commits import encode_commit
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.records import TOPIC_RESOURCE, ConfigRecord, ProducerIdsRecord, RemoveTopicRecord
from barnabas.core.records.batch import iter_batches
from barnabas.runtime.disk import OsDisk
from barnabas.runtime.metadata_log import METADATA_LOG_CONFIG, MetadataLog, MetadataLogConfig
from barnabas.runtime.offload import ThreadOffload
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import Keep, SimulatedDisk
from tests.unit.runtime.metadata_support import (
    GatedOffload,
    commit,
    ids,
    open_metadata,
    register,
    run,
    start_metadata,
    topic,
)

pytestmark = pytest.mark.usefixtures("loop_of_test")


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_commit_is_in_the_image_and_survives_a_crash() -> None:
    disk = SimulatedDisk(1)
    _, metadata = open_metadata(disk)
    commit(metadata, register)

    run(metadata.commit(topic("a", 3)))
    disk.crash(Keep.NOTHING)
    _, again = open_metadata(disk)

    assert len(metadata.image.get_topic("a").partitions) == 3
    assert again.image == metadata.image


def test_what_is_assumed_for_want_of_room_is_written_once_there_is_some() -> None:
    disk = SimulatedDisk(1)
    _, metadata = open_metadata(disk)
    disk.fail_write(count=None)
    with pytest.raises(StorageExhausted):
        commit(metadata, register)
    metadata.assume(register)
    assert 1 in metadata.image.nodes
    assert not run(metadata.write_assumed())
    disk.clear_faults()
    assert run(metadata.write_assumed())
    assert run(metadata.write_assumed())
    disk.crash(Keep.NOTHING)
    _, again = open_metadata(disk)
    assert again.image == metadata.image


def test_a_start_without_room_answers_what_needs_no_writing_and_goes_on_once_there_is_some() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk(1)
        data_dir, metadata = await start_metadata(disk)
        await metadata.commit(ids(5))
        await metadata.close()
        data_dir.close()
        disk.fail_write(count=None)
        _, metadata = await start_metadata(disk)

        assert await metadata.commit(lambda image: MetadataDecision([], image.next_producer_id)) == 5
        with pytest.raises(StorageExhausted):
            await metadata.commit(register)
        metadata.assume(register)
        assert not await metadata.write_assumed()
        disk.clear_faults()
        while not await metadata.write_assumed():  # noqa: ASYNC110 - as the watch of the disk does
            await asyncio.sleep(0.02)
        assert await metadata.commit(ids(1)) == range(5, 6)
        disk.crash(Keep.NOTHING)
        _, again = await start_metadata(disk)
        assert again.image == metadata.image

    run(scenario())


def test_what_is_assumed_is_written_before_what_is_committed_after_it() -> None:
    disk = SimulatedDisk(1)
    _, metadata = open_metadata(disk)
    metadata.assume(register)
    run(metadata.commit(topic("a", 3)))
    assert run(metadata.write_assumed())
    disk.crash(Keep.NOTHING)
    _, again = open_metadata(disk)
    assert again.image == metadata.image
    assert len(again.image.get_topic("a").partitions) == 3


def test_a_clean_shutdown_needs_no_recovery() -> None:
    disk = SimulatedDisk(1)
    data_dir, metadata = open_metadata(disk)
    commit(metadata, register)
    data_dir.close()

    data_dir, again = open_metadata(disk)

    assert again.image == metadata.image
    assert again.notes == ()
    assert data_dir.logs[METADATA_PARTITION].config == METADATA_LOG_CONFIG


def test_each_start_leads_in_a_newer_epoch() -> None:
    disk = SimulatedDisk(1)
    epochs = []
    for _ in range(3):
        data_dir, metadata = open_metadata(disk)
        commit(metadata, ids())
        epochs.append((metadata.epoch, metadata.quorum.leader_epoch, metadata.quorum.leader_id))
        data_dir.close()

    assert epochs == [(1, 1, 1), (2, 2, 1), (3, 3, 1)]


def test_commits_are_decided_one_after_another_in_the_order_of_their_calls() -> None:
    async def scenario() -> None:
        _, metadata = await start_metadata(SimulatedDisk(1))

        ranges = await asyncio.gather(*(metadata.commit(ids(count)) for count in (5, 1, 3)))

        assert ranges == [range(5), range(5, 6), range(6, 9)]
        assert metadata.high_watermark == metadata.end_offset == 4

    run(scenario())


def test_nothing_is_seen_of_a_commit_before_it_is_durable() -> None:
    async def scenario() -> None:
        offload = GatedOffload()
        _, metadata = await start_metadata(SimulatedDisk(1), offload=offload)
        heard: list[Sequence[MetadataRecord]] = []
        metadata.subscribe(heard.append)
        await settle()
        offload.gate.clear()
        commit = asyncio.ensure_future(metadata.commit(ids(7)))
        await settle()

        assert (metadata.end_offset, metadata.high_watermark) == (2, 1)
        assert (metadata.image.next_producer_id, heard, commit.done()) == (0, [], False)

        offload.gate.set()
        await commit
        assert metadata.image.next_producer_id == 7
        assert heard == [[ProducerIdsRecord(7)]]

    run(scenario())


def test_subscribers_hear_of_a_commit_in_their_order_with_the_image_up_to_date() -> None:
    _, metadata = open_metadata(SimulatedDisk(1))
    heard: list[tuple[str, int]] = []
    metadata.subscribe(lambda _records: heard.append(("first", metadata.image.next_producer_id)))
    metadata.subscribe(lambda _records: heard.append(("second", metadata.image.next_producer_id)))

    run(metadata.commit(ids(2)))
    commit(metadata, ids(2))

    assert heard == [("first", 2), ("second", 2), ("first", 4), ("second", 4)]


def test_a_subscriber_that_raises_keeps_no_other_from_hearing_and_the_commit_stands() -> None:
    async def scenario() -> None:
        _, metadata = await start_metadata(SimulatedDisk(1))
        heard: list[Sequence[MetadataRecord]] = []

        def fail(_records: Sequence[MetadataRecord]) -> None:
            raise ValueError("a bug")

        metadata.subscribe(fail)
        metadata.subscribe(heard.append)

        with pytest.raises(ValueError, match="a bug"):
            await metadata.commit(ids(2))

        assert len(heard) == 1
        assert metadata.image.next_producer_id == 2

    run(scenario())


def test_a_refusal_passes_through_and_changes_nothing() -> None:
    async def scenario() -> None:
        _, metadata = await start_metadata(SimulatedDisk(1))
        await metadata.commit(register)
        await metadata.commit(topic("a"))
        end_offset = metadata.end_offset

        with pytest.raises(TopicExists):
            await metadata.commit(topic("a"))

        assert metadata.end_offset == end_offset
        await metadata.commit(topic("b"))

    run(scenario())


def test_a_decision_without_records_appends_nothing() -> None:
    _, metadata = open_metadata(SimulatedDisk(1))
    heard: list[Sequence[MetadataRecord]] = []
    metadata.subscribe(heard.append)

    reply = run(metadata.commit(lambda _image: MetadataDecision([], "yes")))

    assert (reply, metadata.end_offset, heard) == ("yes", 1, [])


def test_a_record_too_large_for_the_log_is_refused_and_the_next_commit_goes_on() -> None:
    _, metadata = open_metadata(SimulatedDisk(1))
    commit(metadata, register)
    commit(metadata, topic("a"))

    with pytest.raises(RecordTooLarge):
        commit(metadata, lambda image: set_configs(image, TOPIC_RESOURCE, "a", {"x": "v" * 9_000_000}))

    assert metadata.image.config_of(TOPIC_RESOURCE, "a") == {}
    assert commit(metadata, ids(3)) == range(3)


@pytest.mark.parametrize("fault", ["write", "sync"])
def test_a_commit_that_fails_on_disk_leaves_the_image_as_it_was(fault: str) -> None:
    async def scenario() -> None:
        disk = SimulatedDisk(1)
        _, metadata = await start_metadata(disk)
        await metadata.commit(ids(5))
        if fault == "write":
            disk.fail_write(lambda path: path.endswith(".log"), error=errno.EIO)
        else:
            disk.fail_sync(lambda path: path.endswith(".log"))

        with pytest.raises(StorageError):
            await metadata.commit(ids(5))
        with pytest.raises(StorageError):
            await metadata.commit(ids(5))
        with pytest.raises(StorageError):
            await metadata.commit(ids(5))

        assert metadata.image.next_producer_id == 5
        assert metadata.high_watermark == 2

    run(scenario())


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
def test_a_commit_that_finds_no_room_is_refused_and_the_next_is_taken(error: int) -> None:
    async def scenario() -> None:
        disk = SimulatedDisk(1)
        _, metadata = await start_metadata(disk)
        await metadata.commit(ids(5))
        disk.fail_write(lambda path: path.endswith(".log"), after_bytes=7, error=error)
        with pytest.raises(StorageExhausted):
            await metadata.commit(ids(5))
        assert metadata.image.next_producer_id == 5
        assert await metadata.commit(ids(3)) == range(5, 8)
        disk.crash()
        _, again = await start_metadata(disk)
        assert again.image.next_producer_id == 8

    run(scenario())


def test_records_that_cannot_be_applied_stop_the_log_rather_than_go_on_in_another_state() -> None:
    async def scenario() -> None:
        _, metadata = await start_metadata(SimulatedDisk(1))

        with pytest.raises(Exception, match="does not exist"):
            await metadata.commit(lambda _image: MetadataDecision([RemoveTopicRecord(UUID(int=5))], None))
        with pytest.raises(StorageError, match="accepts no more"):
            await metadata.commit(ids())

    run(scenario())


def test_a_commit_whose_caller_gives_up_is_brought_to_its_end() -> None:
    async def scenario() -> None:
        offload = GatedOffload()
        _, metadata = await start_metadata(SimulatedDisk(1), offload=offload)
        offload.gate.clear()
        abandoned = asyncio.ensure_future(metadata.commit(ids(5)))
        await settle()
        abandoned.cancel()
        await settle()
        assert abandoned.cancelled()
        following = asyncio.ensure_future(metadata.commit(ids(1)))

        offload.gate.set()
        assert await following == range(5, 6)
        assert metadata.image.next_producer_id == 6

    run(scenario())


def test_a_caller_who_gives_up_hears_of_that_and_not_that_the_commit_was_refused() -> None:
    """A task that would go on after a refusal must end when it is cancelled, whatever comes at the same moment."""

    async def give_up_after(turns: int) -> bool:
        disk = SimulatedDisk(1)
        _, metadata = await start_metadata(disk)
        disk.fail_write(count=None)
        abandoned = asyncio.ensure_future(metadata.commit(ids(5)))
        for _ in range(turns):
            await asyncio.sleep(0)
        was_waiting = abandoned.cancel()
        await asyncio.wait([abandoned])
        assert abandoned.cancelled() == was_waiting
        if not was_waiting:
            assert isinstance(abandoned.exception(), StorageExhausted)
        return was_waiting

    async def scenario() -> list[bool]:
        return [await give_up_after(turns) for turns in range(12)]

    assert set(run(scenario())) == {True, False}


def test_a_commit_that_is_given_up_while_it_waits_for_its_turn_never_happens() -> None:
    async def scenario() -> None:
        _, metadata = await start_metadata(SimulatedDisk(1))
        await metadata.commit(register)
        first = asyncio.ensure_future(metadata.commit(topic("wide", 30_000)))
        second = asyncio.ensure_future(metadata.commit(ids(100)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not first.done()
        second.cancel()

        await first
        assert await metadata.commit(ids(1)) == range(1)

    run(scenario())


def test_several_commits_are_on_their_way_at_once_and_each_sees_those_before_it() -> None:
    async def scenario() -> None:
        offload = GatedOffload()
        _, metadata = await start_metadata(SimulatedDisk(1), offload=offload)
        await metadata.commit(register)
        offload.gate.clear()
        commits = []
        for decide in (ids(5), topic("a"), ids(1)):
            commits.append(asyncio.ensure_future(metadata.commit(decide)))
            await settle()
        refused = asyncio.ensure_future(metadata.commit(topic("a")))
        unchanged = asyncio.ensure_future(metadata.commit(lambda image: MetadataDecision([], image.next_producer_id)))
        await settle()

        assert metadata.end_offset == metadata.high_watermark + 4
        assert (metadata.image.next_producer_id, metadata.image.topics) == (0, {})
        # Whether it exists is known only when that is committed.
        assert not refused.done()
        assert not unchanged.done()

        offload.gate.set()
        replies = await asyncio.gather(*commits)
        assert (replies[0], replies[2]) == (range(5), range(5, 6))
        with pytest.raises(TopicExists):
            await refused
        assert await unchanged == 6
        assert list(metadata.image.topics) == ["a"]

    run(scenario())


def test_commits_that_are_under_way_when_the_disk_fails_are_not_answered_as_done() -> None:
    async def scenario() -> None:
        disk, offload = SimulatedDisk(1), GatedOffload()
        _, metadata = await start_metadata(disk, offload=offload)
        await metadata.commit(register)
        offload.gate.clear()
        commits = [asyncio.ensure_future(metadata.commit(decide)) for decide in (ids(5), topic("a"), topic("a"))]
        await settle()
        disk.fail_sync(lambda path: path.endswith(".log"))
        offload.gate.set()

        outcomes = await asyncio.gather(*commits, return_exceptions=True)
        assert all(isinstance(outcome, StorageError) for outcome in outcomes)
        assert (metadata.image.next_producer_id, metadata.image.topics) == (0, {})

    run(scenario())


def test_only_so_many_commits_are_under_way() -> None:
    async def scenario() -> None:
        offload = GatedOffload()
        config = MetadataLogConfig(max_waiting_commits=2)
        _, metadata = await start_metadata(SimulatedDisk(1), offload=offload, config=config)
        offload.gate.clear()
        commits = []
        for _ in range(2):
            commits.append(asyncio.ensure_future(metadata.commit(ids())))
            await settle()

        with pytest.raises(ControllerBusy):
            await metadata.commit(ids())

        offload.gate.set()
        await asyncio.gather(*commits)
        await metadata.commit(ids())

    run(scenario())


def test_closing_lets_the_commits_under_way_finish_and_refuses_the_others() -> None:
    async def scenario() -> None:
        offload = GatedOffload()
        _, metadata = await start_metadata(SimulatedDisk(1), offload=offload)
        offload.gate.clear()
        commits = [asyncio.ensure_future(metadata.commit(ids(5))) for _ in range(2)]
        await settle()
        closing = asyncio.ensure_future(metadata.close())
        await settle()
        assert not closing.done()
        with pytest.raises(NotController):
            await metadata.commit(ids(5))

        offload.gate.set()
        await closing
        assert await asyncio.gather(*commits) == [range(5), range(5, 10)]

    run(scenario())


def test_a_commit_of_several_batches_is_passed_over_when_its_end_is_missing() -> None:
    disk = SimulatedDisk(1)
    data_dir, metadata = open_metadata(disk)
    commit(metadata, register)
    data = encode_commit([ConfigRecord(4, "", f"n{n}", "v" * 1000) for n in range(1500)], timestamp_ms=0)
    position, last = list(iter_batches(data))[-1]
    log = data_dir.logs[METADATA_PARTITION]
    log.append(data[:position], leader_epoch=metadata.epoch, now_ms=0)
    log.flush()
    disk.restart()

    _, again = open_metadata(disk)

    assert last.record_count > 0
    assert again.image == metadata.image
    assert "interrupted commit" in again.notes[0]
    commit(again, ids(4))
    disk.crash(Keep.NOTHING)
    assert open_metadata(disk)[1].image == again.image


def test_the_records_with_which_each_epoch_begins_are_passed_over() -> None:
    disk = SimulatedDisk(1)
    for _ in range(3):
        _, metadata = open_metadata(disk)
        commit(metadata, ids(4))
        disk.crash(Keep.NOTHING)

    _, again = open_metadata(disk)

    assert again.image == metadata.image
    assert (again.image.next_producer_id, again.notes) == (12, ())
    assert (again.applied_offset, again.end_offset) == (6, 7)


def test_a_commit_of_many_batches_comes_back_whole() -> None:
    disk = SimulatedDisk(1)
    _, metadata = open_metadata(disk)
    commit(metadata, register)

    commit(metadata, topic("large", 30_000))
    disk.crash(Keep.NOTHING)

    assert open_metadata(disk)[1].image == metadata.image


def test_it_works_on_a_real_disk_with_real_threads(tmp_path: Path) -> None:
    async def scenario(metadata: MetadataLog) -> list[range]:
        async with asyncio.TaskGroup() as tasks:
            await metadata.start(tasks)
            replies = await asyncio.gather(*(metadata.commit(ids(2)) for _ in range(20)))
            await metadata.close()
        return replies

    offload = ThreadOffload(2)
    path = str(tmp_path / "data")
    data_dir = DataDir(OsDisk(), path)
    metadata = MetadataLog.open(data_dir, offload=offload, config=MetadataLogConfig(max_records_between_snapshots=6))
    replies = run(scenario(metadata))
    data_dir.close()

    again = MetadataLog.open(DataDir(OsDisk(), path), offload=offload)
    offload.close()

    assert replies == [range(start, start + 2) for start in range(0, 40, 2)]
    assert again.image == metadata.image
    assert again.snapshot is not None
    assert again.snapshot == metadata.snapshot
