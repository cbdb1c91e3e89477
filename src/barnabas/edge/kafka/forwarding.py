"""Requests that only the active controller carries out: here if this node is it, else there, in an `Envelope`.

The client does not notice where: the answer is in the version of its request, with its correlation id, and what was
changed is applied on this node by then. The leadership may move at any time; a request that nobody has begun to carry
out follows it until its time is over, and is then refused with NOT_CONTROLLER, before the client gives up by itself. If
an answer is lost, nobody knows whether the request was carried out: REQUEST_TIMED_OUT.
"""

import asyncio
from datetime import timedelta
from typing import Any, Final, NamedTuple

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, NotController
from barnabas.core.metadata.image import Image
from barnabas.core.records.batch import Buffer
from barnabas.edge.kafka.answering import LONG_REQUEST_BYTES, carry_out, read, write
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.envelopes import Caller, Envelopes, codes_in, is_not_taken
from barnabas.edge.kafka.handlers.outcome import deadline_of
from barnabas.edge.kafka.own_settings import answers_of, take_own_part, values_of
from barnabas.edge.kafka.refusing import refusal_of
from barnabas.edge.kafka.registry import FORWARDED
from barnabas.edge.kafka.topic_forwarding import ForwardedTopics
from barnabas.runtime.connections import Answer
from barnabas.runtime.controller_link import RETRY_S
from barnabas.runtime.letting_go import let_go
from barnabas.services.broker import Broker
from barnabas.wire.apis import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_QUORUM,
    LIST_PARTITION_REASSIGNMENTS,
)
from barnabas.wire.errors import MalformedAnswer
from barnabas.wire.frame import LENGTH_SIZE, RequestHeader
from barnabas.wire.requests import frame_request
from barnabas.wire.responses import Values, read_response

SEARCH_S: Final = 10.0
"""How long a request without a timeout of its own looks for a controller: an election takes up to half of that."""
SEARCH_PART: Final = 0.9
"""The part of its own timeout that a request looks for a controller. The rest is for the answer that there is none:
many clients give up by themselves when the timeout is over, and say only that."""

READS: Final = frozenset({DESCRIBE_QUORUM.key, LIST_PARTITION_REASSIGNMENTS.key})
"""These change nothing: they may be sent again if an answer is lost, and there is nothing to wait for. So may a request
that is only to be validated. No other: a topic would be created or deleted twice, and a setting that was altered again
meanwhile would be undone."""

MUTATIONS: Final = frozenset({CREATE_TOPICS.key, DELETE_TOPICS.key, CREATE_PARTITIONS.key})
"""These count for controller_mutation_rate. The answer to each begins with the throttle time."""

_ID_SIZE: Final = 4


class Times(NamedTuple):
    """When a request must be answered, and until when a controller is looked for, in the loop's time."""

    deadline: float
    search_until: float


class Forwarding:
    """Has the controller's requests carried out, for all connections of a node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._envelopes = Envelopes(broker)
        broker.topics.forwarding = ForwardedTopics(broker, self._envelopes)

    def takes(self, api_key: int) -> bool:
        """Whether requests of an API go through here: those for the controller, unless there is but this node."""
        return self._broker.link is not None and api_key in FORWARDED

    async def answer(self, header: RequestHeader, frame: bytes, asked: Asked) -> Answer:
        """The answer to a request, a frame without its length that is the caller's to keep."""
        request = await read(header, frame)
        try:
            return await self._answer(header, frame, request, asked)
        finally:
            if len(frame) > LONG_REQUEST_BYTES:
                let_go(request)

    async def _answer(self, header: RequestHeader, frame: bytes, request: Any, asked: Asked) -> Answer:
        loop = asyncio.get_running_loop()
        times = self._times_of(request)
        while True:
            if not self._is_here():
                try:
                    return await self._forward(header, frame, request, asked, times)
                except NotController as error:
                    # Nothing was done. If this node has become the controller meanwhile, it is its turn.
                    if not self._is_here():
                        return [*await write(header, request, self._refusal(header, request, asked, error))]
            values = await carry_out(self._broker, header, request, asked)
            if self._is_here() or loop.time() >= times.search_until or not is_not_taken(codes_in(values)):
                return [*await write(header, request, values)]
            await asyncio.sleep(RETRY_S)

    def _times_of(self, request: Any) -> Times:
        timeout = getattr(request, "timeout", timedelta())
        now = asyncio.get_running_loop().time()
        search_s = timeout.total_seconds() * SEARCH_PART if timeout > timedelta() else SEARCH_S
        return Times(deadline_of(self._broker, timeout), now + search_s)

    def _refusal(self, header: RequestHeader, request: Any, asked: Asked, error: BarnabasError) -> Values:
        # Who may do what is for the controller to say: without it, nothing is named that the client did not name,
        # unless it may do with the cluster as it likes.
        sees_all = self._broker.access.permits(asked.session, Operation.ALTER, CLUSTER)
        return refusal_of(header.api.key, request, error, self._broker.image if sees_all else Image())

    def _is_here(self) -> bool:
        """Whether this node is the active controller now: it may be another after any wait."""
        return self._broker.link is None or self._broker.link.is_here

    async def _forward(self, header: RequestHeader, frame: bytes, request: Any, asked: Asked, times: Times) -> Answer:
        """`NotController` if none took it, and nothing was done here."""
        own = await take_own_part(self._broker, header, request, asked)
        if own is None:
            try:
                data = await self._send(header, frame, request, asked, times)
            except NotController:
                raise
            except BarnabasError as error:
                return [*await write(header, request, self._refusal(header, request, asked, error))]
            self._hold(header, data, asked)
            return [_length_of(data), header.correlation_id.to_bytes(_ID_SIZE, "big", signed=True), data[_ID_SIZE:]]
        answers: list[Values] = []
        if own.rest.resources:
            try:
                answers = await self._send_rest(header, own.rest, asked, times)
            except BarnabasError as error:
                answers = self._refusal(header, own.rest, asked, error)["responses"]
        values = {**own.merged(answers), "throttle_time": asked.session.throttle_ms}
        return [*await write(header, request, values)]

    def _hold(self, header: RequestHeader, data: bytes, asked: Asked) -> None:
        """Hold a client that the controller has told to wait: its quota of changes is counted there."""
        if header.api.key in MUTATIONS and self._broker.quotas.is_on:
            throttle_ms = throttle_ms_in(header, data)
            if throttle_ms > 0:
                self._broker.quotas.hold(asked.session, throttle_ms)

    async def _send_rest(self, header: RequestHeader, rest: Any, asked: Asked, times: Times) -> list[Values]:
        """What is left of a request for settings, when this node has taken its own part."""
        key, version = header.api.key, header.version
        frame = frame_request(key, version, values_of(rest), correlation_id=0, client_id=header.client_id)
        data = await self._send(header, frame[LENGTH_SIZE:], rest, asked, times)
        return answers_of(read_response(key, version, data))

    async def _send(self, header: RequestHeader, frame: bytes, request: Any, asked: Asked, times: Times) -> bytes:
        is_read = header.api.key in READS
        data = await self._envelopes.send(
            frame,
            Caller.of(asked.session),
            deadline=times.deadline,
            search_until=times.search_until,
            may_repeat=is_read or getattr(request, "validate_only", False),
            is_read=is_read,
        )
        if len(data) < _ID_SIZE:
            raise MalformedAnswer("the controller's answer is empty")
        return data


def _length_of(data: Buffer) -> bytes:
    return len(data).to_bytes(LENGTH_SIZE, "big")


def throttle_ms_in(header: RequestHeader, data: Buffer) -> int:
    """The throttle time in the answer to one of `MUTATIONS`, a frame without its length."""
    is_flexible = header.version >= header.api.flexible_from
    at = _ID_SIZE + is_flexible  # behind the header, which then ends with its tagged fields: none
    return int.from_bytes(data[at : at + _ID_SIZE], "big", signed=True)
