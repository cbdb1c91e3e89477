"""A log of groups or of transactions that an earlier version has written: loaded, and rewritten in Kafka's format."""

import asyncio
import random
from collections.abc import Sequence
from uuid import UUID

import pytest

from barnabas.core.coordination import Outcome, Within
from barnabas.core.errors import StorageExhausted
from barnabas.core.groups import old_encoding
from barnabas.core.groups.classic.state import ClassicSoft
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.records import (
    ClassicGroupRecord,
    ClassicMember,
    ConsumerCurrentMemberRecord,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerRegexRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetMemberRecord,
    GroupEntry,
    GroupTombstone,
    OffsetRecord,
    TopicPartitions,
)
from barnabas.core.groups.settings import ConsumerConfig
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition
from barnabas.core.records.batch import iter_whole_batches
from barnabas.core.records.control import MarkerType
from barnabas.core.records.record import Record, decode_records, encode_batch
from barnabas.core.transactions.records import State, TransactionEntry, TransactionRecord, TransactionTombstone
from barnabas.runtime import rewriting
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.group_coordinator import GroupCoordinator
from barnabas.runtime.logs import Logs
from barnabas.runtime.partition import Partition
from barnabas.runtime.transaction_coordinator import TransactionCoordinator
from barnabas.storage.compaction import apply, plan_compaction
from barnabas.storage.config import CleanupPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import Keep, SimulatedCrash, SimulatedDisk
from tests.support.old_logs import old_group_pair, old_transaction_pair
from tests.unit.runtime.metadata_support import FixedClock, GatedOffload

NAME = TopicPartition("__consumer_offsets", 0)
CONFIG = LogConfig(cleanup_policy=(CleanupPolicy.COMPACT,), segment_bytes=1024**2, delete_retention_ms=0)
NOW_MS = FixedClock().now_ms()
KEYS = [("g", "t", partition) for partition in range(4)]
PRODUCERS = (7, 8, 9)
HELD = (TopicPartitions(UUID(int=5), (0, 1)),)
MEMBER = ClassicMember("m1", "i1", "client", "/host", 60_000, 10_000, b"\0", b"\xff")
# All that is known of groups but offsets, with an end for some of it.
OTHERS: tuple[GroupEntry, ...] = (
    ClassicGroupRecord("classic", "consumer", 4, "range", "m1", 5, (MEMBER,)),
    ClassicGroupRecord("gone", "consumer", 4, "range", "m1", 5, (MEMBER,)),
    GroupTombstone(ClassicGroupRecord, ("gone",)),
    ConsumerMemberRecord("c", "m1", "i1", "r", "client", "/host", ("t",), "t.*", 1000, "uniform"),
    ConsumerMemberRecord("c", "m2", None, None, "client", "/host", ("t",)),
    ConsumerGroupRecord("c", 3, 77),
    ConsumerRegexRecord("c", "t.*", ("t", "tt"), 0, 9),
    ConsumerTargetMemberRecord("c", "m1", HELD),
    ConsumerTargetMemberRecord("c", "m2", ()),
    ConsumerTargetEpochRecord("c", 3, 8),
    ConsumerCurrentMemberRecord("c", "m1", 3, 2, 1, (), HELD),
    ConsumerCurrentMemberRecord("c", "m2", 3, 2, 0),
    GroupTombstone(ConsumerCurrentMemberRecord, ("c", "m2")),
    GroupTombstone(ConsumerTargetMemberRecord, ("c", "m2")),
    GroupTombstone(ConsumerMemberRecord, ("c", "m2")),
)


def open_partition(disk: SimulatedDisk, config: LogConfig = CONFIG) -> Partition:
    data_dir = DataDir(disk, "/data")
    for _ in data_dir.open_logs(lambda _: config):
        pass
    assert not data_dir.unreadable
    logs = Logs(data_dir)
    logs.flusher = Flusher(GatedOffload(), listener=logs)
    partition = Partition(NAME, logs, config, leader_epoch=0)
    partition.open_log()
    return partition


async def load(partition: Partition) -> GroupCoordinator:
    coordinator = GroupCoordinator(
        partition,
        soft=ClassicSoft(),
        offload=GatedOffload(),
        clock=FixedClock(),
        topics={},
        config_of=lambda _: ConsumerConfig(),
    )
    await coordinator.load()
    coordinator.check_available()
    return coordinator


def write_old(partition: Partition, pairs: Sequence[tuple[bytes, bytes | None]], within: Within | None = None) -> None:
    """A batch as an earlier version has written it."""
    batch = encode_batch(
        [Record(number, NOW_MS, key, value) for number, (key, value) in enumerate(pairs)],
        producer_id=NO_PRODUCER_ID if within is None else within.producer_id,
        producer_epoch=NO_PRODUCER_EPOCH if within is None else within.producer_epoch,
        base_sequence=NO_SEQUENCE,
        is_transactional=within is not None,
    )
    partition.append(batch, now_ms=NOW_MS)


class History:
    """An old log of groups, and what follows from it."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.disk = SimulatedDisk(seed)
        self.partition = open_partition(self.disk)
        self.groups = Groups()
        self._epochs = dict.fromkeys(PRODUCERS, 0)
        for entry in OTHERS:
            self._write(entry, None)
        for number in range(40):
            self._write_something(number)
        self.partition.log.flush()

    def _write_something(self, number: int) -> None:
        key, producer_id = self.dice.choice(KEYS), self.dice.choice(PRODUCERS)
        kind = self.dice.choice(("plain", "tombstone", "pending", "pending", "end"))
        if kind == "end":
            self.end(self.partition, producer_id, is_commit=self.dice.random() < 0.6)
        elif kind == "tombstone":
            self._write(GroupTombstone(OffsetRecord, key), None)
        else:
            self._write(
                OffsetRecord(*key, number, topic_id=UUID(int=number)), producer_id if kind == "pending" else None
            )

    def _write(self, entry: GroupEntry, producer_id: int | None) -> None:
        if producer_id is None:
            write_old(self.partition, [old_group_pair(entry)])
            self.groups.apply(entry)
        else:
            write_old(self.partition, [old_group_pair(entry)], Within(producer_id, self._epochs[producer_id]))
            self.groups.apply_pending(producer_id, entry)

    def end(self, partition: Partition, producer_id: int, *, is_commit: bool) -> None:
        """Write a marker; what it says is taken into account here."""
        self._epochs[producer_id] += 1
        partition.append_marker(
            MarkerType.COMMIT if is_commit else MarkerType.ABORT,
            producer_id=producer_id,
            producer_epoch=self._epochs[producer_id],
            coordinator_epoch=0,
            version=2,
            now_ms=NOW_MS,
        )
        self.groups.end_transaction(producer_id, is_commit=is_commit)


def known(groups: Groups) -> tuple[object, ...]:
    """All that counts: of what is pending, not its number."""
    pending = {
        producer_id: {key: each.record for key, each in keys.items()} for producer_id, keys in groups.pending.items()
    }
    return groups.classic, groups.consumer, groups.offsets, pending


def old_keys_in(partition: Partition) -> list[bytes]:
    found: list[bytes] = []
    log = partition.log
    for segment in log.segments_from(log.log_start_offset):
        data = segment.file().read(0, segment.size)
        for position, header in iter_whole_batches(data):
            if not header.is_control:
                keys = [record.key for record in decode_records(data, position, header) if record.key is not None]
                found += filter(old_encoding.is_old, keys)
    return found


def compact(partition: Partition) -> None:
    """Compact everything, tombstones too."""
    log = partition.log
    for later_ms in (10**6, 2 * 10**6):
        log.roll()
        log.flush()
        plan = plan_compaction(
            log, now_ms=NOW_MS + later_ms, hash_key=bytes(16), high_watermark=log.flushed_offset, is_forced=True
        )
        if plan is not None:
            apply(log, plan.run())


@pytest.mark.parametrize("seed", range(25))
def test_an_old_log_says_the_same_once_it_is_rewritten(seed: int) -> None:
    async def scenario() -> None:
        history = History(seed)
        loaded = await load(history.partition)
        assert known(loaded.groups) == known(history.groups)
        assert not loaded.old_keys
        end_offset = history.partition.end_offset

        again = await load(history.partition)
        assert known(again.groups) == known(history.groups)
        assert history.partition.end_offset == end_offset  # nothing was left to rewrite

        compact(history.partition)
        compacted = await load(history.partition)
        assert known(compacted.groups) == known(history.groups)
        assert history.partition.end_offset == end_offset

        for producer_id in history.dice.sample(PRODUCERS, len(PRODUCERS)):
            is_commit = history.dice.random() < 0.6
            history.end(history.partition, producer_id, is_commit=is_commit)
            compacted.end_transaction(producer_id, is_commit=is_commit)
            assert known(compacted.groups) == known(history.groups)
        compact(history.partition)
        assert old_keys_in(history.partition) == []
        assert known((await load(history.partition)).groups) == known(history.groups)

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(5))
def test_nothing_of_an_old_log_comes_back_once_it_is_deleted(seed: int) -> None:
    async def scenario() -> None:
        history = History(seed)
        loaded = await load(history.partition)
        for producer_id in PRODUCERS:
            history.end(history.partition, producer_id, is_commit=True)
            loaded.end_transaction(producer_id, is_commit=True)
        gone = [
            each
            for group in ("g", "c", "classic")
            for each in (*loaded.groups.tombstones_of_offsets(group), *loaded.groups.tombstones_of_group(group))
        ]
        loaded.carry_out(Outcome(gone))
        compact(history.partition)
        assert known((await load(history.partition)).groups) == known(Groups())

    asyncio.run(scenario())


async def crash_while_loading(history: History, step: int, keep: Keep) -> bool:
    """Whether there was a step to crash at."""
    history.disk.crash_after(step)
    try:
        await load(history.partition)
    except SimulatedCrash:
        history.disk.crash(keep)
        history.partition = open_partition(history.disk)
        return True
    history.disk.crash_after(10**9)
    return False


@pytest.mark.parametrize("keep", Keep)
@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_any_step_of_rewriting_loses_nothing(seed: int, keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "KEYS_AT_ONCE", 1)

    async def crashes(step: int) -> bool:
        history = History(seed)
        expected = known(history.groups)
        if not await crash_while_loading(history, step, keep):
            return False
        await crash_while_loading(history, step // 2, keep)  # once more, while what was left is rewritten
        loaded = await load(history.partition)
        assert known(loaded.groups) == expected
        assert not loaded.old_keys
        compact(history.partition)
        assert known((await load(history.partition)).groups) == expected
        return True

    step = 0
    while asyncio.run(crashes(step)):
        step += 1
    assert step > 8


def test_a_marker_that_comes_while_a_log_is_rewritten_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "KEYS_AT_ONCE", 1)

    async def scenario() -> None:
        history = History(3)
        pending = sorted(history.groups.pending)
        assert pending
        coordinator = GroupCoordinator(
            history.partition,
            soft=ClassicSoft(),
            offload=GatedOffload(),
            clock=FixedClock(),
            topics={},
            config_of=lambda _: ConsumerConfig(),
        )
        loading = asyncio.create_task(coordinator.load())
        for _ in range(1000):
            if coordinator.is_following:
                break
            await asyncio.sleep(0)
        assert coordinator.is_following
        was_available = coordinator.is_available
        history.end(history.partition, pending[0], is_commit=True)
        coordinator.end_transaction(pending[0], is_commit=True)
        await loading
        assert (was_available, coordinator.is_available) == (False, True)
        assert known(coordinator.groups) == known(history.groups)
        assert known((await load(history.partition)).groups) == known(history.groups)

    asyncio.run(scenario())


def test_what_is_too_large_to_be_rewritten_stays_until_something_else_is_written() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk(1)
        small = LogConfig(cleanup_policy=(CleanupPolicy.COMPACT,), max_message_bytes=1000, delete_retention_ms=0)
        partition = open_partition(disk, small)
        big = ClassicGroupRecord("g", "consumer", 4, "range", "m1", 5, (MEMBER,) * 8)
        write_old(partition, [old_group_pair(big), *(old_group_pair(OffsetRecord("g", "t", n, n)) for n in range(9))])
        partition.log.config = small.__class__(
            cleanup_policy=small.cleanup_policy, max_message_bytes=300, delete_retention_ms=0
        )
        loaded = await load(partition)
        assert list(loaded.old_keys) == [old_encoding.encode_key(big)]
        assert (await load(partition)).groups.classic == {"g": big}
        loaded.carry_out(Outcome([GroupTombstone(ClassicGroupRecord, ("g",))]))
        assert not loaded.old_keys
        compact(partition)
        again = await load(partition)
        assert again.groups.classic == {}
        assert len(again.groups.offsets["g"]["t"]) == 9

    asyncio.run(scenario())


def test_an_old_log_on_a_full_disk_is_served_as_it_is_and_rewritten_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "KEYS_AT_ONCE", 1)

    async def scenario() -> None:
        history = History(3)
        assert history.groups.pending
        room = Room(monkeypatch)
        for appends in range(4):
            room.left = appends
            loaded = await load(history.partition)
            assert known(loaded.groups) == known(history.groups)
        assert loaded.old_keys
        room.left = None
        loaded.carry_out(Outcome([OffsetRecord("g", "t", 0, 77)]))
        history.groups.apply(OffsetRecord("g", "t", 0, 77))
        compact(history.partition)
        again = await load(history.partition)
        assert not again.old_keys
        assert known(again.groups) == known(history.groups)

    asyncio.run(scenario())


class Room:
    """A disk on which so many more batches have room; None: any number."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        append = Partition.append

        def append_if_there_is_room(partition: Partition, data: bytearray, *, now_ms: int) -> object:
            if self.left == 0:
                raise StorageExhausted("the disk is full")
            if self.left is not None:
                self.left -= 1
            return append(partition, data, now_ms=now_ms)

        patch.setattr(Partition, "append", append_if_there_is_room)


def test_an_old_log_of_transactions_is_rewritten_in_every_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "KEYS_AT_ONCE", 2)
    records = {
        state.name: TransactionRecord(state.name, 7, 3, 9, state, (("t", (0, 2)),), 1, 2, 2, 7, 8, 2) for state in State
    }
    history: list[TransactionEntry] = [
        *(TransactionRecord(name, 1, 1, 1, State.EMPTY) for name in (*records, "gone")),
        *records.values(),
        TransactionTombstone("gone"),
    ]

    def fresh() -> tuple[SimulatedDisk, Partition]:
        disk = SimulatedDisk(1)
        partition = open_partition(disk)
        for entry in history:
            write_old(partition, [old_transaction_pair(entry)])
        partition.log.flush()
        return disk, partition

    async def load_transactions(partition: Partition) -> dict[str, TransactionRecord]:
        coordinator = TransactionCoordinator(
            partition,
            offload=GatedOffload(),
            clock=FixedClock(),
            on_prepared=lambda _to, _id: None,
            on_timeout=lambda _to, _id: None,
        )
        await coordinator.load()
        coordinator.check_available()
        coordinator.close()
        return coordinator.transactions.by_id

    async def crashes(step: int) -> bool:
        disk, partition = fresh()
        disk.crash_after(step)
        try:
            await load_transactions(partition)
        except SimulatedCrash:
            disk.crash(Keep.RANDOM)
            partition = open_partition(disk)
        else:
            disk.crash_after(10**9)
        for _ in range(2):
            assert await load_transactions(partition) == records
            compact(partition)
        assert old_keys_in(partition) == []
        return disk.mutations > 0 and step < 8

    step = 0
    while asyncio.run(crashes(step)):
        step += 1
