"""Watch: the topics, and what changes about them.

The node tells all streams which topics have changed, and each looks at them when its client reads: what changes twice
meanwhile is told once, so a slow reader holds one set of names.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from barnabas.core.access.resources import Operation
from barnabas.core.errors import InvalidRequest
from barnabas.core.metadata.names import is_internal
from barnabas.core.metadata.records import MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from barnabas.edge.grpc.calls import Call
from barnabas.edge.grpc.options import MAX_TOPICS
from barnabas.edge.grpc.routing import Routes
from barnabas.edge.grpc.topics import check_seen, describe_partitions
from barnabas.runtime.turns import pieces
from barnabas.services.call_quotas import Use
from barnabas.v1 import bus_pb2

PARTITIONS_AT_ONCE: Final = 1_000
"""About how many partitions are in one response."""


class Watching:
    """Serves Watch, and tells its streams."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._broker = routes.broker
        self._streams: set[_Watcher] = set()
        self._broker.metadata.subscribe(self._apply)

    @property
    def count(self) -> int:
        """How many watch."""
        return len(self._streams)

    def _apply(self, records: Sequence[MetadataRecord]) -> None:
        if not self._streams:
            return
        changed = {
            each.topic_id for each in records if isinstance(each, (PartitionRecord, RemoveTopicRecord, TopicRecord))
        }
        if changed:
            for stream in self._streams:
                stream.note(changed)

    async def watch(self, call: Call, data: bytes) -> None:
        """See the service."""
        request = await call.parse(bus_pb2.WatchRequest, data)
        if len(request.topics) > MAX_TOPICS:
            raise InvalidRequest(
                f"{len(request.topics)} topics are named; the maximum is {MAX_TOPICS}: name none for all"
            )
        check_seen(call, self._routes, request.topics)
        watcher = _Watcher(self._routes, call, frozenset(request.topics))
        self._streams.add(watcher)
        try:
            await watcher.run()
        finally:
            self._streams.discard(watcher)


class _Watcher:
    """One stream."""

    def __init__(self, routes: Routes, call: Call, names: frozenset[str]) -> None:
        self._broker = routes.broker
        self._call = call
        self._names = names
        self._changed: set[UUID] = set()
        self._told: dict[UUID, str] = {}
        self._is_changed = asyncio.Event()

    def note(self, changed: Iterable[UUID]) -> None:
        self._changed.update(changed)
        self._is_changed.set()

    async def run(self) -> None:
        await self._tell(list(self._broker.image.topics_by_id))
        await self._call.write(bus_pb2.WatchResponse(is_complete=True))
        while True:
            await self._is_changed.wait()
            await self._call.pace(Use.TIME)
            self._is_changed.clear()
            changed, self._changed = list(self._changed), set()
            await self._tell(changed)

    async def _tell(self, topic_ids: list[UUID]) -> None:
        response, size = bus_pb2.WatchResponse(), 0
        async for some in pieces(topic_ids, per_turn=20):
            for topic_id in some:
                size += self._add(response, topic_id)
            if size >= PARTITIONS_AT_ONCE:
                await self._call.write(response)
                response, size = bus_pb2.WatchResponse(), 0
        if size:
            await self._call.write(response)

    def _add(self, response: bus_pb2.WatchResponse, topic_id: UUID) -> int:
        topic = self._broker.image.topics_by_id.get(topic_id)
        if topic is None:
            name = self._told.pop(topic_id, None)
            if name is None:
                return 0
            response.deleted.append(name)
            return 1
        if not self._is_seen(topic.name):
            return 0
        self._told[topic_id] = topic.name
        partitions = describe_partitions(topic)
        response.changed.append(bus_pb2.TopicState(name=topic.name, topic_id=topic_id.bytes, partitions=partitions))
        return max(len(partitions), 1)

    def _is_seen(self, name: str) -> bool:
        if name not in self._names if self._names else is_internal(name):
            return False
        return self._broker.access.sees_topic(self._call.session, Operation.DESCRIBE, name)
