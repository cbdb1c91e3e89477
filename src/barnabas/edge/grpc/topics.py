"""CreateTopic, DeleteTopic, ListTopics, DescribeTopic and Watch.

Only the active controller creates and deletes: it is asked in Kafka's words and in the caller's name, even if it is
this node, which answers when it has applied the change.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Protocol

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import (
    BarnabasError,
    InvalidRequest,
    RequestTimedOut,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from barnabas.core.errors.codes import refusal_of
from barnabas.core.metadata.image import PartitionState, Topic
from barnabas.core.metadata.names import is_internal
from barnabas.core.metadata.records import TOPIC_RESOURCE
from barnabas.core.metadata.topics import NewTopic
from barnabas.core.model import TopicPartition
from barnabas.edge.grpc.calls import Call
from barnabas.edge.grpc.routing import Routes
from barnabas.runtime.turns import in_turns
from barnabas.services.offsets import EARLIEST, LATEST
from barnabas.services.session import Session
from barnabas.v1 import bus_pb2
from barnabas.wire.apis import CREATE_TOPICS, DELETE_TOPICS
from barnabas.wire.writing import Values

DEFAULT_TIMEOUT_MS: Final = 30_000
MAX_PAGE: Final = 1_000
_ASKED_AT_ONCE: Final = 16
_DEFAULT: Final = -1  # a count that is left to the broker


class Requests(Protocol):
    """Has requests in Kafka's words carried out as if the client had sent them to the Kafka port."""

    async def call(self, session: Session, api_key: int, values: Values) -> Any:
        """The answer."""
        ...


class Administration:
    """Serves the calls about topics."""

    def __init__(self, routes: Routes, requests: Requests) -> None:
        self._routes = routes
        self._broker = routes.broker
        self._requests = requests

    async def create(self, call: Call, data: bytes) -> bus_pb2.CreateTopicResponse:
        """See the service."""
        request = await call.parse(bus_pb2.CreateTopicRequest, data)
        if request.partitions < 0 or request.replication_factor < 0:
            raise InvalidRequest("partitions and replication_factor must not be negative")
        new = NewTopic(
            request.name,
            request.partitions or _DEFAULT,
            request.replication_factor or _DEFAULT,
            None,
            dict(request.configs),
        )
        if request.validate_only:
            return self._validate(call.session, new)
        topic: dict[str, Any] = {
            "name": new.name,
            "num_partitions": new.partition_count,
            "replication_factor": new.replication_factor,
            "assignments": [],
            "configs": [{"name": name, "value": value} for name, value in new.configs.items()],
        }
        timeout_ms = call.timeout_ms(request.timeout_ms, default_ms=DEFAULT_TIMEOUT_MS)
        answer = await self._ask(
            call, CREATE_TOPICS.key, {"topics": [topic], "validate_only": False}, timeout_ms, "created"
        )
        (created,) = answer.topics
        _check(created.error_code, created.error_message)
        made = self._broker.image.get_topic(new.name)  # who may not see its settings is not told how large it is
        return bus_pb2.CreateTopicResponse(
            name=new.name,
            topic_id=made.topic_id.bytes,
            partitions=len(made.partitions),
            replication_factor=made.replication_factor,
        )

    def _validate(self, session: Session, new: NewTopic) -> bus_pb2.CreateTopicResponse:
        access, topics = self._broker.access, self._broker.topics
        if not access.allows_unnamed(session, Operation.CREATE, CLUSTER):
            access.authorize_topic(session, Operation.CREATE, new.name)
        topics.check_new_partitions(topics.partition_count_of(new.partition_count, None))
        return _created(new.name, topics.decide_new(new).reply)

    async def delete(self, call: Call, data: bytes) -> bus_pb2.DeleteTopicResponse:
        """See the service."""
        request = await call.parse(bus_pb2.DeleteTopicRequest, data)
        access = self._broker.access
        if not access.allows_unnamed(call.session, Operation.DELETE, CLUSTER):
            access.authorize_topic(call.session, Operation.DELETE, request.name)
        topic_id = self._broker.image.get_topic(request.name).topic_id
        timeout_ms = call.timeout_ms(request.timeout_ms, default_ms=DEFAULT_TIMEOUT_MS)
        asked = {"name": None, "topic_id": topic_id}  # not another one that has its name by then
        answer = await self._ask(call, DELETE_TOPICS.key, {"topics": [asked]}, timeout_ms, "deleted")
        (deleted,) = answer.responses
        _check(deleted.error_code, deleted.error_message)
        return bus_pb2.DeleteTopicResponse(topic_id=topic_id.bytes)

    async def _ask(self, call: Call, api_key: int, values: Values, timeout_ms: int, done: str) -> Any:
        """What the controller answers to the caller, which it authorizes, and whose changes it counts."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._requests.call(call.session, api_key, {**values, "timeout": timeout_ms})
        except TimeoutError:
            raise RequestTimedOut(f"the topic was not {done} in time; it may be later") from None

    async def list_topics(self, call: Call, data: bytes) -> bus_pb2.ListTopicsResponse:
        """See the service."""
        request = await call.parse(bus_pb2.ListTopicsRequest, data)
        if not 0 <= request.page_size <= MAX_PAGE:
            raise InvalidRequest(f"page_size is {request.page_size}; allowed: 1 to {MAX_PAGE}, or 0")
        size = request.page_size or MAX_PAGE
        page: list[bus_pb2.TopicSummary] = []
        last = ""
        async for name in in_turns(sorted(self._broker.image.topics)):
            if name <= request.page_token or (is_internal(name) and not request.include_internal):
                continue
            topic = self._broker.image.topics.get(name)
            if topic is None or not self._broker.access.sees_topic(call.session, Operation.DESCRIBE, name):
                continue
            if len(page) == size:
                return bus_pb2.ListTopicsResponse(topics=page, next_page_token=last)
            page.append(_summary(topic))
            last = name
        return bus_pb2.ListTopicsResponse(topics=page)

    async def describe(self, call: Call, data: bytes) -> bus_pb2.DescribeTopicResponse:
        """See the service."""
        request = await call.parse(bus_pb2.DescribeTopicRequest, data)
        access = self._broker.access
        access.authorize_topic(call.session, Operation.DESCRIBE, request.name)
        topic = self._broker.image.get_topic(request.name)
        summary, partitions = _summary(topic), describe_partitions(topic)
        configs: dict[str, str] = {}
        if access.allows_topic(call.session, Operation.DESCRIBE_CONFIGS, request.name):
            configs = dict(self._broker.image.config_of(TOPIC_RESOURCE, request.name))
        if not request.without_offsets:
            await self._find_offsets(call.session, request.name, partitions)
        return bus_pb2.DescribeTopicResponse(topic=summary, partitions=partitions, configs=configs)

    async def _find_offsets(
        self, session: Session, topic: str, partitions: Sequence[bus_pb2.PartitionDescription]
    ) -> None:
        gate = asyncio.Semaphore(_ASKED_AT_ONCE)

        async def find(each: bus_pb2.PartitionDescription) -> None:
            name = TopicPartition(topic, each.partition)
            async with gate:
                try:
                    start = await self._routes.find_offset(session, name, EARLIEST, is_committed=False)
                    end = await self._routes.find_offset(session, name, LATEST, is_committed=False)
                except BarnabasError:
                    return  # not known now
            each.start_offset, each.end_offset = start, end

        async with asyncio.TaskGroup() as tasks:
            async for each in in_turns(partitions):
                tasks.create_task(find(each))


def _check(code: int, message: str | None) -> None:
    if code:
        raise refusal_of(int(code), message or f"error {code}")


def _created(name: str, created: Any) -> bus_pb2.CreateTopicResponse:
    return bus_pb2.CreateTopicResponse(
        name=name,
        topic_id=created.topic_id.bytes,
        partitions=created.partition_count,
        replication_factor=created.replication_factor,
    )


def _summary(topic: Topic) -> bus_pb2.TopicSummary:
    return bus_pb2.TopicSummary(
        name=topic.name,
        topic_id=topic.topic_id.bytes,
        partitions=len(topic.partitions),
        replication_factor=topic.replication_factor,
        is_internal=is_internal(topic.name),
    )


def describe_partitions(topic: Topic) -> list[bus_pb2.PartitionDescription]:
    """The partitions of a topic, without offsets."""
    return [_partition(index, state) for index, state in sorted(topic.partitions.items())]


def _partition(index: int, state: PartitionState) -> bus_pb2.PartitionDescription:
    return bus_pb2.PartitionDescription(
        partition=index,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        replicas=state.replicas,
        in_sync=state.isr,
    )


def check_seen(call: Call, routes: Routes, names: Sequence[str]) -> None:
    """Refuse topics that a caller may not see; those that do not exist may come."""
    for name in names:
        if not routes.broker.access.allows_topic(call.session, Operation.DESCRIBE, name):
            raise TopicAuthorizationFailed(f"not allowed: describe on topic '{name}'")
        if not name:
            raise UnknownTopicOrPartition("a topic needs a name")
