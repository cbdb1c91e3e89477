"""Writing dead letters (KIP-1191): the verb. Who has letters to write is `share_letters`.

A letter goes to the partition of the group's dead-letter topic that has the number of its record's partition, modulo
their count, whoever leads it, and counts as written when it is acknowledged by all replicas in sync. The topic is
checked each time: it must be one that takes dead letters, since whoever writes to a queue writes to this topic, too.
A letter that would be too large for its topic goes without its record, and says only where that is.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.core.errors import InvalidConfig, LeaderNotAvailable, OffsetNotAvailable
from barnabas.core.fetched import FetchPartition
from barnabas.core.groups.settings import LetterSettings
from barnabas.core.metadata.records import NO_LEADER
from barnabas.core.metadata.topics import NewTopic
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import HEADER_SIZE, Buffer, iter_whole_batches
from barnabas.core.records.dead_letters import LetterRange, Source, build_letter
from barnabas.core.records.record import Record, encode_batch, iter_records
from barnabas.runtime.clock import Clock
from barnabas.runtime.offload import Offload
from barnabas.runtime.other_brokers import OtherBrokers
from barnabas.runtime.other_leaders import produce as produce_elsewhere
from barnabas.runtime.partition import Partition
from barnabas.services.fetch import Fetch
from barnabas.services.opening import max_opened_bytes
from barnabas.services.produce import ACKS_ALL, Produce
from barnabas.services.produce_round import Placed, ProduceRound
from barnabas.services.served import ServedTopic, ServedTopics
from barnabas.services.settings.catalogue.share_settings import LETTERS_ALLOWED
from barnabas.services.settings.letter_topics import check_letter_topic
from barnabas.services.settings.live_config import LiveConfig
from barnabas.services.topics import DEFAULT, Topics

MAX_LETTERS: Final = 500
"""In one batch: more take several."""
READ_BYTES: Final = 1024 * 1024
AT_ONCE: Final = 16
"""Batches that are read and written at the same time, of all share partitions: they are in memory."""
TIMEOUT_MS: Final = 15_000
_RECORD_OVERHEAD: Final = 40  # at most, of a record: its lengths, its time, its offset
_HEADER_OVERHEAD: Final = 10


class _Read(NamedTuple):
    """Records of the log by their offsets, as far as they were read."""

    records: Mapping[int, Record]
    last_offset: int


class DeadLetters:
    """Writes letters for records that this node leads."""

    def __init__(
        self,
        live: LiveConfig,
        *,
        served: ServedTopics,
        topics: Topics,
        produce: Produce,
        fetch: Fetch,
        others: OtherBrokers,
        offload: Offload,
        clock: Clock,
    ) -> None:
        self._live = live
        self._served = served
        self._topics = topics
        self._produce = produce
        self._fetch = fetch
        self._others = others
        self._offload = offload
        self._clock = clock
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def write(self, group: str, partition: Partition, wanted: LetterRange, settings: LetterSettings) -> int:
        """Write the letters of a range, or of its beginning; the last offset whose letter is written."""
        async with self._turn:
            return await self._write(group, partition, wanted, settings)

    async def _write(self, group: str, partition: Partition, wanted: LetterRange, settings: LetterSettings) -> int:
        topic = await self._find(settings.topic)
        wanted = wanted._replace(last=min(wanted.last, wanted.first + MAX_LETTERS - 1))
        read = _Read({}, wanted.last)
        if settings.is_copied:
            read = await self._read(partition, wanted)
        source = Source(group, partition.name.topic, partition.name.partition, wanted.first)
        most, now_ms = topic.config.log.max_message_bytes, self._clock.now_ms()
        batch, last = await self._offload.run(lambda: _encode(source, wanted, read, max_bytes=most, now_ms=now_ms))
        index = partition.name.partition % len(topic.partitions)
        await self._append(topic, TopicPartition(topic.name, index), batch)
        return last

    # The topic

    async def _find(self, name: str) -> ServedTopic:
        settings = self._live.current.shares
        check_letter_topic(name, prefix=settings.errors_deadletterqueue_topic_name_prefix)
        topic = self._served.by_name.get(name)
        if topic is None:
            if not settings.errors_deadletterqueue_auto_create_topics_enable:
                raise InvalidConfig(
                    f"dead-letter topic '{name}' does not exist: create it with {LETTERS_ALLOWED}=true, or set "
                    "errors.deadletterqueue.auto.create.topics.enable=true"
                )
            # Letters have the time at which they are written, whatever the broker's default is.
            configs = {LETTERS_ALLOWED: "true", "message.timestamp.type": "CreateTime"}
            await self._topics.ensure(NewTopic(name, DEFAULT, DEFAULT, None, configs))
            topic = self._served.get(name)
        if not topic.config.takes_dead_letters:
            raise InvalidConfig(f"topic '{name}' takes no dead letters: it must have {LETTERS_ALLOWED}=true")
        if not topic.partitions:
            raise LeaderNotAvailable(f"dead-letter topic '{name}' has no partitions yet")
        return topic

    async def _append(self, topic: ServedTopic, name: TopicPartition, batch: bytearray) -> None:
        leader = self._others.leader_of(name)
        if leader is None or leader == NO_LEADER:
            raise LeaderNotAvailable(f"nobody leads {name}")
        if not self._others.is_here(leader):
            await produce_elsewhere(
                self._others, leader, topic.topic_id, name, bytes(batch), acks=ACKS_ALL, timeout_ms=TIMEOUT_MS
            )
            return
        partition = topic.get(name.partition)
        appended = await self._produce.append_opened(topic, partition, memoryview(batch), acks=ACKS_ALL)
        done = ProduceRound([[]], timeout_ms=TIMEOUT_MS)
        done.place(done.outcomes[0], partition, appended, acks=ACKS_ALL)
        await done.wait_acked()
        outcome = done.outcomes[0][0]
        if not isinstance(outcome, Placed):
            raise outcome

    # The records

    async def _read(self, partition: Partition, wanted: LetterRange) -> _Read:
        found = self._fetch.look(
            partition,
            FetchPartition(partition.name.partition, fetch_offset=wanted.first, max_bytes=READ_BYTES),
            is_committed=False,
            max_bytes=READ_BYTES,
            is_first=True,
        )
        data = await self._fetch.read_whole(found, at_once=READ_BYTES, most=READ_BYTES)
        read = await self._offload.run(lambda: _decode(data, wanted))
        if read.last_offset < wanted.first:
            raise OffsetNotAvailable(f"offset {wanted.first} of {partition.name} cannot be read yet")
        return read


def _decode(data: Buffer, wanted: LetterRange) -> _Read:
    """The records of a range that are in these batches. One that is not was compacted away."""
    records: dict[int, Record] = {}
    last_offset = wanted.first - 1
    for position, header in iter_whole_batches(data):
        if header.base_offset > wanted.last:
            last_offset = wanted.last
            break
        last_offset = min(header.last_offset, wanted.last)
        most = max_opened_bytes(memoryview(data)[position : position + header.size])
        for record in iter_records(data, position, header, max_bytes=most):
            if wanted.first <= record.offset <= wanted.last:
                records[record.offset] = record
        if last_offset == wanted.last:
            break
    return _Read(records, last_offset)


def _encode(source: Source, wanted: LetterRange, read: _Read, *, max_bytes: int, now_ms: int) -> tuple[bytearray, int]:
    """A batch of letters, and the last offset that has one in it."""
    letters: list[Record] = []
    left = max_bytes - HEADER_SIZE
    for offset in range(wanted.first, read.last_offset + 1):
        at, number = source._replace(offset=offset), len(letters)
        letter = build_letter(at, at=wanted, record=read.records.get(offset), number=number, now_ms=now_ms)
        size = _size_of(letter)
        if letters and size > left:
            break
        if size > left:
            letter = build_letter(at, at=wanted, record=None, number=number, now_ms=now_ms)
            size = _size_of(letter)
        letters.append(letter)
        left -= size
    return encode_batch(letters), wanted.first + len(letters) - 1


def _size_of(letter: Record) -> int:
    """How large a record is at most."""
    headers = sum(len(name) * 4 + len(value or b"") + _HEADER_OVERHEAD for name, value in letter.headers)
    return _RECORD_OVERHEAD + len(letter.key or b"") + len(letter.value or b"") + headers
