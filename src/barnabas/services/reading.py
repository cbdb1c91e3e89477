"""Reading partitions wherever they are led, without a consumer: batches at an offset, ends of logs, offsets by time.

For edges that answer for the whole cluster, and for the lag of groups. Whoever asks here was authorized before. What
another node leads is asked of that node; if the leader moves meanwhile, the refusal says so and the caller asks again.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.core.errors import BarnabasError, LeaderNotAvailable
from barnabas.core.fetched import READ_COMMITTED, FetchPartition
from barnabas.core.metadata.records import NO_LEADER
from barnabas.core.model import TopicPartition
from barnabas.runtime.offload import Offload
from barnabas.runtime.other_brokers import OtherBrokers
from barnabas.runtime.other_leaders import FetchedBatches, ListedOffset, fetch, list_offsets, settled
from barnabas.runtime.turns import in_turns
from barnabas.services.fetch import Fetch
from barnabas.services.offsets import EARLIEST, LATEST, find_offset
from barnabas.services.served import ServedTopics
from barnabas.services.syncing import wait_synced

READ_UNCOMMITTED: Final = 0


class Ends(NamedTuple):
    """Where a log begins and ends for those who read it."""

    start_offset: int
    end_offset: int


class ClusterReader:
    """Reads from this node or from others."""

    def __init__(self, served: ServedTopics, fetch_verb: Fetch, others: OtherBrokers, offload: Offload) -> None:
        self._served = served
        self._fetch = fetch_verb
        self._others = others
        self._offload = offload

    async def read(
        self, name: TopicPartition, offset: int, *, max_bytes: int, is_committed: bool = True, max_wait_ms: int = 0
    ) -> FetchedBatches:
        """Batches from the one on that has `offset`: at least one, if there is any that may be read.

        `max_wait_ms` is how long another node waits for the first; here nothing is waited for.
        """
        topic = self._served.get(name.topic)
        if not self._others.is_here(self._leader_of(name)):
            level = READ_COMMITTED if is_committed else READ_UNCOMMITTED

            async def ask() -> FetchedBatches:
                return await fetch(
                    self._others,
                    self._leader_of(name),
                    topic.topic_id,
                    name,
                    offset=offset,
                    max_bytes=max_bytes,
                    isolation_level=level,
                    max_wait_ms=max_wait_ms,
                )

            return await settled(ask)
        partition = topic.get(name.partition)
        wanted = FetchPartition(name.partition, fetch_offset=offset, max_bytes=max_bytes)
        found = self._fetch.look(partition, wanted, is_committed=is_committed, max_bytes=max_bytes, is_first=True)
        if not self._fetch.read_now([found], max_bytes=max(max_bytes, found.size)):
            await self._fetch.read([found], max_bytes=max(max_bytes, found.size))
        if found.error is not None:
            raise found.error
        records = found.records
        if not isinstance(records, bytes | bytearray | memoryview):
            records = await records.take(len(records))
        return FetchedBatches(
            bytes(records),
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
            found.aborted or (),
        )

    async def ends(
        self, names: Iterable[TopicPartition], *, is_committed: bool = True
    ) -> dict[TopicPartition, Ends | BarnabasError]:
        """Where the logs of partitions begin and end."""
        names = list(names)
        starts = await self.find(names, EARLIEST, is_committed=is_committed)
        lasts = await self.find(names, LATEST, is_committed=is_committed)
        return {name: _ends(starts[name], lasts[name]) for name in names}

    async def find(
        self, names: Iterable[TopicPartition], timestamp: int, *, is_committed: bool = True
    ) -> dict[TopicPartition, ListedOffset | BarnabasError]:
        """The offset for a time, or for one of the names in `services.offsets`, of each partition."""
        found: dict[TopicPartition, ListedOffset | BarnabasError] = {}
        elsewhere: dict[int, list[TopicPartition]] = defaultdict(list)
        async for name in in_turns(names, per_turn=50):
            try:
                leader = self._leader_of(name)
                if self._others.is_here(leader):
                    found[name] = await self._find_here(name, timestamp, is_committed=is_committed)
                else:
                    elsewhere[leader].append(name)
            except BarnabasError as error:
                found[name] = error.with_traceback(None)
        level = READ_COMMITTED if is_committed else READ_UNCOMMITTED
        for node_id, asked in elsewhere.items():
            try:
                answers = await list_offsets(self._others, node_id, asked, timestamp=timestamp, isolation_level=level)
            except BarnabasError as error:
                answers = dict.fromkeys(asked, error.with_traceback(None))
            silence = LeaderNotAvailable(f"node {node_id} did not answer for it")
            found.update({name: answers.get(name, silence) for name in asked})
        return found

    async def _find_here(self, name: TopicPartition, timestamp: int, *, is_committed: bool) -> ListedOffset:
        partition = self._served.get_partition(*name)
        if timestamp == LATEST:
            await wait_synced([partition])
        result = find_offset(partition, timestamp, is_committed=is_committed)
        timed = await self._offload.run(result) if callable(result) else result
        return ListedOffset(timed.offset, timed.timestamp)

    def _leader_of(self, name: TopicPartition) -> int:
        self._served.get_partition(*name)  # refused if it does not exist
        leader = self._others.leader_of(name)
        if leader is None or leader == NO_LEADER:
            raise LeaderNotAvailable(f"nobody leads {name}")
        return leader


def _ends(start: ListedOffset | BarnabasError, last: ListedOffset | BarnabasError) -> Ends | BarnabasError:
    if isinstance(start, BarnabasError):
        return start
    return last if isinstance(last, BarnabasError) else Ends(start.offset, last.offset)
