"""Readers of topics, checked and planned: what `Bus.consume`, `merge` and `process` read through.

Owns what may be asked together, and where reading starts and ends; the readers themselves are in `consuming`,
`group_reading` and `rewindable`. Whoever iterates is somebody else: a generator, or a task of asyncio.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from barnabas.client import consuming
from barnabas.client.consuming import AssignedRecords, Start
from barnabas.client.contact import Contact
from barnabas.client.group_reading import MAX_POLL_RECORDS, MODES, GroupReader, GroupRecords, Mode
from barnabas.client.merging import merge_records
from barnabas.client.message import Message
from barnabas.client.rewindable import RewindableReader, TransactionalReader
from barnabas.client.settings import READ_COMMITTED, Consistency, Isolation, Settings
from barnabas.client.topics import EARLIEST, LATEST, Topics
from barnabas.core.errors import InvalidRequest
from barnabas.core.model import TopicPartition

Records: TypeAlias = AssignedRecords | GroupRecords
OpenRecords: TypeAlias = Callable[[], Records]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is to be read, and how; see `Bus.consume`."""

    topics: str | Iterable[str]
    group: str | None = None
    mode: Mode = "at-least-once"
    max_poll_records: int = MAX_POLL_RECORDS
    partitions: Sequence[int] | None = None
    offset: Start = "earliest"
    timestamp_ms: int | None = None
    last: int | None = None
    until_end: bool = False
    until_ms: int | None = None
    max_records: int | None = None
    timeout: float | None = None
    isolation: Isolation | None = None
    consistency: Consistency | None = None

    @property
    def names(self) -> list[str]:
        return [self.topics] if isinstance(self.topics, str) else list(self.topics)


def iterate(open_records: OpenRecords) -> Generator[Message, None, None]:
    """Records as they arrive, for one thread; closed when the loop over them ends."""
    records = open_records()  # now, for what is never begun is never ended
    try:
        while (chunk := records.next_chunk()) is not None:
            if isinstance(records, AssignedRecords):
                yield from chunk
                continue
            for record in chunk:
                yield record
                records.note_processed(record)
    finally:
        records.close()


class Readers:
    """Makes readers for one cluster; refuses what does not exist, or cannot be asked together."""

    def __init__(self, settings: Settings, contact: Contact, topics: Topics, timeout_s: float) -> None:
        self._settings = settings
        self._contact = contact
        self._topics = topics
        self._timeout_s = timeout_s

    def open(self, reading: Reading) -> OpenRecords | TransactionalReader:
        """The records that are asked for; nothing is read before they are opened."""
        self._contact.make()
        if reading.group is not None:
            return self._in_group(reading, reading.group)
        level, settings = self._settings.isolation(reading.isolation), self._settings.reading(reading.consistency)
        starts, ends = self._plan(reading, level)
        return lambda: AssignedRecords(
            settings, starts, ends, max_records=reading.max_records, timeout_s=reading.timeout, isolation=level
        )

    def merge(self, reading: Reading) -> Generator[Message, None, None]:
        """All partitions as one stream by timestamp."""
        self._contact.make()
        level, settings = self._settings.isolation(reading.isolation), self._settings.reading(reading.consistency)
        starts, ends = self._plan(reading, level)
        return merge_records(settings, starts, ends, timeout_s=reading.timeout, isolation=level)

    def rewindable(self, reading: Reading, group: str, instance: str | None = None) -> Callable[[], RewindableReader]:
        """A member of a group that commits nothing by itself."""
        level, settings = self._settings.isolation(reading.isolation), self._settings.reading(reading.consistency)
        names = reading.names
        return lambda: RewindableReader(
            settings,
            names,
            group,
            start=str(reading.offset),
            max_poll_records=reading.max_poll_records,
            isolation=level,
            instance=instance,
        )

    def _in_group(self, reading: Reading, group: str) -> OpenRecords | TransactionalReader:
        if (
            reading.partitions is not None
            or reading.timestamp_ms is not None
            or reading.last is not None
            or reading.until_ms is not None
            or reading.offset not in ("earliest", "latest")
        ):
            raise InvalidRequest("a group reads from its committed offsets; to change them see reset_group")
        if reading.mode not in MODES:
            raise InvalidRequest(f"mode is {reading.mode!r}; it may be {' or '.join(MODES)}")
        if reading.max_poll_records < 1:
            raise InvalidRequest(f"max_poll_records is {reading.max_poll_records}; it must be at least 1")
        names = reading.names
        for name in names:
            if not name.startswith("^"):  # a regular expression
                self._topics.partition_ids(name)
        if reading.mode == "transactional":
            return TransactionalReader(
                self.rewindable(reading, group),
                until_end=reading.until_end,
                max_records=reading.max_records,
                timeout_s=reading.timeout,
            )
        level, settings = self._settings.isolation(reading.isolation), self._settings.reading(reading.consistency)
        return lambda: GroupRecords(
            GroupReader(
                settings,
                names,
                group,
                mode=reading.mode,
                start=str(reading.offset),
                max_poll_records=reading.max_poll_records,
                isolation=level,
            ),
            until_end=reading.until_end,
            max_records=reading.max_records,
            timeout_s=reading.timeout,
        )

    def _plan(
        self, reading: Reading, isolation: Isolation
    ) -> tuple[dict[TopicPartition, int], Mapping[TopicPartition, int] | None]:
        """Where to start, and where to end if there is an end."""
        picked = consuming.pick_partitions(self._topics, reading.names, reading.partitions)
        committed = isolation == READ_COMMITTED
        if reading.last is None:
            starts = consuming.resolve_start(
                self._topics, picked, reading.offset, reading.timestamp_ms, committed=committed
            )
        else:
            starts = self._last(picked, reading.last, committed=committed)
        if reading.until_ms is not None:
            found = self._topics.offsets_of(picked, reading.until_ms, committed=committed)
            older = [key for key, at in found.items() if at < 0]  # nothing that new yet: all there is
            return starts, found | self._topics.offsets_of(older, LATEST, committed=committed)
        if not reading.until_end:
            return starts, None
        if reading.consistency == "leader":
            from barnabas.client.confirming import confirmed_ends  # noqa: PLC0415 - brings kio, for few

            return starts, confirmed_ends(self._settings, picked, committed=committed, timeout_s=self._timeout_s)
        return starts, self._topics.offsets_of(picked, LATEST, committed=committed)

    def _last(self, picked: list[TopicPartition], count: int, *, committed: bool) -> dict[TopicPartition, int]:
        """Where the last so many offsets of each partition begin."""
        if count < 0:
            raise InvalidRequest(f"last is {count}; it must be at least 0")
        begins = self._topics.offsets_of(picked, EARLIEST)
        ends = self._topics.offsets_of(picked, LATEST, committed=committed)
        return {key: max(begins[key], ends[key] - count) for key in picked}
