"""Record batches straight from the brokers: bytes per partition, for whoever decodes them in bulk.

Owns who leads what, where each partition stands, and asking ahead: the next request is under way while the caller
works on the last answer, one per leader, so memory is bounded by one answer per leader. Reads what is committed (up
to the last stable offset, with the aborted transactions named), or all there is. A leader that moves or a connection
that breaks is tried again for a while; an offset that is gone is refused.

Must not know: records within batches, Arrow.
"""

import datetime
import select
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kio.static.primitive import i32Timedelta

from barnabas.client.connection import FETCH, LIST_OFFSETS, METADATA, Connection, make
from barnabas.client.errors import Unreachable, refusal_of
from barnabas.client.settings import parse_bootstrap
from barnabas.core.errors import BarnabasError, UnknownTopicOrPartition
from barnabas.core.records.batch import Buffer, iter_whole_batches

EARLIEST: Final = -2
LATEST: Final = -1

_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1
_MAX_WAIT: Final = i32Timedelta.parse(datetime.timedelta(milliseconds=500))
_MAX_BYTES: Final = 32 * 1024 * 1024
_PARTITION_MAX_BYTES: Final = 16 * 1024 * 1024
_PATIENCE_S: Final = 30.0
_RETRY_S: Final = 0.1
_SILENCE_S: Final = 30.0
# Errors that a new look at the metadata may cure: a leader that moved, or is not there yet.
_MOVED: Final = frozenset({5, 6, 9, 74, 75, 78, 100, 103})


@dataclass(frozen=True, slots=True)
class Fetched:
    """Whole batches of one partition, perhaps with a cut one behind; records out of the range asked for may be in."""

    partition: int
    records: Buffer
    aborted: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Position:
    next_offset: int
    end_offset: int


class Fetcher:
    """Reads one topic; not for use by several threads."""

    def __init__(self, bootstrap: str, topic: str, client_id: str, *, committed: bool = True) -> None:
        self._bootstrap = parse_bootstrap(bootstrap)
        self._topic = topic
        self._client_id = client_id
        self._isolation = _READ_COMMITTED if committed else _READ_UNCOMMITTED
        self._connections: dict[tuple[str, int], Connection] = {}
        self._leaders: dict[int, tuple[str, int]] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def partition_ids(self) -> list[int]:
        self._find_leaders()
        return sorted(self._leaders)

    def offsets(self, partitions: Iterable[int], timestamp_ms: int) -> dict[int, int]:
        """The offset for a time, or for EARLIEST or LATEST, of each partition; -1 where there is none."""
        found: dict[int, int] = {}
        deadline = time.monotonic() + _PATIENCE_S
        wanted = list(partitions)
        while wanted:
            try:
                for leader, ids in self._by_leader(wanted).items():
                    found |= self._ask_offsets(self._connect(leader), ids, timestamp_ms)
            except BarnabasError as error:
                self._start_over(error, deadline)
            wanted = [id_ for id_ in wanted if id_ not in found]
        return found

    def read(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[Fetched]:
        """The batches of each partition from a start offset up to an end offset, in the order they arrive."""
        positions = {id_: _Position(start, end) for id_, (start, end) in ranges.items() if start < end}
        under_way: dict[Connection, list[int]] = {}
        deadline = time.monotonic() + _PATIENCE_S
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
                self._start_over(error, deadline)
            if answers:
                deadline = time.monotonic() + _PATIENCE_S
            elif time.monotonic() > deadline:
                raise Unreachable(f"{self._topic}: nothing to read for {_PATIENCE_S:.0f} s, before the end")
            yield from answers

    def _ask_ahead(self, positions: dict[int, _Position], under_way: dict[Connection, list[int]]) -> None:
        """Send a fetch to every leader that is not answering one."""
        for leader, ids in self._by_leader(positions).items():
            connection = self._connect(leader)
            if connection not in under_way:
                connection.send(self._fetch_request(connection, positions, ids))
                under_way[connection] = ids

    def _advance(self, positions: dict[int, _Position], asked: list[int], answer: Any) -> list[Fetched]:
        """Take an answer: what it brought, with the positions moved past it."""
        _check(getattr(answer, "error_code", 0), "fetch")
        brought = {int(one.partition_index): one for topic in answer.responses for one in topic.partitions}
        for id_, partition in brought.items():  # all of them before any position moves: a refused answer is dropped
            _check(partition.error_code, f"fetch {self._topic}-{id_} at offset {positions[id_].next_offset}")
        fetched, silent = [], []
        for id_, partition in brought.items():
            next_offset = _next_offset(partition.records or b"")
            if next_offset is None:
                if self._readable_end(partition) >= positions[id_].end_offset:
                    silent.append(id_)
                continue
            positions[id_].next_offset = next_offset
            listed = partition.aborted_transactions or () if self._isolation == _READ_COMMITTED else ()
            aborted = tuple((int(each.producer_id), int(each.first_offset)) for each in listed)
            fetched.append(Fetched(id_, partition.records, aborted))
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
        """Up to where this reader may read, as the answer says."""
        last_stable = int(getattr(partition, "last_stable_offset", -1))
        if self._isolation == _READ_COMMITTED and last_stable >= 0:
            return last_stable
        return int(partition.high_watermark)

    def _fetch_request(self, connection: Connection, positions: dict[int, _Position], ids: list[int]) -> Any:
        messages = connection.messages(FETCH)
        partitions = tuple(
            make(
                messages.FetchPartition,
                partition=id_,
                fetch_offset=positions[id_].next_offset,
                partition_max_bytes=_PARTITION_MAX_BYTES,
            )
            for id_ in ids
        )
        return make(
            messages.FetchRequest,
            replica_id=-1,
            max_wait=_MAX_WAIT,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            isolation_level=self._isolation,
            topics=(messages.FetchTopic(topic=self._topic, partitions=partitions),),
            forgotten_topics_data=(),
        )

    def _ask_offsets(self, connection: Connection, ids: list[int], timestamp_ms: int) -> dict[int, int]:
        messages = connection.messages(LIST_OFFSETS)
        partitions = tuple(
            make(messages.ListOffsetsPartition, partition_index=id_, timestamp=timestamp_ms) for id_ in ids
        )
        topic = messages.ListOffsetsTopic(name=self._topic, partitions=partitions)
        request = make(messages.ListOffsetsRequest, replica_id=-1, isolation_level=self._isolation, topics=(topic,))
        found = {}
        for partition in (partition for topic in connection.call(request).topics for partition in topic.partitions):
            _check(partition.error_code, f"look up offsets of {self._topic}-{partition.partition_index}")
            found[int(partition.partition_index)] = int(partition.offset)
        return found

    def _by_leader(self, ids: Iterable[int]) -> dict[tuple[str, int], list[int]]:
        wanted = list(ids)
        if any(id_ not in self._leaders for id_ in wanted):
            self._find_leaders()
        grouped: dict[tuple[str, int], list[int]] = {}
        for id_ in wanted:
            if id_ not in self._leaders:
                raise UnknownTopicOrPartition(f"partition {self._topic}-{id_} does not exist or has no leader")
            grouped.setdefault(self._leaders[id_], []).append(id_)
        return grouped

    def _find_leaders(self) -> None:
        connection = self._any_connection()
        messages = connection.messages(METADATA)
        request = make(
            messages.MetadataRequest,
            topics=(make(messages.MetadataRequestTopic, name=self._topic),),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        answer = connection.call(request)
        brokers = {broker.node_id: (str(broker.host), int(broker.port)) for broker in answer.brokers}
        for topic in answer.topics:
            _check(topic.error_code, f"read topic {self._topic!r}")
            self._leaders = {
                int(partition.partition_index): brokers[partition.leader_id]
                for partition in topic.partitions
                if partition.leader_id in brokers
            }

    def _any_connection(self) -> Connection:
        problem: BarnabasError = Unreachable("no broker address was given")
        for address in [*self._connections, *self._bootstrap]:
            try:
                return self._connect(address)
            except BarnabasError as error:
                problem = error
        raise problem

    def _connect(self, address: tuple[str, int]) -> Connection:
        if address not in self._connections:
            self._connections[address] = Connection(*address, self._client_id)
        return self._connections[address]

    def _start_over(self, error: BarnabasError, deadline: float) -> None:
        """After a failure that may pass: drop connections and leaders, wait a little. Any other is raised."""
        if not isinstance(error, (Unreachable, _Moved)) or time.monotonic() > deadline:
            raise error
        self.close()
        self._leaders.clear()
        time.sleep(_RETRY_S)


class _Moved(BarnabasError):
    """The partition is led by somebody else now, or by nobody yet."""

    kafka_code = 6


def _check(code: int, doing: str) -> None:
    number = int(code)
    if number == 0:
        return
    name = getattr(code, "name", str(number))
    message = f"cannot {doing}: {name.replace('_', ' ')}"
    if number in _MOVED:
        raise _Moved(message)
    raise refusal_of(number, message)


def _next_offset(records: Buffer) -> int | None:
    """The offset after the last whole batch."""
    offset = None
    for _, header in iter_whole_batches(records):
        offset = header.next_offset
    return offset


def _wait_readable(connections: list[Connection]) -> list[Connection]:
    poller = select.poll()
    by_fileno = {connection.fileno(): connection for connection in connections}
    for fileno in by_fileno:
        poller.register(fileno, select.POLLIN)
    ready = poller.poll(_SILENCE_S * 1000)
    if not ready:
        raise Unreachable(f"no broker answered within {_SILENCE_S:.0f} s")
    return [by_fileno[fileno] for fileno, _ in ready]
