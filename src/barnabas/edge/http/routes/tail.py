"""The tail of a topic as server-sent events: each record as it comes, and from where it was left off.

The id of an event says where each partition is, so that a client which lost the connection goes on from there
(`Last-Event-ID`). A client that cannot keep up misses records, and is told how many. Nothing is kept for anybody: the
loop below looks where the logs end twice a second, and reads what is new.

The last event is `end`, with the reason, whenever it is this side that ends the stream; so a stream without it was cut
off on its way, and goes on if the client comes again.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Final

import msgspec
from starlette.responses import Response, StreamingResponse

from barnabas.core.access.resources import Operation
from barnabas.core.access.resources import topic as topic_resource
from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.edge.http.calling import Call, Param, Route, whole
from barnabas.edge.http.contents import Form, record_of
from barnabas.edge.http.context import Context
from barnabas.edge.http.problems import HttpRefusal, Problem, bad, problem_of
from barnabas.edge.http.routes.records import FILTERS, chosen_partitions, filter_texts, form_of, within_quota
from barnabas.services.browsing import Browser, Span, Wanted
from barnabas.services.call_quotas import Use
from barnabas.services.offsets import LATEST
from barnabas.services.record_filter import Test, parse_filters, passing
from barnabas.services.session import Session

LOOK_S: Final = 0.5
ALIVE_S: Final = 15.0
MAX_BEHIND: Final = 10_000
"""Offsets of a partition that a client may be behind; what is further back is skipped, and said."""
PER_LOOK: Final = 500
MAX_TAILS: Final = 100
MAX_PARTITIONS: Final = 200


async def tail(context: Context, call: Call) -> Response:
    """Stream what is written from now on, or from where the client was."""
    name = call.path["topic"]
    context.authorize(call.session, Operation.READ, topic_resource(name))
    topic = context.broker.image.get_topic(name)
    numbers = chosen_partitions(call, topic)
    if len(numbers) > MAX_PARTITIONS:
        raise bad(f"a stream has at most {MAX_PARTITIONS} partitions: name some of them")
    if context.tails >= MAX_TAILS:
        raise HttpRefusal(503, f"{MAX_TAILS} streams are open on this node: close one", code=89)
    filters = parse_filters(filter_texts(call))
    resumed = read_id(call.headers.get("last-event-id") or call.text("last_event_id"))
    stream = Tail(
        context,
        call.session,
        name,
        numbers,
        is_committed=call.one_of("isolation", "read_committed", "read_uncommitted") == "read_committed",
        passes=passing(filters) if filters else None,
        form=form_of(call),
    )
    await stream.begin(resumed)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream.events(), media_type="text/event-stream", headers=headers)


def read_id(text: str) -> dict[int, int]:
    """The position in the id of an event: `0:12,1:5`."""
    found: dict[int, int] = {}
    for part in filter(None, text.split(",")):
        index, colon, offset = part.partition(":")
        if not colon or len(found) >= MAX_PARTITIONS:
            raise bad("Last-Event-ID is none of this stream")
        found[whole("Last-Event-ID", index, at_most=2**31 - 1)] = whole("Last-Event-ID", offset)
    return found


def write_id(position: Mapping[int, int]) -> str:
    """The id of an event at this position."""
    return ",".join(f"{index}:{offset}" for index, offset in sorted(position.items()))


class Reason(StrEnum):
    """Why a stream ends."""

    TOPIC_DELETED = "topic_deleted"
    NODE_STOPPING = "node_stopping"
    """Come again, to this node or another."""
    REFUSED = "refused"
    """Who reads may not any more: a log-in has ended, an ACL was taken away."""
    FAILED = "failed"


def end_event(reason: Reason, message: str, problem: Problem | None = None) -> bytes:
    """The last event of a stream."""
    told = {"reason": reason, "message": message, **({} if problem is None else msgspec.structs.asdict(problem))}
    return b"event: end\ndata: " + msgspec.json.encode(told) + b"\n\n"


class Tail:
    """One stream."""

    def __init__(
        self,
        context: Context,
        session: Session,
        topic: str,
        numbers: list[int],
        *,
        is_committed: bool,
        passes: Test | None,
        form: Form,
    ) -> None:
        self._context = context
        self._session = session
        self._topic = topic
        self._topic_id = context.broker.image.get_topic(topic).topic_id
        self._names = [TopicPartition(topic, number) for number in numbers]
        self._wanted = Wanted(limit=PER_LOOK, is_committed=is_committed, passes=passes, max_s=LOOK_S)
        self._form: Form = form
        self._browser = Browser(context.reader, context.broker.threads.compute)
        self._quotas = context.quotas
        self.position: dict[int, int] = {}

    async def begin(self, resumed: Mapping[int, int]) -> None:
        """Begin where the client was, or at the end."""
        ends = await self._ends()
        self.position = {
            name.partition: resumed.get(name.partition, ends.get(name.partition, 0)) for name in self._names
        }

    async def _ends(self) -> dict[int, int]:
        found = await self._context.reader.find(self._names, LATEST, is_committed=self._wanted.is_committed)
        return {
            name.partition: listed.offset for name, listed in found.items() if not isinstance(listed, BarnabasError)
        }

    async def events(self) -> AsyncIterator[bytes]:
        """The events, until the client is gone, or there is a reason to end."""
        self._context.tails += 1
        try:
            async for event in self._events_until_end():
                yield event
        except BarnabasError as error:
            problem = problem_of(error)
            reason = Reason.FAILED if problem.retriable else Reason.REFUSED
            yield end_event(reason, str(error), problem)
        except OSError as error:
            yield end_event(Reason.FAILED, f"the records cannot be read: {error.strerror or error}")
        finally:
            self._context.tails -= 1

    async def _events_until_end(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        yield f"retry: 2000\nid: {write_id(self.position)}\nevent: begin\ndata: {{}}\n\n".encode()
        said_at = loop.time()
        while self._is_there():
            self._check_session()
            events = await self._quotas.measure(self._session, self._look_all)
            for event in events:
                yield event
                self._quotas.count(self._session, Use.CONSUMING, len(event))
            await self._wait_admitted()
            if events:
                said_at = loop.time()
            elif loop.time() - said_at >= ALIVE_S:
                yield b": alive\n\n"
                said_at = loop.time()
            if self._context.is_stopping.is_set():
                yield end_event(Reason.NODE_STOPPING, "the node stops; ask again, here or at another node")
                return
            if len(events) < PER_LOOK:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._context.is_stopping.wait()
        yield end_event(Reason.TOPIC_DELETED, "the topic was deleted")

    def _is_there(self) -> bool:
        """Whether the topic is, and is the one that it was: not another of the same name."""
        topic = self._context.broker.image.topics.get(self._topic)
        return topic is not None and topic.topic_id == self._topic_id

    async def _look_all(self) -> list[bytes]:
        return [event async for event in self.look()]

    async def _wait_admitted(self) -> None:
        """Be held while the client is over a quota, unless the node stops."""
        if not self._context.broker.quotas.is_on:
            return
        waits: list[asyncio.Future[object]] = [
            asyncio.ensure_future(self._quotas.wait_admitted(self._session, Use.CONSUMING)),
            asyncio.ensure_future(self._context.is_stopping.wait()),
        ]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                await each  # raises if the login has ended meanwhile
        finally:
            for each in waits:
                each.cancel()

    def _check_session(self) -> None:
        """Refuse a client whose log-in has ended, or who may read no more, since the stream began."""
        self._session.check_login()
        self._context.authorize(self._session, Operation.READ, topic_resource(self._topic))

    async def look(self) -> AsyncIterator[bytes]:
        """The events of what is new now."""
        ends = await self._ends()
        spans: dict[int, Span] = {}
        skipped = 0
        for index, end in ends.items():
            at = self.position.get(index, end)
            if end - at > MAX_BEHIND:
                skipped += end - MAX_BEHIND - at
                at = self.position[index] = end - MAX_BEHIND
            if at < end:
                spans[index] = Span(at, end)
        if skipped:
            yield self._event("dropped", msgspec.json.encode({"offsets": skipped}))
        if not spans:
            return
        page = await self._browser.read(self._topic, spans, within_quota(self._context, self._session, self._wanted))
        if self._wanted.passes is not None:
            self._quotas.count(self._session, Use.CONSUMING, page.scanned_bytes)
        for found in page.records:
            self.position[found.partition] = found.record.offset + 1
            yield self._event("record", msgspec.json.encode(record_of(self._topic, found, form=self._form)))
        for index, error in page.refusals.items():
            yield self._event("error", msgspec.json.encode({"partition": index, "problem": problem_of(error)}))
        for index, span in page.position.items():
            self.position[index] = max(self.position.get(index, 0), span.first)

    def _event(self, kind: str, data: bytes) -> bytes:
        # JSON has no line ends of its own: what is in a record cannot begin an event.
        return f"id: {write_id(self.position)}\nevent: {kind}\ndata: ".encode() + data + b"\n\n"


ROUTES = (
    Route(
        "GET",
        "/topics/{topic}/tail",
        tail,
        "New records as server-sent events (record, dropped, error, end), which resume by Last-Event-ID.",
        None,
        params=(*FILTERS, Param("last_event_id", "string", "Where to go on, for who cannot send the header.")),
        use=Use.CONSUMING,
    ),
)
