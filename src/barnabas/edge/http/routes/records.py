"""Reading records: one by its id, pages of a topic with filters, and a topic as a file."""

import csv
import io
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec
from starlette.responses import Response, StreamingResponse

from barnabas.core.access.resources import Operation
from barnabas.core.access.resources import topic as topic_resource
from barnabas.core.errors import BarnabasError, OffsetOutOfRange, UnknownTopicOrPartition
from barnabas.core.metadata.image import Topic
from barnabas.core.model import TopicPartition
from barnabas.core.records.murmur2 import partition_for_key
from barnabas.edge.http import models
from barnabas.edge.http.calling import Call, Param, Route, whole
from barnabas.edge.http.contents import Form, record_of
from barnabas.edge.http.context import Context
from barnabas.edge.http.cursors import cursor_text, read_cursor
from barnabas.edge.http.problems import HttpRefusal, bad, problem_of
from barnabas.services.browsing import Browser, Position, Span, Wanted
from barnabas.services.call_quotas import Use
from barnabas.services.reading import Ends
from barnabas.services.record_filter import parse_filters, passing
from barnabas.services.session import Session

LIMIT: Final = 50
MAX_LIMIT: Final = 1000
MAX_PARTITIONS: Final = 1000
MAX_SECONDS: Final = 10
MAX_MB: Final = 64
EXPORTED: Final = 100_000
FILTERS: Final = (
    Param("partition", "array", "Only these partitions."),
    Param("key", "string", "Only the partition where Kafka's clients put this key, and only records of it."),
    Param("filter", "array", "field:operator:literal, as in value.status:eq:paid; all must hold."),
    Param("isolation", "string", "read_committed (default) or read_uncommitted."),
    Param("format", "string", "auto (default), base64 or hex."),
)


async def get_record(context: Context, call: Call) -> models.Record:
    """One record by its id: topic, partition, offset."""
    name = call.path["topic"]
    context.authorize(call.session, Operation.READ, topic_resource(name))
    partition = whole("partition", call.path["partition"], at_most=2**31 - 1)
    offset = whole("offset", call.path["offset"])
    is_committed = _is_committed(call)
    context.broker.image.get_topic(name).get_partition(partition)
    wanted = Wanted(limit=1, is_committed=is_committed)
    page = await _browser(context).read(name, {partition: Span(offset, offset + 1)}, wanted)
    for error in page.refusals.values():
        raise error
    if not page.records:
        raise OffsetOutOfRange(
            f"offset {offset} of {name}-{partition} has no record: it is not written yet, was deleted or compacted, is "
            "the marker of a transaction, or belongs to one that was aborted"
        )
    return record_of(name, page.records[0], form=form_of(call), is_full=True)


async def browse(context: Context, call: Call) -> models.Records:
    """A page of records, from a position or from a cursor on."""
    name = call.path["topic"]
    context.authorize(call.session, Operation.READ, topic_resource(name))
    topic = context.broker.image.get_topic(name)
    position, is_newest_first = await begin(context, call, topic)
    wanted = within_quota(context, call.session, _wanted(call, is_newest_first=is_newest_first))
    page = await _browser(context).read(name, position, wanted)
    if wanted.passes is not None:  # what was looked at for the caller counts as if it had been sent
        context.quotas.count(call.session, Use.CONSUMING, page.scanned_bytes)
    form, has_content = form_of(call), call.flag("content", default=True)
    left = sum(max(span.end - span.first, 0) for span in page.position.values())
    return models.Records(
        records=[record_of(name, each, form=form, has_content=has_content) for each in page.records],
        progress=models.Progress(
            scanned_records=page.scanned,
            scanned_bytes=page.scanned_bytes,
            left_offsets=left,
            is_complete=page.is_complete,
        ),
        next=None if page.is_complete else cursor_text(topic.topic_id, page.position, is_newest_first=is_newest_first),
        errors={index: problem_of(error) for index, error in page.refusals.items()},
    )


async def begin(context: Context, call: Call, topic: Topic) -> tuple[Position, bool]:
    """Where a page begins: at its cursor, or where the parameters say; and whether it goes backwards."""
    text = call.text("cursor")
    if text:
        cursor = read_cursor(text, topic.topic_id)
        if any(index not in topic.partitions for index in cursor.position):
            raise bad("the cursor has partitions that the topic does not: begin without one")
        return cursor.position, cursor.is_newest_first
    order = call.one_of("order", "oldest", "newest")
    numbers = chosen_partitions(call, topic)
    names = [TopicPartition(topic.name, number) for number in numbers]
    ends = await context.reader.ends(names, is_committed=_is_committed(call))
    spans: dict[int, Span] = {}
    failure: BarnabasError | None = None
    for at in names:
        end = ends[at]
        if isinstance(end, Ends):
            spans[at.partition] = Span(end.start_offset, end.end_offset)
        else:
            failure = end
    if not spans and failure is not None:
        raise failure
    if "time" in call.query:
        found = await context.reader.find(names, call.number("time", 0), is_committed=_is_committed(call))
        for at in names:
            first, span = found[at], spans.get(at.partition)
            if span is not None and not isinstance(first, BarnabasError):
                spans[at.partition] = _from(span, span.end if first.offset < 0 else first.offset, order)
    if "offset" in call.query:
        offset = call.number("offset", 0)
        spans = {index: _from(span, offset, order) for index, span in spans.items()}
    return spans, order == "newest"


def _from(span: Span, offset: int, order: str) -> Span:
    """From an offset on; backwards up to it."""
    within = min(max(offset, span.first), span.end)
    return Span(within, span.end) if order == "oldest" else Span(span.first, within)


def chosen_partitions(call: Call, topic: Topic) -> list[int]:
    """The partitions that are asked for: those named, that of the key, or all."""
    if "key" in call.query:
        return [partition_for_key(call.text("key").encode(), len(topic.partitions))]
    named = [whole("partition", text, at_most=2**31 - 1) for text in call.texts("partition")]
    for number in named:
        if number not in topic.partitions:
            raise UnknownTopicOrPartition(f"topic '{topic.name}' has no partition {number}")
    numbers = sorted(set(named)) or sorted(topic.partitions)
    if len(numbers) > MAX_PARTITIONS:
        raise bad(f"the topic has more than {MAX_PARTITIONS} partitions: name some of them")
    return numbers


def filter_texts(call: Call) -> list[str]:
    """The filters of a request; a key is one of them."""
    texts = call.texts("filter")
    return [*texts, f"key:eq:{call.text('key')}"] if "key" in call.query else texts


def _wanted(call: Call, *, is_newest_first: bool) -> Wanted:
    filters = parse_filters(filter_texts(call))
    return Wanted(
        limit=call.number("limit", LIMIT, at_least=1, at_most=MAX_LIMIT),
        is_newest_first=is_newest_first,
        is_committed=_is_committed(call),
        passes=passing(filters) if filters else None,
        max_s=call.number("budget_ms", 2000, at_least=10, at_most=MAX_SECONDS * 1000) / 1000,
        max_bytes=call.number("budget_mb", 16, at_least=1, at_most=MAX_MB) * 1024 * 1024,
    )


def within_quota(context: Context, session: Session, wanted: Wanted) -> Wanted:
    """A page that reads no more than its caller may be sent at once."""
    return replace(wanted, max_bytes=context.quotas.most_to_consume(session, wanted.max_bytes))


def _is_committed(call: Call) -> bool:
    return call.one_of("isolation", "read_committed", "read_uncommitted") == "read_committed"


def form_of(call: Call) -> Form:
    """How keys, values and headers are told."""
    form = call.one_of("format", "auto", "base64", "hex")
    return "hex" if form == "hex" else "base64" if form == "base64" else "auto"


def _browser(context: Context) -> Browser:
    return Browser(context.reader, context.broker.threads.compute)


async def export(context: Context, call: Call) -> Response:
    """Records as a file: JSON lines, or CSV whose cells no spreadsheet takes for formulas."""
    if not context.broker.config.http.http_export_enable:
        raise HttpRefusal(403, "this node exports nothing: http.export.enable=false", code=31)
    name = call.path["topic"]
    context.authorize(call.session, Operation.READ, topic_resource(name))
    topic = context.broker.image.get_topic(name)
    position, is_newest_first = await begin(context, call, topic)
    kind = call.one_of("as", "jsonl", "csv")
    most = call.number("max_records", 10_000, at_least=1, at_most=EXPORTED)
    wanted, form = _wanted(call, is_newest_first=is_newest_first), form_of(call)
    session, quotas = call.session, context.quotas

    async def lines() -> AsyncIterator[bytes]:
        left, at = most, position
        if kind == "csv":
            yield b"partition,offset,timestamp,key,value\r\n"
        while left > 0:
            try:
                await quotas.wait_admitted(session, Use.CONSUMING)
                session.check_login()  # which may have ended since, as may the right to read
                context.authorize(session, Operation.READ, topic_resource(name))
                some = replace(within_quota(context, session, wanted), limit=min(left, MAX_LIMIT))
                page = await quotas.measure(session, partial(_browser(context).read, name, at, some))
            except BarnabasError as error:
                yield last_line(error, kind)
                return
            size = 0
            for each in page.records:
                record = record_of(name, each, form=form, is_full=True)
                line = csv_line(record) if kind == "csv" else msgspec.json.encode(record) + b"\n"
                size += len(line)
                yield line
            quotas.count(session, Use.CONSUMING, size if wanted.passes is None else max(size, page.scanned_bytes))
            left, at = left - len(page.records), page.position
            for refusal in page.refusals.values():
                yield last_line(refusal, kind)
                return
            if page.is_complete:
                return

    media = "text/csv; charset=utf-8" if kind == "csv" else "application/x-ndjson"
    headers = {"Content-Disposition": f'attachment; filename="records.{kind}"'}
    return StreamingResponse(lines(), media_type=media, headers=headers)


def last_line(error: BarnabasError, kind: str) -> bytes:
    """Why a file ends before its end, where a status can no longer tell."""
    problem = problem_of(error)
    if kind != "csv":
        return msgspec.json.encode(problem) + b"\n"
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(["error", "", "", problem.error, defused(problem.message)])
    return out.getvalue().encode()


def csv_line(record: models.Record) -> bytes:
    """A record as a line of CSV; text that a spreadsheet would take for a formula is quoted for it."""
    out = io.StringIO()
    key = "" if record.key is None else defused(record.key.data)
    value = "" if record.value is None else defused(record.value.data)
    # A cell with either character of the line's end is quoted: what comes after it in a value begins no row.
    csv.writer(out, lineterminator="\r\n").writerow([record.partition, record.offset, record.timestamp, key, value])
    return out.getvalue().encode()


def defused(text: str) -> str:
    """The text, with a quote before it if it begins as a formula does."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


_BROWSING: Final = (
    *FILTERS,
    Param("order", "string", "oldest (default) or newest first."),
    Param("offset", "integer", "From this offset on; with order=newest those below it."),
    Param("time", "integer", "From this time on, in milliseconds; with order=newest those before it."),
    Param("cursor", "string", "Go on where the page before ended: its next."),
    Param("limit", "integer", f"At most so many records: {LIMIT} if it is left out."),
    Param("budget_ms", "integer", "Give up looking after so long; next goes on from there."),
    Param("budget_mb", "integer", "Give up looking after so many megabytes."),
)
ROUTES = (
    Route(
        "GET",
        "/topics/{topic}/records",
        browse,
        "Records of a topic, a page at a time.",
        models.Records,
        params=(*_BROWSING, Param("content", "boolean", "false: without keys, values and headers' values.")),
        use=Use.CONSUMING,
    ),
    Route(
        "GET",
        "/topics/{topic}/partitions/{partition}/records/{offset}",
        get_record,
        "One record by its id, uncut.",
        models.Record,
        params=FILTERS[3:],
        use=Use.CONSUMING,
    ),
    Route(
        "GET",
        "/topics/{topic}/export",
        export,
        "Records as a file.",
        None,
        params=(
            *_BROWSING,
            Param("as", "string", "jsonl (default) or csv."),
            Param("max_records", "integer", f"At most so many, up to {EXPORTED}."),
        ),
        use=Use.CONSUMING,
    ),
)
