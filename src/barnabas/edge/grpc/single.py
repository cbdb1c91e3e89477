"""Get and Commit: one record by its id, and offsets of a group from outside of it."""

import asyncio
from typing import Final

from barnabas.core.access.resources import Operation, group
from barnabas.core.errors import (
    BarnabasError,
    InvalidGroupId,
    InvalidRequest,
    LeaderNotAvailable,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from barnabas.core.groups.offsets import CommitRequest, NewOffset
from barnabas.core.model import TopicPartition
from barnabas.edge.grpc.calls import Call, pause
from barnabas.edge.grpc.decoding import decode_one, takes_long
from barnabas.edge.grpc.options import MAX_PARTITIONS, read_consistency, read_isolation
from barnabas.edge.grpc.routing import PASSING, PASSING_OF_GROUPS, RETRY_S, Fetched, Reading, Routes
from barnabas.edge.grpc.statuses import error_of
from barnabas.services.offsets import LATEST
from barnabas.services.session import Session
from barnabas.v1 import bus_pb2

PATIENCE_S: Final = 10.0
"""How long a call that names no deadline is tried again while nobody leads: an election takes less."""


class Single:
    """Serves both calls."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._broker = routes.broker

    async def get(self, call: Call, data: bytes) -> bus_pb2.GetResponse:
        """See the service."""
        request = await call.parse(bus_pb2.GetRequest, data)
        if request.offset < 0:
            raise InvalidRequest(f"offset {request.offset}; the first offset is 0")
        at_any, is_sure = read_consistency(request.consistency)
        reading = Reading(is_committed=read_isolation(request.isolation), at_any=at_any)
        name, offset = TopicPartition(request.topic, request.partition), request.offset
        deadline = asyncio.get_running_loop().time() + min(PATIENCE_S, call.time_left_s or PATIENCE_S)
        while True:
            try:
                found = await self._find(call.session, name, offset, reading, is_sure=is_sure)
                break
            except PASSING as error:
                if asyncio.get_running_loop().time() + RETRY_S >= deadline:
                    raise error.with_traceback(None) from None
            await pause(RETRY_S)

        def decode() -> bus_pb2.Record:
            return decode_one(found.records, offset=offset, aborted=found.aborted, is_committed=reading.is_committed)

        is_long = takes_long(found.records)
        return bus_pb2.GetResponse(record=await self._broker.threads.compute.run(decode) if is_long else decode())

    async def _find(
        self, session: Session, name: TopicPartition, offset: int, reading: Reading, *, is_sure: bool
    ) -> Fetched:
        self._broker.access.authorize_topic(session, Operation.READ, name.topic)
        if is_sure:
            await self._routes.find_offset(session, name, LATEST, is_committed=reading.is_committed, is_sure=True)
        found = await self._routes.fetch_once(session, name, offset, reading)
        end = found.last_stable_offset if reading.is_committed else found.high_watermark
        if offset >= end:
            raise OffsetOutOfRange(f"{name} ends at offset {end}: there is no record at {offset} yet")
        if not found.records:  # it was there a moment ago
            raise LeaderNotAvailable(f"{name} cannot be read at offset {offset} now")
        return found

    async def commit(self, call: Call, data: bytes) -> bus_pb2.CommitResponse:
        """See the service."""
        request = await call.parse(bus_pb2.CommitRequest, data)
        if not request.group:
            raise InvalidGroupId("name a group")
        if len(request.positions) > MAX_PARTITIONS:
            raise InvalidRequest(f"a request has {len(request.positions)} positions; the maximum is {MAX_PARTITIONS}")
        self._broker.access.authorize(call.session, Operation.READ, group(request.group))
        errors: list[BarnabasError | None] = []
        offsets: list[NewOffset] = []
        for each in request.positions:
            try:
                offsets.append(self._offset(call.session, each))
                errors.append(None)
            except BarnabasError as error:
                errors.append(error.with_traceback(None))
        if offsets:
            rest = iter(await self._commit(call, CommitRequest(group=request.group, offsets=offsets)))
            errors = [next(rest) if error is None else error for error in errors]
        outcomes = [
            bus_pb2.CommitOutcome(
                topic=each.topic, partition=each.partition, error=None if error is None else error_of(error)
            )
            for each, error in zip(request.positions, errors, strict=True)
        ]
        return bus_pb2.CommitResponse(outcomes=outcomes)

    def _offset(self, session: Session, each: bus_pb2.Position) -> NewOffset:
        self._broker.access.authorize_topic(session, Operation.READ, each.topic)
        topic = self._broker.image.get_topic(each.topic)
        if each.partition not in topic.partitions:
            raise UnknownTopicOrPartition(f"topic '{each.topic}' has no partition {each.partition}")
        if each.offset < 0:
            raise InvalidRequest(f"offset {each.offset} of {each.topic}-{each.partition}; the first offset is 0")
        return NewOffset(each.topic, each.partition, each.offset, -1, each.metadata, topic.topic_id)

    async def _commit(self, call: Call, request: CommitRequest) -> list[BarnabasError | None]:
        deadline = asyncio.get_running_loop().time() + min(PATIENCE_S, call.time_left_s or PATIENCE_S)
        while True:
            try:
                return await self._routes.commit(request)
            except PASSING_OF_GROUPS as error:  # a commit may be repeated
                if asyncio.get_running_loop().time() + RETRY_S >= deadline:
                    raise error.with_traceback(None) from None
            await pause(RETRY_S)
