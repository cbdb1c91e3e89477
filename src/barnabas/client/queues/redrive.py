"""Redrive: dead letters of a share group go back to the topics that their records came from.

Each letter once: what is sent, and how far the letters were read, is one transaction, in the name of a group of its own
(`progress_group`). Whoever redrives next takes over its transactional id, and goes on where the last transaction ended.
A letter that is there twice, since the leader of its partition failed after writing it, is sent once in a run.

Letters of other groups in the same topic are left to these.
"""

import hashlib
import itertools
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import confluent_kafka

from barnabas.client.brokers import Brokers
from barnabas.client.closing import READER_S, close_within
from barnabas.client.coordinators import Coordinators, read_committed_offsets
from barnabas.client.errors import RecordNotFound
from barnabas.client.message import Message
from barnabas.client.settings import Settings
from barnabas.client.topics import EARLIEST, LATEST, Topics
from barnabas.client.transactions import TIMEOUT_S, TransactionalProducers
from barnabas.core.errors import UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records.dead_letters import ReadLetter, read_letter
from barnabas.core.records.record import Header

BATCH: Final = 500
"""Letters of one transaction."""
MAX_SEEN: Final = 1_000_000
"""Letters that are remembered in a run, to find those that are there twice."""


def progress_group(group: str) -> str:
    """The group that says how far the letters of a group were redriven, and the transactional id of who does it."""
    return f"{group}.redrive"


@dataclass(frozen=True, slots=True)
class Redriven:
    """What became of the letters that were read: `sent` by topic; in a dry run, what would have been."""

    topic: str
    sent: Mapping[str, int] = field(default_factory=dict)
    duplicates: int = 0
    gone: int = 0
    """Letters without a copy whose record is no longer in its topic, and letters whose topic is gone: not sent."""
    others: int = 0
    """Letters of other groups, and records that are no letters."""


class Progress(NamedTuple):
    """How far the letters of a partition were redriven, and where they end."""

    start_offset: int
    end_offset: int


class Reading(Protocol):
    """The bus, as far as it matters here."""

    def consume(self, topics: str, *, offset: Mapping[int, int], until_end: bool) -> Generator[Message, None, None]: ...

    def get(self, topic: str, partition: int, offset: int, *, isolation: Any = ...) -> Message: ...


class _Record(NamedTuple):
    """What is sent back."""

    to: TopicPartition
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class _Nexts:
    """The offsets that a transaction commits: those after the letters that were read."""

    def __init__(self, member: Any) -> None:
        self._member = member
        self._nexts: dict[TopicPartition, int] = {}

    def note(self, letter: Message) -> None:
        self._nexts[TopicPartition(letter.topic, letter.partition)] = letter.offset + 1

    def uncommitted(self) -> tuple[list[Any], Any]:
        return [confluent_kafka.TopicPartition(*key, offset) for key, offset in self._nexts.items()], self._member

    def note_committed(self) -> None:
        self._nexts = {}

    def rewind(self, *, ask: bool = False) -> None:  # noqa: ARG002
        self._nexts = {}  # the run ends, and the next one asks


class Redrive:
    """Redrives the letters of one topic."""

    def __init__(
        self,
        bus: Reading,
        transactions: TransactionalProducers,
        *,
        settings: Settings,
        topics: Topics,
        timeout_s: float,
    ) -> None:
        self._bus = bus
        self._transactions = transactions
        self._settings = settings
        self._topics = topics
        self._timeout_s = timeout_s
        self._counts: dict[str, int] = {}  # partitions of topics, 0 for one that is not there

    def progress(self, group: str, topic: str) -> dict[int, Progress]:
        """How far the letters of each partition were redriven."""
        keys = [TopicPartition(topic, each) for each in self._topics.partition_ids(topic)]
        starts, ends = self._topics.offsets_of(keys, EARLIEST), self._topics.offsets_of(keys, LATEST)
        brokers = Brokers(self._settings)
        try:
            found = read_committed_offsets(Coordinators(brokers), progress_group(group), keys, self._timeout_s)
        finally:
            brokers.close()
        return {
            key.partition: Progress(max(found.get(key, (0, ""))[0], starts[key]), max(ends[key], starts[key]))
            for key in keys
        }

    def run(self, group: str, topic: str, *, limit: int | None = None, is_dry: bool = False) -> Redriven:
        """Redrive the letters that are there now, `limit` of them at most."""
        name = progress_group(group)
        if is_dry:
            return self._run(group, topic, limit, None)
        # Before the progress is read: what another one has begun is then ended, or fenced.
        self._transactions.initialise(name, TIMEOUT_S)
        consumer = self._settings.member(name, "earliest")
        try:
            return self._run(group, topic, limit, _Nexts(consumer.consumer_group_metadata()))
        finally:
            close_within(consumer, READER_S)
            self._transactions.discard(name)

    def _run(self, group: str, topic: str, limit: int | None, nexts: _Nexts | None) -> Redriven:
        left = limit
        sorting = _Sorting(self, group)
        with closing(self._letters(group, topic)) as letters:
            while left is None or left > 0:
                chunk = list(itertools.islice(letters, BATCH if left is None else min(BATCH, left)))
                if not chunk:
                    break
                records = [record for each in chunk if (record := sorting.sort(each)) is not None]
                if nexts is not None:
                    self._send(progress_group(group), chunk, records, nexts)
                left = None if left is None else left - len(records)
        return Redriven(topic, dict(sorting.sent), sorting.duplicates, sorting.gone, sorting.others)

    def _send(self, name: str, chunk: list[Message], records: list[_Record], nexts: _Nexts) -> None:
        with self._transactions.open(name) as transaction:
            transaction.commit_offsets(nexts)
            for each in chunk:
                nexts.note(each)
            for record in records:
                transaction.send(
                    record.to.topic,
                    record.value,
                    key=record.key,
                    partition=record.to.partition,
                    headers=record.headers,
                )

    def _letters(self, group: str, topic: str) -> Generator[Message, None, None]:
        progress = self.progress(group, topic)
        starts = {partition: each.start_offset for partition, each in progress.items()}
        return self._bus.consume(topic, offset=starts, until_end=True)

    def record_of(self, letter: Message, read: ReadLetter) -> _Record | None:
        """What is sent back for a letter; None if it is gone."""
        source = read.source
        to = TopicPartition(source.topic, source.partition)
        if source.partition >= self._partition_count(source.topic):
            return None
        if read.is_copy:
            return _Record(to, letter.key, letter.value, read.headers)
        try:
            found = self._bus.get(*to, source.offset, isolation="read_uncommitted")
        except RecordNotFound:
            return None
        return _Record(to, found.key, found.value, found.headers)

    def _partition_count(self, topic: str) -> int:
        if topic not in self._counts:
            try:
                self._counts[topic] = len(self._topics.partition_ids(topic))
            except UnknownTopicOrPartition:
                self._counts[topic] = 0
        return self._counts[topic]


class _Sorting:
    """What is to be done with each letter of a run."""

    def __init__(self, redrive: Redrive, group: str) -> None:
        self._redrive = redrive
        self._group = group
        self._seen: dict[bytes, None] = {}
        self.sent: Counter[str] = Counter()
        self.duplicates = self.gone = self.others = 0

    def sort(self, letter: Message) -> _Record | None:
        """The record to send; None if there is none."""
        has_content = letter.key is not None or letter.value is not None
        read = read_letter(letter.headers, has_content=has_content)
        if read is None or read.source.group != self._group:
            self.others += 1
            return None
        if self._is_seen(letter, read):
            self.duplicates += 1
            return None
        record = self._redrive.record_of(letter, read)
        if record is None:
            self.gone += 1
            return None
        self.sent[record.to.topic] += 1
        return record

    def _is_seen(self, letter: Message, read: ReadLetter) -> bool:
        """Whether there was such a letter: of the same offset, and of the same record, since a topic may have been
        deleted and created anew.
        """
        digest = hashlib.blake2b(repr((read.source, letter.key, letter.value)).encode(), digest_size=16).digest()
        if digest in self._seen:
            return True
        if len(self._seen) >= MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        self._seen[digest] = None
        return False
