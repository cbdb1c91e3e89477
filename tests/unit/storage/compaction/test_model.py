"""Any log, compacted any number of times as time goes by, against the plain rules: a model that remembers all of it."""

from typing import NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.records.batch import Codec
from barnabas.core.records.control import MarkerType
from barnabas.core.records.record import Record
from barnabas.storage.compaction import Engine
from tests.support.examples import examples
from tests.unit.storage.compaction.support import CONFIG, DAY, NOW, CompactedLog

KEYS = [f"key{i}" for i in range(6)]
TRANSACTIONAL = (11, 12)  # producers that write in transactions
IDEMPOTENT = 10
SMALL = msgspec.structs.replace(CONFIG, segment_bytes=1024)


class Put(NamedTuple):
    """A batch of records, of a producer that asks for nothing (None), an idempotent or a transactional one."""

    pairs: tuple[tuple[str, str | None], ...]
    producer: int | None
    codec: Codec


class End(NamedTuple):
    """The end of a transaction, with data here or without."""

    producer: int
    type: MarkerType
    bumps_epoch: bool
    coordinator_epoch: int


class Compact(NamedTuple):
    """A round of compaction, some time after the last."""

    after_ms: int
    engine: Engine
    max_map_bytes: int


class Roll(NamedTuple):
    """Close the active segment."""


class Reopen(NamedTuple):
    """A crash of the process, with or without the snapshots of producers."""

    with_snapshots: bool


Step = Put | End | Compact | Roll | Reopen

values = st.one_of(st.none(), st.text("xyz", min_size=1, max_size=3), st.just("long " * 40))
puts = st.builds(
    Put,
    st.lists(st.tuples(st.sampled_from(KEYS), values), min_size=1, max_size=5).map(tuple),
    st.sampled_from((None, IDEMPOTENT, *TRANSACTIONAL)),
    st.sampled_from(Codec),
)
ends = st.builds(
    End,
    st.sampled_from(TRANSACTIONAL),
    st.sampled_from((MarkerType.COMMIT, MarkerType.ABORT)),
    st.booleans(),
    st.integers(0, 3),
)
rounds = st.builds(
    Compact, st.sampled_from((0, DAY // 2, DAY)), st.sampled_from(Engine), st.sampled_from((3000, 1024**2))
)
steps = st.lists(
    st.one_of(puts, puts, puts, ends, ends, st.just(Roll()), rounds, st.builds(Reopen, st.booleans())), max_size=40
)


class Model:
    """Remembers every record ever written and checks a log against the rules of compaction."""

    def __init__(self) -> None:
        self.log = CompactedLog(SMALL)
        self.now = NOW
        self.coordinator_epoch = 0
        self.written: dict[int, Record] = {}
        # Outside of any transaction, so that there is always something to compact.
        self.put(Put((("first", "record"),), None, Codec.NONE))

    def put(self, step: Put) -> None:
        log = self.log
        offset = log.put(
            *step.pairs,
            producer=step.producer,
            in_transaction=step.producer in TRANSACTIONAL,
            codec=step.codec,
            timestamp=self.now,
        )
        for i, (key, value) in enumerate(step.pairs):
            encoded = None if value is None else value.encode()
            self.written[offset + i] = Record(offset + i, self.now + i, key.encode(), encoded)

    def end(self, step: End) -> None:
        self.coordinator_epoch = max(self.coordinator_epoch, step.coordinator_epoch)
        self.log.end(
            step.producer,
            step.type,
            bumps_epoch=step.bumps_epoch,
            coordinator_epoch=self.coordinator_epoch,
            timestamp=self.now,
        )

    def compact(self, step: Compact) -> None:
        log = self.log
        self.now += step.after_ms
        log.roll()
        table, consumed = log.newest(), log.consume()
        end, producers, cleaned_to = log.log.end_offset, log.producers(), log.cleaned_to
        due = self._due_tombstones(cleaned_to)
        log.compact(now=self.now, engine=step.engine, max_map_bytes=step.max_map_bytes)

        assert log.newest() == table
        assert (log.log.log_start_offset, log.log.end_offset, log.producers()) == (0, end, producers)
        assert log.cleaned_to >= cleaned_to
        self._check_records()
        self._check_clean_part(log.cleaned_to)
        self._check_newest(consumed, due)

    def reopen(self, step: Reopen) -> None:
        log = self.log
        log.log.flush()
        before = (log.consume(), log.log.end_offset, log.producers())
        log.restart(with_snapshots=step.with_snapshots)
        assert (log.consume(), log.log.end_offset, log.producers()) == before

    def _due_tombstones(self, cleaned_to: int) -> set[int]:
        """The offsets of clean batches whose tombstones may go now."""
        return {
            offset
            for header in self.log.headers()
            if header.has_delete_horizon and header.base_timestamp <= self.now and header.last_offset < cleaned_to
            for offset in range(header.base_offset, header.next_offset)
        }

    def _check_records(self) -> None:
        """What is there is as it was written, in order, and the same for every size of fetch."""
        records = self.log.records()
        assert all(self.written[record.offset] == record for record in records)
        assert [record.offset for record in records] == sorted({record.offset for record in records})
        assert self.log.consume(max_bytes=300) == self.log.consume()

    def _check_clean_part(self, cleaned_to: int) -> None:
        """One record a key, and none that a transaction took back."""
        clean = [record for record in self.log.records() if record.offset < cleaned_to]
        assert len({record.key for record in clean}) == len(clean)
        committed = {record.offset for record in self.log.consume()}
        assert all(record.offset in committed for record in clean)

    def _check_newest(self, consumed: list[Record], due: set[int]) -> None:
        """The newest record of a key is there, where it was; a tombstone is gone only when its time had come."""
        kept = {record.offset for record in self.log.records()}
        for record in {record.key: record for record in consumed}.values():
            assert record.offset in kept or (record.value is None and record.offset in due)


@settings(max_examples=examples(120), deadline=None)
@given(steps=steps)
def test_a_compacted_log_says_the_same_as_the_log_it_was(steps: list[Step]) -> None:
    model = Model()
    for step in [*steps, Compact(DAY, Engine.PLAIN, 1024**2), Reopen(with_snapshots=False)]:
        match step:
            case Put():
                model.put(step)
            case End():
                model.end(step)
            case Compact():
                model.compact(step)
            case Roll():
                model.log.roll()
            case Reopen():
                model.reopen(step)
