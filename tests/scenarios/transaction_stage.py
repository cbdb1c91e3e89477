"""The stage for scenarios of transactions: one coordinator with a log in memory, and a clock that moves when told to.

Every request goes to the decisions of `core.transactions`, as those of the runtime do. A command prints the answer,
then what was written. Markers are written when they are told to (`mark`): then the transaction is complete. Producer
ids are given out from 1 on; a producer is written as ``ID/EPOCH``. What a partition does with batches and markers is
played apart from the coordinator, by hand (`write`, `marker`), on `core.replica.producers`.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from barnabas.core.coordination import SetTimer, TimerChange
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from barnabas.core.records.batch import read_header
from barnabas.core.records.control import Marker, MarkerType, encode_marker
from barnabas.core.records.record import Record, encode_batch
from barnabas.core.replica.producers import ProducerStates
from barnabas.core.transactions import ending, expiring, initialising, partitions
from barnabas.core.transactions.decision import TransactionDecision, TransactionTimer
from barnabas.core.transactions.initialising import Initialised, InitRequest
from barnabas.core.transactions.producers import LAST_USED_EPOCH
from barnabas.core.transactions.records import State, TransactionEntry, TransactionRecord, TransactionTombstone
from barnabas.core.transactions.transactions import Transactions
from tests.scenarios.group_words import parse_partitions, partition_words, refusal_words
from tests.scenarios.transcript import Stage

T = TypeVar("T")

ID = "x"
START_MS = 1_000_000
MAX_TIMEOUT_MS = 900_000
RETENTION_MS = 7 * 24 * 3600 * 1000


class TransactionStage(Stage):
    """One transactional id, ``x``, and the producers that want it."""

    def __init__(self) -> None:
        self._transactions = Transactions()
        self._log: list[TransactionEntry] = []
        self._timers: dict[TransactionTimer, int] = {}
        self._now_ms = START_MS
        self._last_id = 0
        self._written = ProducerStates()  # of one partition
        self._end_offset = 0

    # The world

    def wait(self, seconds: int) -> Iterator[str]:
        """``wait SECONDS``: the clock moves; a transaction that has had its time is aborted."""
        end_ms = self._now_ms + seconds * 1000
        while self._timers and min(self._timers.values()) <= end_ms:
            timer = min(self._timers, key=lambda each: self._timers[each])
            self._now_ms = max(self._now_ms, self._timers.pop(timer))
            yield f"{(self._now_ms - START_MS) / 1000:g} s: the timer of the transaction fires"
            yield from self._carry_out(
                ending.decide_abort_expired(
                    self._transactions, ID, next_producer_id=self._id_for_end(), now_ms=self._now_ms
                )
            )
        self._now_ms = end_ms

    def restart(self) -> Iterator[str]:
        """``restart``: another node coordinates, which has the log and nothing else; it takes up what was left."""
        self._transactions, self._timers = Transactions(), {}
        for entry in self._log:
            self._transactions.apply(entry)
        self._change(expiring.timers_after_load(self._transactions, self._now_ms))
        yield from self.show()

    def forget(self) -> Iterator[str]:
        """``forget``: ids that nobody has used for a week are forgotten."""
        yield from self._carry_out(
            expiring.decide_expiry(self._transactions, retention_ms=RETENTION_MS, now_ms=self._now_ms)
        )

    def exhaust(self) -> Iterator[str]:
        """``exhaust``: the producer has come to the last epoch that is given out, by as many transactions."""
        record = self._transactions.by_id[ID]
        assert record.state is State.EMPTY
        last = msgspec.structs.replace(record, producer_epoch=LAST_USED_EPOCH)
        self._log.append(last)
        self._transactions.apply(last)
        yield from self.show()

    def show(self) -> Iterator[str]:
        """``show``: what the coordinator knows, and which markers are due."""
        record = self._transactions.get(ID)
        if record is None:
            return
        yield _words(record)
        due = ending.markers_due(record)
        if due is not None:
            kind = "commit" if due.is_commit else "abort"
            yield f"due: {kind} by {due.producer_id}/{due.producer_epoch} in {_names(due.partitions)}"

    # What producers ask

    def init(self, producer: str = "new", *, timeout: int = 60) -> Iterator[str]:
        """``init [ID/EPOCH] [timeout=SECONDS]``: InitProducerId, of a new producer or as the one that it has been."""
        producer_id, epoch = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH) if producer == "new" else _parse(producer)
        request = InitRequest(
            transactional_id=ID, timeout_ms=timeout * 1000, producer_id=producer_id, producer_epoch=epoch
        )
        decision = initialising.decide_init(
            self._transactions,
            request,
            new_producer_id=self._last_id + 1,
            max_timeout_ms=MAX_TIMEOUT_MS,
            now_ms=self._now_ms,
        )
        if isinstance(decision.reply, Initialised):
            self._last_id = max(self._last_id, decision.reply.producer_id)
            yield f"the producer is {decision.reply.producer_id}/{decision.reply.producer_epoch}"
        else:
            yield "an open transaction is aborted first"
        yield from self._carry_out(decision)

    def add(self, producer: str, names: str, *, version: int = 0) -> Iterator[str]:
        """``add ID/EPOCH t:0,1 [version=V]``: AddPartitionsToTxn, or with version 2 the first write to a partition."""
        yield from self._carry_out(
            partitions.decide_add(
                self._transactions, ID, *_parse(producer), _parse_names(names), version=version, now_ms=self._now_ms
            )
        )

    def verify(self, producer: str, names: str) -> Iterator[str]:
        """``verify ID/EPOCH t:0,1``: the leader of a partition asks whether a batch may be written there."""
        found = partitions.verify(self._transactions, ID, *_parse(producer), _parse_names(names))
        for (topic, number), error in found.items():
            yield f"{topic}:{number}: {'may be written' if error is None else refusal_words(error)}"

    def commit(self, producer: str, *, version: int = 0) -> Iterator[str]:
        """``commit ID/EPOCH [version=V]``: EndTxn."""
        yield from self._end(producer, is_commit=True, version=version)

    def abort(self, producer: str, *, version: int = 0) -> Iterator[str]:
        """``abort ID/EPOCH [version=V]``: EndTxn."""
        yield from self._end(producer, is_commit=False, version=version)

    def _end(self, producer: str, *, is_commit: bool, version: int) -> Iterator[str]:
        decision = ending.decide_end(
            self._transactions,
            ID,
            *_parse(producer),
            is_commit=is_commit,
            version=version,
            next_producer_id=self._id_for_end(),
            now_ms=self._now_ms,
        )
        ended = decision.reply
        goes_on = (
            "as it is" if ended.producer_id == NO_PRODUCER_ID else f"as {ended.producer_id}/{ended.producer_epoch}"
        )
        yield f"{'prepared' if ended.is_prepared else 'ended already'}; the producer goes on {goes_on}"
        yield from self._carry_out(decision)

    def mark(self) -> Iterator[str]:
        """``mark``: every partition has its marker."""
        yield from self._carry_out(ending.decide_complete(self._transactions, ID, now_ms=self._now_ms))

    # One partition, by itself

    def write(self, producer: str, sequence: int) -> Iterator[str]:
        """``write ID/EPOCH SEQUENCE``: a partition is given a transactional batch of one record."""
        producer_id, producer_epoch = _parse(producer)
        batch = encode_batch(
            [Record(0, 0, None, b"v")],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        header = read_header(batch)._replace(base_offset=self._end_offset)
        self._written.check(header)
        self._written.apply(header)
        self._end_offset += 1
        yield from self._partition()

    def marker(self, producer: str, kind: MarkerType, *, coordinator: int = 0, version: int = 0) -> Iterator[str]:
        """``marker ID/EPOCH commit|abort [coordinator=EPOCH] [version=V]``: a partition is given a marker."""
        producer_id, producer_epoch = _parse(producer)
        batch = encode_marker(
            kind,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator,
            timestamp_ms=0,
            base_offset=self._end_offset,
        )
        header, marker = read_header(batch), Marker(kind, coordinator)
        if not self._written.check_marker(header, marker, version=version):
            yield "it is there already"
            return
        ended = self._written.apply(header, marker)
        self._end_offset += 1
        if ended is not None:
            how = "aborted" if ended.is_aborted else "committed"
            yield f"the transaction from {ended.first_offset} is {how} at {ended.last_offset}"
        yield from self._partition()

    def _partition(self) -> Iterator[str]:
        unstable = self._written.first_unstable_offset(self._end_offset)
        stable = self._end_offset if unstable is None else unstable
        yield f"the log ends at {self._end_offset}, and is stable up to {stable}"

    # What the runtime does

    def _id_for_end(self) -> int:
        if not ending.needs_producer_id(self._transactions, ID):
            return NO_PRODUCER_ID
        self._last_id += 1
        return self._last_id

    def _carry_out(self, decision: TransactionDecision[T]) -> Iterator[str]:
        for entry in decision.records:
            self._log.append(entry)
            self._transactions.apply(entry)
            yield f"  removes {ID}" if isinstance(entry, TransactionTombstone) else f"  writes {_words(entry)}"
        self._change(decision.timers)
        if not decision.records:
            yield "nothing is written"

    def _change(self, changes: Iterable[TimerChange]) -> None:
        for change in changes:
            assert isinstance(change.key, TransactionTimer)
            self._timers.pop(change.key, None)
            if isinstance(change, SetTimer):
                self._timers[change.key] = self._now_ms + change.delay_ms


def _words(record: TransactionRecord) -> str:
    words = [f"{record.state.label}, producer {record.producer_id}/{record.producer_epoch}"]
    if record.last_epoch != NO_PRODUCER_EPOCH:
        words.append(f"last epoch {record.last_epoch}")
    if record.previous_producer_id not in (NO_PRODUCER_ID, record.producer_id):
        words.append(f"before as {record.previous_producer_id}")
    if record.next_producer_id != NO_PRODUCER_ID:
        words.append(f"goes on as {record.next_producer_id}/0")
    if record.partitions:
        words.append(partition_words(dict(record.partitions)))
    return ", ".join(words)


def _parse(producer: str) -> tuple[int, int]:
    producer_id, _, epoch = producer.partition("/")
    return int(producer_id), int(epoch)


def _parse_names(names: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, numbers in parse_partitions(names).items() for number in numbers]


def _names(names: Iterable[TopicPartition]) -> str:
    return " ".join(f"{topic}:{number}" for topic, number in names) or "no partition"
