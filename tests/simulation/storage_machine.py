"""A data directory on a failing disk, driven at random from one seed and compared with a model at every turn.

`run(seed)` does some dozens of operations on up to three logs, cuts the power, kills the process or has a sync fail at
arbitrary disk operations (in the middle of appends, rolls, flushes, cuts, closings and of recovery itself), opens the
directory again, in most cases of a failed sync without a power cut, and checks what is there. A failure names its seed;
`run` with that seed fails again in the same way.

What must hold after every reopening:
- everything below the durable offset is there, byte for byte, and what is there is a prefix of what was appended:
  nothing invented, no holes;
- the start is where records were last said to be deleted to;
- epochs, producers, open and aborted transactions are those of the batches that are there;
- nothing is called corrupt.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

import msgspec

from barnabas.core.errors import (
    BarnabasError,
    InvalidProducerEpoch,
    OffsetOutOfRange,
    OutOfOrderSequence,
    StorageError,
)
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import iter_batches
from barnabas.core.records.control import MarkerType, encode_marker
from barnabas.core.records.record import Record, encode_batch
from barnabas.storage import segmented_log
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.disk import SyncFailed
from barnabas.storage.log import Log
from barnabas.storage.lookup import get_record, offset_for_timestamp
from barnabas.storage.retention import apply_retention
from barnabas.storage.truncate import delete_before, reset_to, truncate_to
from barnabas.storage.unsynced import FlushPlan
from barnabas.testing.disk import Keep, SimulatedCrash, SimulatedDisk
from tests.simulation.storage_checks import Underway, adopt, check_live, check_producers, expect
from tests.simulation.storage_model import LogModel, ModelBatch, Violation

DATA: Final = "/data"
PARTITIONS: Final = tuple(TopicPartition("topic", number) for number in range(3))
PRODUCERS: Final = (7, 8, 9)
NOW_MS: Final = 1_700_000_000_000


class Machine:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk(Random(self.random.random()))
        self.configs = {
            partition: LogConfig(
                segment_bytes=self.random.choice((1024, 2048, 6000, 20_000)),
                index_interval_bytes=self.random.choice((0, 0, 300, 4096)),
                message_timestamp_type=self.random.choice(("CreateTime", "CreateTime", "LogAppendTime")),
            )
            for partition in PARTITIONS[: self.random.choice((1, 2, 3))]
        }
        self.max_open_files = self.random.choice((4, 12, 64))
        self.sizes = self.random.choice(((0, 20, 20, 60, 150, 600, 1300), (0, 0, 1, 5, 10)))
        self.models: dict[TopicPartition, LogModel] = {}
        self.plans: list[tuple[TopicPartition, FlushPlan, bool]] = []
        self.underway: Underway | None = None
        # Logs that lost snapshots: of records deleted at the front they may know no more than what is left.
        self.tampered: set[TopicPartition] = set()
        self.now_ms = NOW_MS
        self.serial = 0
        self.epochs: Counter[TopicPartition] = Counter()  # the latest of each log: the controller never goes back
        self.counts: Counter[str] = Counter()
        self.is_sync_failing = False
        self.data_dir = self._open()

    # Running.

    def run(self, steps: int) -> None:
        with snapshots_every(2000):
            for _ in range(steps):
                self.step()
            self._die()

    def step(self) -> None:
        if self.random.random() < 0.12:
            self.disk.crash_after(self.random.randrange(25))
        if self.random.random() < 0.04:
            self._fail_sync()
        self.perform(self.random.choices(RULES, weights=_WEIGHTS)[0])

    def perform(self, rule: Callable[["Machine"], None]) -> None:
        """Do one operation, survive the crash in it if there is one, and compare."""
        try:
            rule(self)
        except SimulatedCrash:
            self.counts["crash in " + rule.__name__] += 1
            self._reopen()
        except (StorageError, SyncFailed):
            if not self.is_sync_failing:
                raise
            self.counts["failed sync in " + rule.__name__] += 1
            self._reopen()
        else:
            self._check_live()
        self.underway = None

    def _fail_sync(self) -> None:
        """Have the next sync fail: as much of it is on disk as chance will have it, and all of it can still be read."""
        self.disk.fail_sync(keep=self.random.choice((Keep.NOTHING, Keep.RANDOM)))
        self.is_sync_failing = True

    def _die(self) -> None:
        """A crash between two operations."""
        self.counts["crash at rest"] += 1
        self._reopen()

    def _reopen(self) -> None:
        """Come back from a crash, with more crashes on the way."""
        self.plans.clear()
        while True:
            self.counts["crash points"] += 1
            if self.random.random() < (0.75 if self.is_sync_failing else 0.25):
                self.disk.restart()
            else:
                self.disk.crash(
                    self.random.choice((Keep.RANDOM, Keep.RANDOM, Keep.RANDOM, Keep.NOTHING, Keep.EVERYTHING))
                )
            if self.random.random() < 0.15:
                self._tamper()
            if self.random.random() < 0.35:
                self.disk.crash_after(self.random.randrange(30))
            try:
                self.data_dir = self._open()
            except SimulatedCrash:
                self.counts["crash in recovery"] += 1
                continue
            except StorageError:
                if not self.is_sync_failing:
                    raise
                self.counts["failed sync in recovery"] += 1
                continue
            break
        self.disk.clear_faults()
        self.is_sync_failing = False
        self._check_reopened()
        self._check_live()

    def _open(self) -> DataDir:
        data_dir = DataDir(self.disk, DATA, max_open_files=self.max_open_files)
        for _ in data_dir.open_logs(self.configs.__getitem__):
            pass
        return data_dir

    def _tamper(self) -> None:
        """Remove or spoil files that can be made again; not while a sync is to fail, which is to be the log's."""
        if self.is_sync_failing:
            return
        for partition in self.configs:
            directory = f"{DATA}/{partition}"
            if not self.disk.exists(directory):
                continue
            for name in self.disk.list_dir(directory):
                if name.endswith((".index", ".timeindex", ".snapshot")) and self.random.random() < 0.5:
                    self._spoil(f"{directory}/{name}")
                    self.counts["spoilt files"] += 1
                    if name.endswith(".snapshot"):
                        self.tampered.add(partition)

    def _spoil(self, path: str) -> None:
        way = self.random.randrange(4)
        if way == 0:
            self.disk.remove(path)
            self.disk.sync_dir(path.rpartition("/")[0])
            return
        file = self.disk.open(path)
        size = file.size()
        if way == 1:
            file.truncate(self.random.randrange(size + 1))
        elif way == 2:
            file.write(size, self.random.randbytes(self.random.randrange(1, 30)))
        elif size:
            self.disk.flip_bit(path, self.random.randrange(size), self.random.randrange(8))
        file.sync()

    # Rules.

    def _some_log(self) -> tuple[TopicPartition, Log, LogModel]:
        partition = self.random.choice(tuple(self.configs))
        if partition not in self.models:
            self._create(partition)
        return partition, self.data_dir.logs[partition], self.models[partition]

    def _create(self, partition: TopicPartition) -> None:
        self.underway = Underway(partition, "create")
        self.data_dir.create_log(partition, self.configs[partition])
        self.models[partition] = LogModel()
        self.underway = None

    def append_plain(self) -> None:
        self._append(b"".join(self._batch() for _ in range(self.random.choice((1, 1, 1, 2, 4)))))

    def append_idempotent(self) -> None:
        partition, log, model = self._some_log()
        if model.is_vague:
            self._append(self._batch(), of=partition)
            return
        producer_id = self.random.choice(PRODUCERS)
        known = model.producers().by_id.get(producer_id)
        count = self.random.randrange(1, 4)
        if known is None or not known.batches:
            epoch = 0 if known is None else max(known.epoch, 0)
            self._append(self._batch(count, producer_id, epoch, 0, False), of=partition)
            return
        choice = self.random.random()
        next_sequence = (known.batches[-1].last_sequence + 1) % 2**31
        is_transactional = known.transaction_start is not None
        if any(each.first_sequence == next_sequence for each in known.batches):
            return  # a life that was forgotten and is remembered again: nobody can tell a retry
        if choice < 0.55:
            self._append(self._batch(count, producer_id, known.epoch, next_sequence, is_transactional), of=partition)
        elif choice < 0.8:
            written = self.random.choice(known.batches)
            again = self._batch(
                written.last_offset - written.first_offset + 1,
                producer_id,
                known.epoch,
                written.first_sequence,
                is_transactional,
            )
            if known.has_ended(written):
                self._refused(log, again, OutOfOrderSequence)
                return
            appended = log.append(again, leader_epoch=self.epochs[log.partition], now_ms=self.now_ms)
            expect(appended.is_duplicate, "a retry was written again")
            expect(
                (appended.first_offset, appended.last_offset) == (written.first_offset, written.last_offset),
                "a retry was answered with other offsets",
            )
        elif choice < 0.9:
            gap = self._batch(1, producer_id, known.epoch, (next_sequence + 2) % 2**31, is_transactional)
            self._refused(log, gap, OutOfOrderSequence)
        elif known.epoch > 0:
            old = self._batch(1, producer_id, known.epoch - 1, 0, is_transactional)
            self._refused(log, old, InvalidProducerEpoch)
        else:
            self._append(self._batch(count, producer_id, known.epoch + 1, 0, is_transactional), of=partition)

    def append_in_transaction(self) -> None:
        partition, _, model = self._some_log()
        if model.is_vague:
            return
        producer_id = self.random.choice(PRODUCERS)
        known = model.producers().by_id.get(producer_id)
        sequence, epoch = 0, 0
        if known is not None:
            epoch = max(known.epoch, 0)
            sequence = (known.batches[-1].last_sequence + 1) % 2**31 if known.batches else 0
            if any(each.first_sequence == sequence for each in known.batches):
                return
        self._append(self._batch(self.random.randrange(1, 4), producer_id, epoch, sequence, True), of=partition)

    def end_transaction(self) -> None:
        partition, _, model = self._some_log()
        producers = model.producers().by_id
        open_ids = sorted(each for each in producers if producers[each].transaction_start is not None)
        if not open_ids or model.is_vague:
            return
        producer_id = self.random.choice(open_ids)
        marker = encode_marker(
            self.random.choice((MarkerType.COMMIT, MarkerType.ABORT)),
            producer_id=producer_id,
            producer_epoch=producers[producer_id].epoch + self.random.choice((0, 0, 1)),
            coordinator_epoch=max(producers[producer_id].coordinator_epoch, 0) + self.random.choice((0, 1)),
            timestamp_ms=self._tick(),
        )
        self._append(marker, of=partition)

    def append_as_follower(self) -> None:
        partition, log, model = self._some_log()
        offset, epoch = model.end, self.epochs[partition]
        pieces = []
        for _ in range(self.random.choice((1, 2, 3))):
            if not (model.epochs and model.epochs[-1].start == offset):
                offset += self.random.choices((0, 2, 2**31 + 5), (80, 20, 2))[0]  # the leader's log is compacted
            epoch += self.random.choice((0, 0, 1))
            pieces.append(self._batch(self.random.randrange(1, 4), base_offset=offset, leader_epoch=epoch))
            offset = ModelBatch.of(bytes(pieces[-1])).last + 1
        data = bytearray(b"".join(pieces))
        batches = split(data)
        self.epochs[partition] = epoch
        self.underway = Underway(partition, "append", batches)
        log.append_as_follower(data)
        for batch in batches:
            model.add(batch)

    def begin_epoch(self) -> None:
        partition, log, model = self._some_log()
        self.epochs[partition] += 1
        log.note_leader_epoch(self.epochs[partition])
        model.note_epoch(self.epochs[partition], model.end)

    def flush(self) -> None:
        self._some_log()[1].flush()

    def begin_flush(self) -> None:
        partition, log, _ = self._some_log()
        plan = log.begin_flush()
        if plan is not None:
            self.plans.append((partition, plan, False))

    def go_on_with_flush(self) -> None:
        if not self.plans:
            return
        index = self.random.randrange(len(self.plans))
        partition, plan, has_run = self.plans.pop(index)
        if has_run:
            self.data_dir.logs[partition].end_flush(plan)
        else:
            plan.run()
            self.plans.append((partition, plan, True))

    def roll(self) -> None:
        self._some_log()[1].roll()

    def checkpoint(self) -> None:
        self.data_dir.checkpoint()

    def truncate(self) -> None:
        partition, log, model = self._some_log()
        offset = self._near(model, model.start - 3, model.end + 2)
        cut = model.copy()
        cut.cut(offset, bases=[segment.base_offset for segment in log.segments])
        self.underway = Underway(partition, "reset" if not cut.batches else "truncate", offsets=(cut.end,))
        end = truncate_to(log, offset)
        expect(end == cut.end, f"a cut at {offset} ended at {end}, not {cut.end}")
        self.models[partition] = cut
        check_producers(log, cut, is_lenient=partition in self.tampered)

    def delete_front(self) -> None:
        partition, log, model = self._some_log()
        offset = self._near(model, model.start - 1, model.end)
        self.underway = Underway(partition, "delete_before", offsets=(offset,))
        delete_before(log, offset)
        model.delete_before(offset)

    def retain(self) -> None:
        partition, log, model = self._some_log()
        log.config = msgspec.structs.replace(log.config, retention_bytes=self.random.choice((0, 1000, 5000)))
        bases = [segment.base_offset for segment in log.segments]
        self.underway = Underway(partition, "delete_before", offsets=(*bases, model.end))
        retained = apply_retention(log, now_ms=self.now_ms)
        expect(retained.log_start_offset in (model.start, *bases, model.end), "retention began in the middle")
        model.delete_before(retained.log_start_offset)

    def reset(self) -> None:
        partition, log, model = self._some_log()
        offset = self._near(model, model.start - 3, model.end + 50)
        self.underway = Underway(partition, "reset", offsets=(offset,))
        reset_to(log, offset)
        model.reset(offset)

    def delete(self) -> None:
        partition = self._some_log()[0]
        self.underway = Underway(partition, "delete")
        self.plans = [each for each in self.plans if each[0] != partition]
        self.data_dir.delete_log(partition)
        del self.models[partition]
        self.tampered.discard(partition)

    def close_and_open(self) -> None:
        self.data_dir.close()
        self.counts["clean closings"] += 1
        self.plans.clear()
        for model in self.models.values():
            model.durable = model.end
        if self.random.random() < 0.3:
            self._tamper()
        if self.random.random() < 0.3:
            self.disk.crash()
        else:
            self.disk.restart()
        self.data_dir = self._open()
        self._check_reopened()

    def crash_at_rest(self) -> None:
        self._die()

    def read(self) -> None:
        _, log, model = self._some_log()
        for _ in range(4):
            self._read_at(log, model, self.random.randint(model.start, model.end))

    def find_time(self) -> None:
        _, log, model = self._some_log()
        records = [record for batch in model.readable() for record in batch.records() if record.offset >= model.start]
        wanted = self.random.randint(NOW_MS - 10, self.now_ms + 10)
        if records and self.random.random() < 0.6:
            wanted = self.random.choice(records).timestamp + self.random.choice((-1, 0, 1))
        found = offset_for_timestamp(log, wanted)
        first = next((record for record in records if record.timestamp >= wanted), None)
        expect(
            (found and (found.offset, found.timestamp)) == (first and (first.offset, first.timestamp)),
            f"time {wanted} led to {found}, not {first}",
        )

    def find_record(self) -> None:
        _, log, model = self._some_log()
        offset = self.random.randint(max(model.start - 1, 0), model.end + 1)
        if not model.start <= offset <= model.end:
            try:
                get_record(log, offset)
            except OffsetOutOfRange:
                return
            raise Violation(f"offset {offset} is not in the log and was read")
        records = [record for batch in model.readable() for record in batch.records()]
        expected = next((record for record in records if record.offset == offset), None)
        expect(get_record(log, offset) == expected, f"the record at {offset} is another one")

    # What the rules are made of.

    def _tick(self) -> int:
        """The next timestamp: mostly later, at times the same or earlier."""
        self.now_ms += self.random.choice((0, 1, 1, 5, 100))
        return self.now_ms - self.random.choice((0, 0, 0, 3, 50))

    def _batch(
        self,
        count: int = 0,
        producer_id: int = -1,
        epoch: int = -1,
        sequence: int = -1,
        is_transactional: bool = False,
        *,
        base_offset: int = 0,
        leader_epoch: int = -1,
    ) -> bytearray:
        count = count or self.random.randrange(1, 4)
        self.serial += 1
        size = self.random.choice(self.sizes)
        filler = bytes(size) if self.random.random() < 0.1 else self.random.randbytes(size)
        key = str(self.serial).encode()
        return encode_batch(
            [Record(base_offset + index, self._tick(), key, filler) for index in range(count)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
            leader_epoch=leader_epoch,
        )

    def _append(self, piece: bytes | bytearray, *, of: TopicPartition | None = None) -> None:
        """Append as leader; offsets are those that follow in the model."""
        if of is None:
            of = self._some_log()[0]
        log, model = self.data_dir.logs[of], self.models[of]
        self.epochs[of] += self.random.choice((0, 0, 0, 0, 1))
        epoch = self.epochs[of]
        data, now_ms = bytearray(piece), self._tick()
        self.underway = Underway(of, "append")
        try:
            log.append(data, leader_epoch=epoch, now_ms=now_ms)
        except (SimulatedCrash, StorageError):
            batches = split(data)
            if batches[0].header.leader_epoch == epoch:  # it got as far as having its offset
                self.underway.batches = batches
            raise
        for batch in split(data):
            expect(batch.first == model.end, f"a batch got offset {batch.first}, not {model.end}")
            model.add(batch)

    def _refused(self, log: Log, data: bytearray, error: type[BarnabasError]) -> None:
        before = (log.end_offset, log.size)
        try:
            log.append(data, leader_epoch=self.epochs[log.partition], now_ms=self.now_ms)
        except error:
            expect((log.end_offset, log.size) == before, "a refused append left a trace")
            return
        raise Violation(f"an append that should be refused with {error.__name__} was taken")

    def _near(self, model: LogModel, low: int, high: int) -> int:
        """An offset, rather near the end than near the start."""
        low = max(low, 0)
        return max(low, high - int((high - low) * self.random.random() ** self.random.choice((1, 3))))

    def _read_at(self, log: Log, model: LogModel, offset: int) -> None:
        max_bytes = self.random.choice((1, 100, 1000, 100_000))
        bound = self.random.choice((None, None, self.random.randint(model.start, model.end + 1)))
        found = log.read(offset, max_bytes=max_bytes, end_offset=bound)
        limit = model.end if bound is None else min(bound, model.end)
        wanted = [batch for batch in model.batches if batch.last >= offset]
        allowed = [batch for batch in wanted if batch.last < limit]
        if not allowed or offset >= limit:
            expect(found is None, f"read at {offset} below {limit} found something")
            return
        if found is None:
            raise Violation(f"read at {offset} below {limit} found nothing")
        data = found.read()
        whole = b"".join(batch.data for batch in allowed)
        expect(data == whole[: len(data)], f"read at {offset} gave other bytes")
        expect(len(data) >= len(allowed[0].data), "read gave less than a batch")
        expect(len(data) <= max(max_bytes, len(allowed[0].data)), "read gave more than was asked for")

    # Checks.

    def _check_live(self) -> None:
        for partition, model in self.models.items():
            check_live(self.data_dir.logs[partition], model)

    def _check_reopened(self) -> None:
        expect(not self.data_dir.unreadable, f"called corrupt: {self.data_dir.unreadable}")
        for partition in self.configs:
            model, log = self.models.get(partition), self.data_dir.logs.get(partition)
            mine = self.underway if self.underway is not None and self.underway.partition == partition else None
            if mine is not None and mine.kind == "create":
                model = LogModel()
            if log is None:
                is_expected = model is None or (mine is not None and mine.kind in ("create", "delete"))
                # A log gets its name on disk with its first flush.
                expect(is_expected or (model is not None and model.durable == 0), f"{partition} is gone")
                self.models.pop(partition, None)
                self.tampered.discard(partition)
            elif model is None:
                raise Violation(f"{partition} came back from the dead")
            else:
                self.models[partition] = adopt(log, model, mine, has_lost_snapshots=partition in self.tampered)
                if mine is not None and mine.kind in ("reset", "delete"):
                    self.tampered.add(partition)  # snapshots went, and some may have come back


_CHOICES: Final[tuple[tuple[Callable[[Machine], None], int], ...]] = (
    (Machine.append_plain, 20),
    (Machine.append_idempotent, 12),
    (Machine.append_in_transaction, 10),
    (Machine.end_transaction, 8),
    (Machine.append_as_follower, 8),
    (Machine.begin_epoch, 2),
    (Machine.flush, 6),
    (Machine.begin_flush, 5),
    (Machine.go_on_with_flush, 9),
    (Machine.roll, 3),
    (Machine.checkpoint, 5),
    (Machine.truncate, 5),
    (Machine.delete_front, 3),
    (Machine.retain, 1),
    (Machine.reset, 1),
    (Machine.delete, 1),
    (Machine.close_and_open, 2),
    (Machine.crash_at_rest, 2),
    (Machine.read, 4),
    (Machine.find_time, 3),
    (Machine.find_record, 3),
)
RULES: Final = [rule for rule, _ in _CHOICES]
_WEIGHTS: Final = [weight for _, weight in _CHOICES]


@contextmanager
def snapshots_every(size: int) -> Iterator[None]:
    """Have checkpoints write producers after so many bytes; a run would never see the usual megabytes."""
    usual = segmented_log.SNAPSHOT_INTERVAL_BYTES
    setattr(segmented_log, "SNAPSHOT_INTERVAL_BYTES", size)  # noqa: B010 - a constant for everybody else
    try:
        yield
    finally:
        setattr(segmented_log, "SNAPSHOT_INTERVAL_BYTES", usual)  # noqa: B010


def split(data: bytes | bytearray) -> list[ModelBatch]:
    """The batches of an append, each by itself."""
    return [ModelBatch.of(bytes(data[position : position + header.size])) for position, header in iter_batches(data)]


def run(seed: int, *, steps: int = 60) -> Counter[str]:
    """One run; a violation says which."""
    machine: Machine | None = None
    try:
        machine = Machine(seed)
        machine.run(steps)
    except Exception as error:
        error.add_note(f"seed {seed}: PYTHONPATH=. python -m tests.simulation.storage_machine {seed}")
        raise
    return machine.counts


if __name__ == "__main__":
    import sys

    print(run(int(sys.argv[1])))
