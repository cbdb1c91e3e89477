"""Who has a partition or coordinates a group, and asking them: this node's services, or another broker.

Any node serves any client. What is led here is done by the verbs of this node, with the client's own session; what is
led elsewhere is authorized here, and asked of its leader (`runtime.asking_brokers`). Whoever leads may change at any
time: the caller tries again with the metadata of then (`Route.again`), until its time is over.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, NamedTuple

from barnabas.core.access.resources import Operation
from barnabas.core.errors import (
    BarnabasError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    LeaderNotAvailable,
    NotCoordinator,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    PeerError,
    UnknownTopicOrPartition,
)
from barnabas.core.fetched import CONSUMER, FetchPartition, FetchRequest
from barnabas.core.groups.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatReply
from barnabas.core.groups.offsets import CommitRequest, FetchedOffset, WantedOffset
from barnabas.core.metadata.names import OFFSETS_TOPIC
from barnabas.core.metadata.records import NO_LEADER
from barnabas.core.model import TopicPartition
from barnabas.core.produced import PartitionData, ProduceRequest, TopicData
from barnabas.core.records.batch import Buffer
from barnabas.runtime.asking_brokers import AskedBroker
from barnabas.runtime.other_brokers import OtherBrokers
from barnabas.runtime.peers import Peer
from barnabas.services.broker import Broker
from barnabas.services.fetch import Found, UnreadRecords
from barnabas.services.fetch_round import FetchRound, FetchRounds
from barnabas.services.fetch_sessions import FINAL_EPOCH, NO_SESSION
from barnabas.services.long_poll import LongPoll
from barnabas.services.offsets import LATEST, find_offset
from barnabas.services.produce import Transacting
from barnabas.services.produce_round import Placed, ProduceRound, ProduceRounds
from barnabas.services.session import Session
from barnabas.services.syncing import wait_synced
from barnabas.storage.lookup import TimedOffset

PURPOSE: Final = "grpc"
RETRY_S: Final = 0.05
MAX_FETCH_BYTES: Final = 1024 * 1024
"""Of records as they are in the log, for one fetch; one batch may be larger."""
_ANYWHERE: Final = "*"  # in the place of a rack: read from a replica that only follows, too
_PLAIN: Final = Transacting(adds=False, refusal_of=lambda error: error)

PASSING: Final = (LeaderNotAvailable, NotLeaderOrFollower, OffsetNotAvailable, PeerError)
"""Refusals that pass when it is known who leads."""
PASSING_OF_GROUPS: Final = (
    *PASSING,
    NotCoordinator,
    CoordinatorNotAvailable,
    CoordinatorLoadInProgress,
)


class Fetched(NamedTuple):
    """What there is to read of a partition."""

    records: Buffer
    high_watermark: int
    last_stable_offset: int
    aborted: tuple[tuple[int, int], ...]


class Reading(NamedTuple):
    """How to read."""

    is_committed: bool
    at_any: bool = False


class _Room:
    """What is read for a stream is held by that stream alone, which has one fetch of each leader at a time."""

    max_read_bytes = 128 * 1024 * 1024

    def reading(self) -> AbstractContextManager[int]:
        return nullcontext(self.max_read_bytes)


class Routes:
    """Finds who has what."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._others = broker.others
        self._produces = ProduceRounds(broker.produce, broker.served, broker.access)
        self._fetches = FetchRounds(
            broker.fetch, broker.fetch_sessions, broker.served, broker.access, max_bytes=broker.config.fetch_max_bytes
        )
        self._room = _Room()

    @property
    def others(self) -> OtherBrokers:
        """The way to other brokers; a node that is alone has none."""
        assert self._others is not None
        return self._others

    def leader_of(self, name: TopicPartition) -> int:
        """The node that leads a partition; refused if there is none."""
        state = self.broker.image.get_topic(name.topic).get_partition(name.partition)
        if state.leader == NO_LEADER:
            raise LeaderNotAvailable(f"{name} has no leader now")
        return state.leader

    def is_here(self, node_id: int) -> bool:
        """Whether a node is this one."""
        return node_id == self.broker.config.node_id

    def reader_of(self, name: TopicPartition, reading: Reading) -> int:
        """The node to read a partition from."""
        own = self.broker.config.node_id
        state = self.broker.image.get_topic(name.topic).get_partition(name.partition)
        return own if reading.at_any and own in state.isr else self.leader_of(name)

    # Producing

    def begin_produce(
        self, session: Session, name: TopicPartition, data: bytearray, *, acks: int, timeout_ms: int
    ) -> ProduceRound | None:
        """Append a batch to a partition that is led here; None if that has to be waited for. Raises refusals."""
        request = _request(name, data, acks=acks, timeout_ms=timeout_ms)
        done = self._produces.take_now(session, request)
        if done is not None:
            _check(done)
        return done

    async def produce_here(
        self, session: Session, name: TopicPartition, data: bytearray, *, acks: int, timeout_ms: int
    ) -> int:
        """Append a batch to a partition that is led here; returns its first offset, once acknowledged."""
        done = await self._produces.take(session, _request(name, data, acks=acks, timeout_ms=timeout_ms), _PLAIN)
        await done.wait_acked()
        return _check(done).first_offset

    async def produce_there(
        self, node_id: int, session: Session, name: TopicPartition, data: bytearray, *, acks: int, timeout_ms: int
    ) -> int:
        """Have another broker append a batch."""
        self.broker.access.authorize_topic(session, Operation.WRITE, name.topic)
        topic_id = self.broker.image.get_topic(name.topic).topic_id
        return await self._asked(node_id).produce(name, topic_id, data, acks=acks, timeout_ms=timeout_ms)

    # Reading

    async def fetch_here(
        self,
        session: Session,
        wanted: Mapping[TopicPartition, int],
        reading: Reading,
        *,
        max_wait_ms: int,
        max_bytes: int = MAX_FETCH_BYTES,
    ) -> dict[TopicPartition, Fetched | BarnabasError]:
        """What there is from these offsets on; waits for something unless there is."""
        topics: dict[str, list[FetchPartition]] = {}
        for name, offset in wanted.items():
            each = FetchPartition(name.partition, fetch_offset=offset, max_bytes=max_bytes)
            topics.setdefault(name.topic, []).append(each)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(reading.is_committed),
            replica_id=CONSUMER,
            session_id=NO_SESSION,
            session_epoch=FINAL_EPOCH,
            topics=list(topics.items()),
            forgotten=[],
            rack=_ANYWHERE if reading.at_any else "",
        )
        begun = self._fetches.begin(session, request, self._room)
        if not begun.is_ready:
            await _wait_ready(begun)
        if not begun.read_now():
            await begun.read()
        return {TopicPartition(str(key.topic), key.partition): _found(each) for key, each in begun.found.items()}

    async def fetch_there(
        self,
        asked: AskedBroker,
        session: Session,
        wanted: Mapping[TopicPartition, int],
        reading: Reading,
        *,
        max_wait_ms: int,
        max_bytes: int = MAX_FETCH_BYTES,
    ) -> dict[TopicPartition, Fetched | BarnabasError]:
        """The same of another broker."""
        refused: dict[TopicPartition, Fetched | BarnabasError] = {}
        partitions = {}
        for name, offset in wanted.items():
            try:
                self.broker.access.authorize_topic(session, Operation.READ, name.topic)
                topic_id = self.broker.image.get_topic(name.topic).topic_id
            except BarnabasError as error:
                refused[name] = error.with_traceback(None)
                continue
            partitions[name] = (topic_id, FetchPartition(name.partition, fetch_offset=offset, max_bytes=max_bytes))
        if not partitions:
            return refused
        answer = await asked.fetch(
            partitions, is_committed=reading.is_committed, max_wait_ms=max_wait_ms, max_bytes=max_bytes
        )
        found = {name: each if isinstance(each, BarnabasError) else Fetched(*each) for name, each in answer.items()}
        return refused | found

    async def fetch_once(self, session: Session, name: TopicPartition, offset: int, reading: Reading) -> Fetched:
        """What there is at one offset, without waiting for it."""
        node_id = self.reader_of(name, reading)
        wanted = {name: offset}
        if self.is_here(node_id):
            answer = await self.fetch_here(session, wanted, reading, max_wait_ms=0, max_bytes=1)
        else:
            answer = await self.fetch_there(self._asked(node_id), session, wanted, reading, max_wait_ms=0, max_bytes=1)
        found = answer.get(name)
        if found is None:
            raise LeaderNotAvailable(f"the leader of {name} says nothing of it")
        if isinstance(found, BarnabasError):
            raise found
        return found

    async def find_offset(
        self, session: Session, name: TopicPartition, timestamp: int, *, is_committed: bool, is_sure: bool = False
    ) -> int:
        """The offset for a time, or for one of the names in `services.offsets`; -1: none. `is_sure`: only from a leader
        that knows that nobody else leads.
        """
        self.broker.access.authorize_topic(session, Operation.DESCRIBE, name.topic)
        leader = self.leader_of(name)
        if not self.is_here(leader):
            offset, is_leased = await self._asked(leader).find_offset(name, timestamp, is_committed=is_committed)
        else:
            partition = self.broker.served.get_partition(*name)
            if timestamp >= LATEST:
                await wait_synced([partition])
            found = find_offset(partition, timestamp, is_committed=is_committed)
            is_leased = partition.may_answer  # in the turn in which it was found
            if not isinstance(found, TimedOffset):
                found = await self.broker.threads.compute.run(found)
            offset = found.offset
        if is_sure and not is_leased:
            raise LeaderNotAvailable(f"no controller confirms that node {leader} leads {name}")
        return offset

    # Groups

    async def heartbeat(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatReply:
        """Tell the coordinator that a member is there, or leaves."""
        node_id = await self._coordinator_of(request.group)
        if self.is_here(node_id):
            return await self.broker.groups.consumer_heartbeat(request)
        return await self._asked(node_id).heartbeat(request)

    async def commit(self, request: CommitRequest) -> list[BarnabasError | None]:
        """Commit offsets: for each None, or why it was not committed."""
        node_id = await self._coordinator_of(request.group)
        if self.is_here(node_id):
            return list(await self.broker.groups.commit_offsets(request))
        return await self._asked(node_id).commit(request)

    async def committed(
        self, group: str, names: Sequence[TopicPartition], *, member_id: str | None, epoch: int
    ) -> list[FetchedOffset]:
        """The committed offsets of a group."""
        topics = self.broker.image.topics
        wanted = [(name, topics[name.topic].topic_id) for name in names if name.topic in topics]
        node_id = await self._coordinator_of(group)
        if self.is_here(node_id):
            asked = [WantedOffset(*name, topic_id) for name, topic_id in wanted]
            return list(
                await self.broker.groups.fetch_offsets(
                    group, asked, member_id=member_id, epoch=epoch, must_be_stable=True
                )
            )
        return await self._asked(node_id).fetch_offsets(group, wanted, member_id=member_id, epoch=epoch)

    async def _coordinator_of(self, group: str) -> int:
        partition = await self.broker.groups.find_partition(group)
        try:
            return self.leader_of(TopicPartition(OFFSETS_TOPIC, partition))
        except (LeaderNotAvailable, UnknownTopicOrPartition) as error:
            raise CoordinatorNotAvailable(f"group '{group}' has no coordinator now: {error}") from None

    # Other brokers

    def own_way(self, node_id: int) -> tuple[Peer, AskedBroker]:
        """A way to another broker for one stream alone, whose long polls would hold up others. The caller closes it."""
        peer = self.others.once(node_id)
        return peer, AskedBroker(peer, purpose=PURPOSE)

    def _asked(self, node_id: int) -> AskedBroker:
        return AskedBroker(self.others.at(node_id), purpose=PURPOSE)


def _request(name: TopicPartition, data: bytearray, *, acks: int, timeout_ms: int) -> ProduceRequest:
    part = PartitionData(name.partition, memoryview(data))
    return ProduceRequest(None, acks, timeout_ms, [TopicData(name.topic, None, [part])])


def _check(done: ProduceRound) -> Placed:
    """Where the one batch of a round is; raises if it was refused."""
    outcome = done.outcomes[0][0]
    if isinstance(outcome, BarnabasError):
        raise outcome
    return outcome


async def _wait_ready(begun: FetchRound) -> None:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    poll = LongPoll(begun, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    except asyncio.CancelledError:
        poll.cancel()
        raise


def _found(found: Found | BarnabasError) -> Fetched | BarnabasError:
    error = found if isinstance(found, BarnabasError) else found.error
    if error is not None:
        return error
    assert isinstance(found, Found)
    assert not isinstance(found.records, UnreadRecords)
    return Fetched(found.records, found.high_watermark, found.last_stable_offset, found.aborted or ())
