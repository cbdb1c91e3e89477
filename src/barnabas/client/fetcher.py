"""Record batches straight from the brokers: bytes per partition, to be decoded in bulk.

Owns the leaders, the position in each partition, and fetching ahead: the next request is in flight while the caller
works on the last answer, one per leader, so memory is bounded by one answer per leader. Reads committed records (up to
the last stable offset, with the list of aborted transactions), or all of them. A leader that moves or a connection that
breaks is retried for a while; an offset that is gone is refused. An unknown partition is refused only if it stays
unknown: a broker that just started, or just became its leader, may not know it yet. The same goes for one that cannot
be read from disk: another broker may be about to lead it. A damaged batch is never returned.

Must not know: records within batches, Arrow.
"""

import select
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas.client.brokers import Address, Brokers
from barnabas.client.connection import BrokerConnection
from barnabas.client.errors import DamagedBatch, Passing, Unreachable, Unreadable, check
from barnabas.client.intact import intact_part
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError, StorageError, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import Buffer
from barnabas.wire.apis import FETCH, LIST_OFFSETS
from barnabas.wire.writing import Values

EARLIEST: Final = -2
LATEST: Final = -1

_CONSUMER: Final = -1  # in the place of a replica's id
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1
_MAX_WAIT_MS: Final = 500
_MAX_BYTES: Final = 32 * 1024 * 1024
_PARTITION_MAX_BYTES: Final = 16 * 1024 * 1024
_PATIENCE_S: Final = 30.0
_RETRY_S: Final = 0.1
_SILENCE_S: Final = 30.0
_DISBELIEF_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Fetched:
    """Whole batches of one partition, perhaps followed by a partial one; they may hold records outside the requested
    range.

    The checksums of those in the range are valid.
    """

    partition: int
    records: Buffer
    aborted: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Position:
    next_offset: int
    end_offset: int
    is_reached: bool = False  # by reading what is before it
    damage: DamagedBatch | None = None  # at that offset


class Fetcher:
    """Reads one topic; not for use by several threads."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        *,
        committed: bool = True,
        partition_max_bytes: int = _PARTITION_MAX_BYTES,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._brokers = Brokers(settings)
        self._topic = topic
        self._isolation = _READ_COMMITTED if committed else _READ_UNCOMMITTED
        self._partition_max_bytes = partition_max_bytes
        self._leaders: dict[int, Address | None] = {}
        self._patience_s = patience_s

    def close(self) -> None:
        self._brokers.close()

    def partition_ids(self) -> list[int]:
        self._find_leaders()
        return sorted(self._leaders)

    def offsets(self, partitions: Iterable[int], timestamp_ms: int) -> dict[int, int]:
        """The offset for a time, or for EARLIEST or LATEST, of each partition; -1 where there is none."""
        found: dict[int, int] = {}
        patience = _Patience(self._patience_s)
        wanted = list(partitions)
        while wanted:
            try:
                for leader, ids in self._by_leader(wanted).items():
                    found |= self._ask_offsets(self._brokers.at(leader), ids, timestamp_ms)
            except BarnabasError as error:
                self._start_over(error, patience)
            wanted = [id_ for id_ in wanted if id_ not in found]
        return found

    def read(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[Fetched]:
        """The batches of each partition from a start offset up to an end offset, in the order they arrive.

        Raises `DamagedBatch` where one is damaged, after what is before it.
        """
        positions = {id_: _Position(start, end) for id_, (start, end) in ranges.items() if start < end}
        under_way: dict[BrokerConnection, list[int]] = {}
        patience = _Patience(self._patience_s)
        while positions:
            answers: list[Fetched] = []
            try:
                self._ask_ahead(positions, under_way)
                for connection in _wait_readable(list(under_way)):
                    asked = under_way.pop(connection)
                    answers += self._advance(positions, asked, connection.receive())
                self._ask_ahead(positions, under_way)
            except BarnabasError as error:
                under_way.clear()
                self._start_over(error, patience)
            damage = [position.damage for position in positions.values() if position.damage is not None]
            if answers or damage:
                patience = _Patience(self._patience_s)
            elif time.monotonic() > patience.deadline:
                raise Unreachable(f"{self._topic}: nothing to read for {_PATIENCE_S:.0f} s, before the end")
            yield from answers
            if damage:
                raise damage[0]

    def peek(self, ranges: Mapping[int, tuple[int, int]]) -> list[Fetched]:
        """The first batches of ranges, by one request to each leader; those of which none came are left out."""
        patience = _Patience(self._patience_s)
        while True:
            positions = {id_: _Position(start, end) for id_, (start, end) in ranges.items() if start < end}
            try:
                fetched: list[Fetched] = []
                for leader, ids in self._by_leader(positions).items():
                    answer = self._brokers.at(leader).call(FETCH.key, self._fetch_values(positions, ids))
                    fetched += self._advance(positions, ids, answer)
            except BarnabasError as error:
                self._start_over(error, patience)
            else:
                return fetched

    def _ask_ahead(self, positions: dict[int, _Position], under_way: dict[BrokerConnection, list[int]]) -> None:
        """Send a fetch to every leader without one in flight."""
        for leader, ids in self._by_leader(positions).items():
            connection = self._brokers.at(leader)
            if connection not in under_way:
                connection.send(FETCH.key, self._fetch_values(positions, ids))
                under_way[connection] = ids

    def _advance(self, positions: dict[int, _Position], asked: list[int], answer: Any) -> list[Fetched]:
        """Handle an answer: return its batches, and move the positions past them."""
        check(getattr(answer, "error_code", 0), "fetch")
        brought = {int(one.partition_index): one for topic in answer.responses for one in topic.partitions}
        for id_, partition in brought.items():  # all of them before any position moves: a refused answer is dropped
            if int(partition.error_code) == StorageError.kafka_code:
                raise Unreadable(self._topic, id_, positions[id_].next_offset)
            check(partition.error_code, f"fetch {self._topic}-{id_} at offset {positions[id_].next_offset}")
        fetched, silent = [], []
        for id_, partition in brought.items():
            position = positions[id_]
            records, next_offset, position.damage = intact_part(
                TopicPartition(self._topic, id_),
                partition.records or b"",
                (position.next_offset, position.end_offset),
                is_reached=position.is_reached,
                high_watermark=int(partition.high_watermark),
            )
            if next_offset is None:
                if position.damage is None and self._readable_end(partition) >= position.end_offset:
                    silent.append(id_)
                continue
            position.next_offset, position.is_reached = next_offset, True
            listed = partition.aborted_transactions or () if self._isolation == _READ_COMMITTED else ()
            aborted = tuple((int(each.producer_id), int(each.first_offset)) for each in listed)
            fetched.append(Fetched(id_, records, aborted))
        # Nothing at all after a wait: what is left before the ends was compacted away.
        done = silent if not fetched else []
        for id_ in asked:
            if id_ in done or positions[id_].next_offset >= positions[id_].end_offset:
                del positions[id_]
        for one in fetched:  # to the back of the queue, so that no partition starves
            if one.partition in positions:
                positions[one.partition] = positions.pop(one.partition)
        return fetched

    def _readable_end(self, partition: Any) -> int:
        """The end of what this reader may read, according to the answer."""
        last_stable = int(getattr(partition, "last_stable_offset", -1))
        if self._isolation == _READ_COMMITTED and last_stable >= 0:
            return last_stable
        return int(partition.high_watermark)

    def _fetch_values(self, positions: dict[int, _Position], ids: list[int]) -> Values:
        partitions = [
            {
                "partition": id_,
                "fetch_offset": positions[id_].next_offset,
                "partition_max_bytes": self._partition_max_bytes,
            }
            for id_ in ids
        ]
        return {
            "replica_id": _CONSUMER,
            "max_wait": _MAX_WAIT_MS,
            "min_bytes": 1,
            "max_bytes": _MAX_BYTES,
            "isolation_level": self._isolation,
            "topics": [{"topic": self._topic, "partitions": partitions}],
        }

    def _ask_offsets(self, connection: BrokerConnection, ids: list[int], timestamp_ms: int) -> dict[int, int]:
        partitions = [{"partition_index": id_, "timestamp": timestamp_ms} for id_ in ids]
        values = {
            "replica_id": _CONSUMER,
            "isolation_level": self._isolation,
            "topics": [{"name": self._topic, "partitions": partitions}],
        }
        found = {}
        for topic in connection.call(LIST_OFFSETS.key, values).topics:
            for partition in topic.partitions:
                check(partition.error_code, f"look up offsets of {self._topic}-{partition.partition_index}")
                found[partition.partition_index] = partition.offset
        return found

    def _by_leader(self, ids: Iterable[int]) -> dict[Address, list[int]]:
        wanted = list(ids)
        if any(id_ not in self._leaders for id_ in wanted):
            self._find_leaders()
        grouped: dict[Address, list[int]] = {}
        for id_ in wanted:
            if id_ not in self._leaders:
                raise UnknownTopicOrPartition(f"partition {self._topic}-{id_} does not exist")
            leader = self._leaders[id_]
            if leader is None:
                raise Passing(f"partition {self._topic}-{id_} has no leader")
            grouped.setdefault(leader, []).append(id_)
        return grouped

    def _find_leaders(self) -> None:
        for topic in self._brokers.metadata([self._topic]).topics.values():
            check(topic.error_code, f"read topic {self._topic!r}")
            self._leaders = {id_: None if each is None else each.address for id_, each in topic.leaders.items()}

    def _start_over(self, error: BarnabasError, patience: "_Patience") -> None:
        """After a retriable failure: drop connections and leaders, and wait a little. Any other is raised."""
        if not patience.lasts(error):
            raise error
        self.close()
        self._leaders.clear()
        time.sleep(_RETRY_S)


class _Patience:
    """How long retriable failures are retried since the last success."""

    def __init__(self, patience_s: float = _PATIENCE_S) -> None:
        self.deadline = time.monotonic() + patience_s
        self._patience_s = patience_s
        self._disbelief_ends: float | None = None

    def lasts(self, error: BarnabasError) -> bool:
        now = time.monotonic()
        if isinstance(error, (Unreachable, Passing)):
            self._disbelief_ends = None
            return now <= self.deadline
        if not isinstance(error, (UnknownTopicOrPartition, Unreadable)):
            return False
        if self._disbelief_ends is None:
            self._disbelief_ends = now + min(_DISBELIEF_S, self._patience_s)
        return now < self._disbelief_ends


def _wait_readable(connections: list[BrokerConnection]) -> list[BrokerConnection]:
    if buffered := [connection for connection in connections if connection.has_buffered]:
        return buffered
    poller = select.poll()
    by_fileno = {connection.fileno(): connection for connection in connections}
    for fileno in by_fileno:
        poller.register(fileno, select.POLLIN)
    ready = poller.poll(_SILENCE_S * 1000)
    if not ready:
        raise Unreachable(f"no broker answered within {_SILENCE_S:.0f} s")
    return [by_fileno[fileno] for fileno, _ in ready]
