"""Requests of clients that another broker has to carry out: produce, fetch, offsets and groups, in Kafka's own words.

For edges that serve any client at any node. Whether the client may do so was checked by the node that it has asked, and
nobody else knows the client: the other broker sees this node. An answer with an error code is raised as the refusal it
stands for; a broker that does not answer is a `PeerError`.

Must not know: where a request came from, who leads what.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from barnabas.core.errors import BarnabasError, UnknownTopicOrPartition
from barnabas.core.errors.codes import refusal_of
from barnabas.core.fetched import CONSUMER, FetchPartition
from barnabas.core.groups.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatReply
from barnabas.core.groups.offsets import CommitRequest, FetchedOffset, NewOffset
from barnabas.core.groups.records import NO_TOPIC_ID, TopicPartitions
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import Buffer
from barnabas.wire.apis import CONSUMER_GROUP_HEARTBEAT, FETCH, LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, PRODUCE
from barnabas.wire.own_fields import LEASED
from barnabas.wire.requests import to_ms
from barnabas.wire.writing import Values

ANSWER_S: Final = 10.0
"""For an answer that waits for nothing: a broker that hangs is fenced by then."""
_SPARE_S: Final = 5.0  # beyond what the other broker may wait
_IDS_FROM: Final = 13  # the version of Fetch, and of Produce, from which on topics are named by their ids
_OFFSETS_BY_ID_FROM: Final = 10
_NO_SESSION: Final = 0
_FINAL_EPOCH: Final = -1


class Calls(Protocol):
    """A way to one broker."""

    async def call(
        self,
        api_key: int,
        values: Values,
        *,
        timeout_s: float,
        purpose: str,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Any:
        """See `runtime.peers.Peer`."""
        ...


class RemoteFetched(NamedTuple):
    """What another broker has of a partition."""

    records: Buffer
    high_watermark: int
    last_stable_offset: int
    aborted: tuple[tuple[int, int], ...]


class AskedBroker:
    """One other broker, asked for clients. Each purpose has a connection of its own."""

    def __init__(self, calls: Calls, *, purpose: str) -> None:
        self._calls = calls
        self._purpose = purpose

    async def produce(
        self, name: TopicPartition, topic_id: UUID, records: Buffer, *, acks: int, timeout_ms: int
    ) -> int:
        """Append one batch; returns its first offset once it is acknowledged."""
        data = {"index": name.partition, "records": bytes(records)}
        values: Values = {
            "transactional_id": None,
            "acks": acks,
            "timeout": timeout_ms,
            "topic_data": [{"topic_id": topic_id, "partition_data": [data]}],
        }
        answer = await self._ask(PRODUCE.key, values, timeout_s=timeout_ms / 1000 + _SPARE_S, min_version=_IDS_FROM)
        for topic in answer.responses:
            for each in topic.partition_responses:
                _check(each.error_code, each.error_message or f"{name} refuses the records")
                return int(each.base_offset)
        raise UnknownTopicOrPartition(f"the leader of {name} says nothing of it")

    async def fetch(
        self,
        wanted: Mapping[TopicPartition, tuple[UUID, FetchPartition]],
        *,
        is_committed: bool,
        max_wait_ms: int,
        max_bytes: int,
    ) -> dict[TopicPartition, RemoteFetched | BarnabasError]:
        """The records of some partitions, each found or refused; without an entry: nothing new."""
        topics: dict[UUID, list[dict[str, int]]] = {}
        names: dict[tuple[UUID, int], TopicPartition] = {}
        for name, (topic_id, each) in wanted.items():
            asked = {
                "partition": each.partition,
                "fetch_offset": each.fetch_offset,
                "partition_max_bytes": each.max_bytes,
                "current_leader_epoch": each.current_leader_epoch,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
            }
            topics.setdefault(topic_id, []).append(asked)
            names[topic_id, each.partition] = name
        values: Values = {
            "replica_id": CONSUMER,
            "replica_state": {"replica_id": CONSUMER, "replica_epoch": -1},
            "max_wait": max_wait_ms,
            "min_bytes": 1,
            "max_bytes": max_bytes,
            "isolation_level": int(is_committed),
            "session_id": _NO_SESSION,
            "session_epoch": _FINAL_EPOCH,
            "topics": [{"topic_id": topic_id, "partitions": some} for topic_id, some in topics.items()],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        answer = await self._ask(FETCH.key, values, timeout_s=max_wait_ms / 1000 + ANSWER_S, min_version=_IDS_FROM)
        _check(answer.error_code, "the fetch is refused")
        return {
            names[topic.topic_id, each.partition_index]: _fetched(each)
            for topic in answer.responses
            for each in topic.partitions
            if (topic.topic_id, each.partition_index) in names
        }

    async def find_offset(self, name: TopicPartition, timestamp: int, *, is_committed: bool) -> tuple[int, bool]:
        """The offset for a time, or a name of `services.offsets`, and whether the leader is sure that it leads."""
        values: Values = {
            "replica_id": CONSUMER,
            "isolation_level": int(is_committed),
            "wants_lease": 1,
            "topics": [
                {"name": name.topic, "partitions": [{"partition_index": name.partition, "timestamp": timestamp}]}
            ],
        }
        answer = await self._ask(LIST_OFFSETS.key, values, timeout_s=ANSWER_S)
        for topic in answer.topics:
            for each in topic.partitions:
                _check(each.error_code, f"the leader of {name} refuses to look up an offset")
                return int(each.offset), getattr(answer, "leased", 0) == LEASED
        raise UnknownTopicOrPartition(f"the leader of {name} says nothing of it")

    async def heartbeat(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatReply:
        """ConsumerGroupHeartbeat."""
        owned = request.owned
        values: Values = {
            "group_id": request.group,
            "member_id": request.member_id,
            "member_epoch": request.member_epoch,
            "instance_id": request.instance_id,
            "rack_id": request.rack,
            "rebalance_timeout": request.rebalance_timeout_ms,
            "subscribed_topic_names": None if request.topics is None else list(request.topics),
            "subscribed_topic_regex": request.regex,
            "server_assignor": request.assignor,
            "topic_partitions": None
            if owned is None
            else [{"topic_id": each.topic_id, "partitions": list(each.partitions)} for each in owned],
        }
        answer = await self._ask(CONSUMER_GROUP_HEARTBEAT.key, values, timeout_s=ANSWER_S, min_version=1)
        _check(answer.error_code, answer.error_message or "the heartbeat is refused")
        assigned = answer.assignment
        return ConsumerHeartbeatReply(
            member_id=answer.member_id or request.member_id,
            member_epoch=int(answer.member_epoch),
            heartbeat_interval_ms=to_ms(answer.heartbeat_interval),
            assignment=None
            if assigned is None
            else tuple(
                TopicPartitions(each.topic_id or NO_TOPIC_ID, tuple(map(int, each.partitions)))
                for each in assigned.topic_partitions
            ),
        )

    async def commit(self, request: CommitRequest) -> list[BarnabasError | None]:
        """OffsetCommit: for each offset None, or why it was not committed."""
        topics: dict[UUID, list[Values]] = {}
        for each in request.offsets:
            topics.setdefault(each.topic_id, []).append(_committed(each))
        values: Values = {
            "group_id": request.group,
            "generation_id_or_member_epoch": request.generation,
            "member_id": request.member_id,
            "group_instance_id": request.instance_id,
            "topics": [{"topic_id": topic_id, "partitions": some} for topic_id, some in topics.items()],
        }
        answer = await self._ask(OFFSET_COMMIT.key, values, timeout_s=ANSWER_S, min_version=_OFFSETS_BY_ID_FROM)
        codes = {
            (topic.topic_id, int(each.partition_index)): int(each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        }
        return [_refusal(codes.get((each.topic_id, each.partition), 0), "not committed") for each in request.offsets]

    async def fetch_offsets(
        self, group: str, wanted: Sequence[tuple[TopicPartition, UUID]], *, member_id: str | None, epoch: int
    ) -> list[FetchedOffset]:
        """OffsetFetch, of stable offsets, in the order of `wanted`."""
        topics: dict[UUID, list[int]] = {}
        for name, topic_id in wanted:
            topics.setdefault(topic_id, []).append(name.partition)
        asked: Values = {
            "group_id": group,
            "member_id": member_id,
            "member_epoch": epoch,
            "topics": [{"topic_id": topic_id, "partition_indexes": some} for topic_id, some in topics.items()],
        }
        values: Values = {"groups": [asked], "require_stable": True}
        answer = await self._ask(OFFSET_FETCH.key, values, timeout_s=ANSWER_S, min_version=_OFFSETS_BY_ID_FROM)
        found: dict[tuple[UUID, int], Any] = {}
        for of_group in answer.groups:
            _check(of_group.error_code, f"the offsets of group '{group}' are refused")
            for topic in of_group.topics:
                found.update(((topic.topic_id, int(each.partition_index)), each) for each in topic.partitions)
        return [_fetched_offset(name, found.get((topic_id, name.partition))) for name, topic_id in wanted]

    async def _ask(self, api_key: int, values: Values, *, timeout_s: float, min_version: int = 0) -> Any:
        return await self._calls.call(
            api_key, values, timeout_s=timeout_s, purpose=self._purpose, min_version=min_version
        )


def _committed(each: NewOffset) -> Values:
    return {
        "partition_index": each.partition,
        "committed_offset": each.offset,
        "committed_leader_epoch": each.leader_epoch,
        "committed_metadata": each.metadata,
    }


def _fetched(each: Any) -> RemoteFetched | BarnabasError:
    refusal = _refusal(int(each.error_code), f"partition {each.partition_index} is refused")
    if refusal is not None:
        return refusal
    aborted = tuple((int(one.producer_id), int(one.first_offset)) for one in each.aborted_transactions or ())
    return RemoteFetched(each.records or b"", int(each.high_watermark), int(each.last_stable_offset), aborted)


def _fetched_offset(name: TopicPartition, each: Any) -> FetchedOffset:
    if each is None:
        return FetchedOffset(name.topic, name.partition)
    error = _refusal(int(each.error_code), f"the offset of {name} is refused")
    return FetchedOffset(
        name.topic, name.partition, int(each.committed_offset), int(each.committed_leader_epoch), "", error
    )


def _refusal(code: int, message: str) -> BarnabasError | None:
    return refusal_of(code, message) if code else None


def _check(code: int, message: str) -> None:
    refusal = _refusal(int(code), message)
    if refusal is not None:
        raise refusal
