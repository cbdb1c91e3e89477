"""CreateTopic, DeleteTopic, ListTopics, DescribeTopic and Watch.

Only the active controller creates and deletes: this node if it is it, else it is asked in Kafka's words, and this node
answers when it has applied the change.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import (
    BarnabasError,
    InvalidRequest,
    PeerError,
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

DEFAULT_TIMEOUT_MS: Final = 30_000
MAX_PAGE: Final = 1_000
_ASKED_AT_ONCE: Final = 16
_DEFAULT: Final = -1  # a count that is left to the broker


class Administration:
    """Serves the calls about topics."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._broker = routes.broker

    async def create(self, call: Call, data: bytes) -> bus_pb2.CreateTopicResponse:
        """See the service."""
        request = await call.parse(bus_pb2.CreateTopicRequest, data)
        if request.partitions < 0 or request.replication_factor < 0:
            raise InvalidRequest("partitions and replication_factor must not be negative")
        access, topics = self._broker.access, self._broker.topics
        if not access.allows(call.session, Operation.CREATE, CLUSTER):
            access.authorize_topic(call.session, Operation.CREATE, request.name)
        new = NewTopic(
            request.name,
            request.partitions or _DEFAULT,
            request.replication_factor or _DEFAULT,
            None,
            dict(request.configs),
        )
        topics.check_new_partitions(topics.partition_count_of(new.partition_count, None))
        if request.validate_only:
            created = topics.decide_new(new).reply
            return _created(request.name, created)
        timeout_ms = call.timeout_ms(request.timeout_ms, default_ms=DEFAULT_TIMEOUT_MS)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if self._decides_here:
                    return _created(request.name, await topics.create(new))
                topics.decide_new(new)  # refused here if it can be
                return await self._create_elsewhere(new, timeout_ms)
        except TimeoutError:
            raise RequestTimedOut(f"topic '{request.name}' was not created in time; it may be later") from None

    @property
    def _decides_here(self) -> bool:
        return self._broker.link is None or self._broker.link.is_here

    async def _create_elsewhere(self, new: NewTopic, timeout_ms: int) -> bus_pb2.CreateTopicResponse:
        topic: dict[str, Any] = {
            "name": new.name,
            "num_partitions": new.partition_count,
            "replication_factor": new.replication_factor,
            "assignments": [],
            "configs": [{"name": name, "value": value} for name, value in new.configs.items()],
        }
        answer = await self._ask(CREATE_TOPICS.key, {"topics": [topic], "validate_only": False}, timeout_ms)
        (created,) = answer.topics
        _check(created.error_code, created.error_message)
        await self._wait(lambda: new.name in self._broker.image.topics)
        return bus_pb2.CreateTopicResponse(
            name=new.name,
            topic_id=self._broker.image.get_topic(new.name).topic_id.bytes,
            partitions=int(created.num_partitions),
            replication_factor=int(created.replication_factor),
        )

    async def delete(self, call: Call, data: bytes) -> bus_pb2.DeleteTopicResponse:
        """See the service."""
        request = await call.parse(bus_pb2.DeleteTopicRequest, data)
        access, topics = self._broker.access, self._broker.topics
        if not access.allows(call.session, Operation.DELETE, CLUSTER):
            access.authorize_topic(call.session, Operation.DELETE, request.name)
        topic_id = self._broker.image.get_topic(request.name).topic_id
        topics.check_deletable()
        timeout_ms = call.timeout_ms(request.timeout_ms, default_ms=DEFAULT_TIMEOUT_MS)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if self._decides_here:
                    await topics.delete_by_id(topic_id)
                else:
                    asked = {"name": None, "topic_id": topic_id}
                    answer = await self._ask(DELETE_TOPICS.key, {"topics": [asked]}, timeout_ms)
                    (deleted,) = answer.responses
                    _check(deleted.error_code, deleted.error_message)
                    await self._wait(lambda: topic_id not in self._broker.image.topics_by_id)
        except TimeoutError:
            raise RequestTimedOut(f"topic '{request.name}' was not deleted in time; it may be later") from None
        return bus_pb2.DeleteTopicResponse(topic_id=topic_id.bytes)

    async def _ask(self, api_key: int, values: dict[str, Any], timeout_ms: int) -> Any:
        assert self._broker.link is not None
        try:
            return await self._broker.link.ask(api_key, {**values, "timeout": timeout_ms}, timeout_s=timeout_ms / 1000)
        except PeerError as error:
            if error.may_be_done:
                raise RequestTimedOut(f"the controller did not answer, and may have done it: {error}") from None
            raise

    async def _wait(self, is_so: Any) -> None:
        """Return when this node has applied a change."""
        metadata = self._broker.metadata
        while not is_so():
            await metadata.wait_applied(metadata.applied_offset + 1)

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
            if topic is None or not self._broker.access.allows_topic(call.session, Operation.DESCRIBE, name):
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
