"""What a log must hold, in plain lists: the oracle that a log on a failing disk is compared with.

A `LogModel` knows every batch of one log since its birth, how far the log said it was durable, where it was said to
start, and the epochs its leaders began. It knows no files, and shares no code with the log but the decoding of
batches.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from barnabas.core.records.batch import BatchHeader, read_header
from barnabas.core.records.control import MarkerType, read_marker
from barnabas.core.records.record import Record, decode_batch

REMEMBERED = 5


class Violation(AssertionError):
    """The log is not what it promised to be."""


class ModelBatch(NamedTuple):
    """A batch with its final offsets."""

    data: bytes
    header: BatchHeader

    @classmethod
    def of(cls, data: bytes) -> "ModelBatch":
        return cls(data, read_header(data))

    @property
    def first(self) -> int:
        return self.header.base_offset

    @property
    def last(self) -> int:
        return self.header.last_offset

    def records(self) -> list[Record]:
        return [] if self.header.is_control else decode_batch(self.data)


class Aborted(NamedTuple):
    """An aborted transaction, as a reader of committed records is told of it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Remembered(NamedTuple):
    """A batch of a producer: sequences, then offsets."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


@dataclass
class ModelProducer:
    """What must be remembered of one producer."""

    epoch: int = -1
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    transaction_start: int | None = None
    batches: list[Remembered] = field(default_factory=list)

    def has_ended(self, batch: Remembered) -> bool:
        """Whether a marker may have ended a batch, which nobody repeats then."""
        if self.transaction_start is None:
            return self.coordinator_epoch != -1
        return batch.first_offset < self.transaction_start


@dataclass
class ModelProducers:
    """All producers of a log, and the transactions that were aborted in it."""

    by_id: dict[int, ModelProducer] = field(default_factory=dict)
    aborted: list[Aborted] = field(default_factory=list)

    def open_starts(self) -> list[int]:
        return sorted(p.transaction_start for p in self.by_id.values() if p.transaction_start is not None)

    def apply(self, batch: ModelBatch) -> None:
        header = batch.header
        if header.producer_id < 0:
            return
        producer = self.by_id.setdefault(header.producer_id, ModelProducer())
        if header.producer_epoch != producer.epoch:
            producer.epoch, producer.batches = header.producer_epoch, []
        producer.last_timestamp = header.max_timestamp
        if header.is_control:
            self._end(producer, batch)
            return
        last_sequence = (header.base_sequence + header.last_offset_delta) % 2**31
        producer.batches = producer.batches[-REMEMBERED + 1 :]
        producer.batches.append(Remembered(header.base_sequence, last_sequence, batch.first, batch.last))
        if header.is_transactional and producer.transaction_start is None:
            producer.transaction_start = batch.first

    def _end(self, producer: ModelProducer, batch: ModelBatch) -> None:
        marker = read_marker(batch.data, 0, batch.header)
        producer.coordinator_epoch = max(producer.coordinator_epoch, marker.coordinator_epoch)
        start, producer.transaction_start = producer.transaction_start, None
        if start is not None and marker.type is MarkerType.ABORT:
            stable = min([batch.last + 1, *self.open_starts()])
            self.aborted.append(Aborted(batch.header.producer_id, start, batch.last, stable))


class Epoch(NamedTuple):
    """The first offset of a leader epoch."""

    epoch: int
    start: int


@dataclass
class LogModel:
    """One log. `batches` are all since its birth, those below `start` included: their files may be gone."""

    batches: list[ModelBatch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    durable: int = 0
    epochs: list[Epoch] = field(default_factory=list)
    # Of what batches before this one did to producers the log may know nothing: its snapshots were spoilt.
    known_from: int = 0
    # Or nobody can say what it knows: an old snapshot came to honours again.
    is_vague: bool = False

    def copy(self) -> "LogModel":
        return replace(self, batches=list(self.batches), epochs=list(self.epochs))

    def add(self, batch: ModelBatch) -> None:
        assert batch.first >= self.end
        self.batches.append(batch)
        self.end = batch.last + 1
        self.note_epoch(batch.header.leader_epoch, batch.first)

    def note_epoch(self, epoch: int, start: int) -> None:
        if epoch < 0 or (self.epochs and self.epochs[-1].epoch == epoch):
            return
        while self.epochs and (self.epochs[-1].epoch >= epoch or self.epochs[-1].start >= start):
            self.epochs.pop()
        self.epochs.append(Epoch(epoch, start))

    def latest_epoch(self) -> int:
        return self.epochs[-1].epoch if self.epochs else -1

    def cut(self, offset: int, *, bases: list[int]) -> None:
        """Remove every batch that ends at or after `offset`; `bases` are the offsets that segments begin at."""
        if offset >= self.end:
            self.epochs = [each for each in self.epochs if each.start < offset]  # of leaders that wrote nothing
            return
        if offset <= bases[0]:
            self.reset(offset)
            return
        base = max(each for each in bases if each <= offset)
        while self.batches and self.batches[-1].last >= offset:
            self.batches.pop()
        end = max(base, self.batches[-1].last + 1) if self.batches else base
        if end < self.start:
            self.reset(end)
        else:
            self.end = self.durable = end
            self.known_from = min(self.known_from, len(self.batches))
            self.epochs = [each for each in self.epochs if each.start < end]

    def reset(self, offset: int) -> None:
        self.batches, self.epochs, self.known_from, self.is_vague = [], [], 0, False
        self.start = self.end = self.durable = offset

    def delete_before(self, offset: int) -> None:
        if offset > self.start:
            self.start = offset
            self.epochs = started_at(self.epochs, offset)

    def producers(self) -> ModelProducers:
        return replay(self.batches[self.known_from :])

    def readable(self) -> list[ModelBatch]:
        """The batches with a record at or after the start."""
        return [batch for batch in self.batches if batch.last >= self.start]


def replay(batches: list[ModelBatch]) -> ModelProducers:
    producers = ModelProducers()
    for batch in batches:
        producers.apply(batch)
    return producers


def started_at(epochs: list[Epoch], offset: int) -> list[Epoch]:
    """The epochs of a log that starts at `offset`: the one that spans it begins there."""
    before = [each for each in epochs if each.start <= offset]
    after = [each for each in epochs if each.start > offset]
    return [Epoch(before[-1].epoch, offset), *after] if before else after


def epoch_end(epochs: list[Epoch], epoch: int, end: int) -> tuple[int, int]:
    """Where an epoch ended, by looking at every entry."""
    if epoch < 0 or not epochs or epoch > epochs[-1].epoch:
        return -1, -1
    known = [each.epoch for each in epochs if each.epoch <= epoch]
    later = [each.start for each in epochs if each.epoch > epoch]
    return known[-1] if known else epoch, later[0] if later else end
