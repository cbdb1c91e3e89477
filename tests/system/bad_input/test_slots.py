"""Null, or nothing, in every slot of every request."""

import io
import struct
from dataclasses import fields, is_dataclass
from typing import Any

from kio.index import load_request_schema

from barnabas.wire.apis import Api
from barnabas.wire.schema import FORMATS, take_apart
from tests.support.served import versions_of
from tests.system.bad_input.serving import EVERYWHERE, Server, answered_or_closed
from tests.system.running import read_answer, request_frame
from tests.unit.edge.kafka.calling import frame_of
from tests.unit.edge.kafka.support import build
from tests.unit.wire.kio_values import encode


def minimal(entity: Any) -> Any:
    """An entity with every array of one element, and nothing null."""
    values: dict[str, Any] = {}
    for field in fields(entity):
        inner, _, is_array = take_apart(field.type)
        if field.metadata.get("tag") is not None:
            continue
        if is_dataclass(inner):
            value: Any = minimal(inner)
        else:
            kind = field.metadata["kafka_type"]
            value = {"string": "t", "bytes": b"", "records": b"", "uuid": None}.get(kind, 0)
            if kind.startswith("timedelta"):
                value = 0
        values[field.name] = [value] if is_array else value
    return values


def slots(entity: Any) -> int:
    """How many slots of an entity with one element in each array could be null."""
    count = 0
    for field in fields(entity):
        inner, _, is_array = take_apart(field.type)
        if field.metadata.get("tag") is None:
            kind = field.metadata.get("kafka_type")
            count += is_array or kind in ("string", "bytes", "records") or (is_dataclass(inner) and not is_array)
            count += slots(inner) if is_dataclass(inner) else (is_array and kind in ("string", "bytes"))
    return count


class NullingWriter:
    """Writes an entity with null in one slot, whether that may be null or not."""

    def __init__(self, null_slot: int) -> None:
        self._left = null_slot

    def write(self, entity: Any) -> bytes:
        out = io.BytesIO()
        self._entity(out, entity)
        return out.getvalue()

    def _is_null(self) -> bool:
        self._left -= 1
        return self._left == -1

    def _entity(self, out: io.BytesIO, entity: Any) -> None:
        is_flexible = entity.__flexible__
        for field in fields(entity):
            if field.metadata.get("tag") is None:
                self._field(out, field, is_flexible=is_flexible)
        if is_flexible:
            out.write(b"\x00")

    def _field(self, out: io.BytesIO, field: Any, *, is_flexible: bool) -> None:
        inner, is_nullable, is_array = take_apart(field.type)
        if is_array:
            if self._is_null():
                out.write(b"\x00" if is_flexible else b"\xff\xff\xff\xff")
                return
            out.write(b"\x02" if is_flexible else b"\x00\x00\x00\x01")
        if is_dataclass(inner):
            if not is_array:
                is_null = self._is_null()
                out.write((b"\xff" if is_null else b"\x01") if is_nullable else b"")
                if is_null:
                    return
            self._entity(out, inner)
            return
        kind = field.metadata["kafka_type"]
        if kind in FORMATS or kind == "uuid":
            out.write(bytes(16 if kind == "uuid" else struct.calcsize(">" + FORMATS[kind])))
        elif self._is_null():
            out.write(b"\x00" if is_flexible else b"\xff\xff" if kind == "string" else b"\xff\xff\xff\xff")
        else:
            out.write(b"\x02t" if is_flexible else b"\x00\x01t" if kind == "string" else b"\x00\x00\x00\x01t")


@EVERYWHERE
def test_null_in_every_slot_is_answered_or_refused(server: Server, listener: str, api: Api) -> None:
    for version in versions_of(api):
        schema = load_request_schema(api.key, version)
        for slot in range(slots(schema) + 1):
            body = NullingWriter(slot).write(schema)
            for answer in answered_or_closed(server, frame_of(api, version, body), listener):
                read_answer(api, version, answer)
    server.check()


@EVERYWHERE
def test_empty_lists_are_answered(server: Server, listener: str, api: Api) -> None:
    for version in versions_of(api):
        schema = load_request_schema(api.key, version)
        empty = request_frame(api, version, max_wait=0, acks=1)
        nested = frame_of(api, version, encode(build(schema, {**minimal(schema), **emptied(schema), "acks": 1})))
        for frame in (empty, nested):
            (answer,) = answered_or_closed(server, frame, listener)
            read_answer(api, version, answer)


def emptied(entity: Any) -> dict[str, Any]:
    """Arrays of one element whose own arrays have none."""
    values: dict[str, Any] = {}
    for field in fields(entity):
        inner, _, is_array = take_apart(field.type)
        if is_array and is_dataclass(inner) and field.metadata.get("tag") is None:
            element = minimal(inner)
            for each in fields(inner):
                if take_apart(each.type)[2]:
                    element[each.name] = []
            values[field.name] = [element]
    return values
