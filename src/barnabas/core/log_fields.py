"""The fields of Kafka's messages as the logs of its coordinators hold them, to be written and read by hand.

A log's keys and the older versions of values are *plain*: a length has 16 or 32 bits, and -1 is null. Newer versions of
values are *flexible*: a length is a varint, one more than it counts, so that 0 is null, and every structure ends with
tagged fields, each a number, a size and bytes. A reader leaves out tags that it does not know, so fields of our own
have tags that Kafka does not use (from `OWN_TAGS` on).

Invalid bytes are `BadFields`, which the caller turns into a refusal.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from struct import Struct, error
from typing import Final, TypeVar
from uuid import UUID

from barnabas.core.errors import RecordTooLarge

T = TypeVar("T")

INT8: Final = Struct(">b")
INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")

OWN_TAGS: Final = 1000
MAX_STRING_BYTES: Final = 0x7FFF  # of any string in Kafka's messages

_MAX_UVARINT_BYTES: Final = 5
_UUID_BYTES: Final = 16

Tagged = tuple[int, bytes]


class BadFields(ValueError):
    """Bytes that are not the fields they should be."""


# Writing


def utf8(text: str) -> bytes:
    """A string's bytes; refused if longer than a string in Kafka's messages can be."""
    data = text.encode()
    if len(data) > MAX_STRING_BYTES:
        raise RecordTooLarge(f"a string of {len(data)} bytes is over the {MAX_STRING_BYTES} that a record can hold")
    return data


def uvarint(value: int) -> bytes:
    """A number that is not negative, seven bits a byte, lowest first."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(text: str) -> bytes:
    """A plain string."""
    data = utf8(text)
    return INT16.pack(len(data)) + data


def nullable_string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else string(text)


def data_field(data: bytes) -> bytes:
    """Plain bytes."""
    return INT32.pack(len(data)) + data


def compact_string(text: str) -> bytes:
    data = utf8(text)
    return uvarint(len(data) + 1) + data


def compact_nullable_string(text: str | None) -> bytes:
    return b"\0" if text is None else compact_string(text)


def compact_data(data: bytes) -> bytes:
    return uvarint(len(data) + 1) + data


def compact_array(items: Sequence[T], encode: Callable[[T], bytes]) -> bytes:
    return uvarint(len(items) + 1) + b"".join(map(encode, items))


def int32_array(numbers: Sequence[int]) -> bytes:
    """A compact array of 32-bit numbers."""
    return uvarint(len(numbers) + 1) + _int32s(len(numbers)).pack(*numbers)


@lru_cache(maxsize=64)
def _int32s(count: int) -> Struct:
    return Struct(f">{count}i")


def tagged_fields(fields: Iterable[Tagged] = ()) -> bytes:
    """The tagged fields that end a structure. The tags must be ascending."""
    present = list(fields)
    return uvarint(len(present)) + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in present)


# Reading


@lru_cache(maxsize=4096)
def uuid_of(data: bytes) -> UUID:
    """The UUID of 16 bytes; few topics have most of the offsets."""
    return UUID(bytes=data)


class FieldReader:
    """Reads fields one after another."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def number(self, kind: Struct) -> int:
        """A number of one of the kinds above."""
        return self.numbers(kind)[0]

    def numbers(self, kind: Struct) -> tuple[int, ...]:
        """Several numbers at once."""
        try:
            values: tuple[int, ...] = kind.unpack_from(self._data, self._at)
        except error:
            raise BadFields("a number runs past the end") from None
        self._at += kind.size
        return values

    def uvarint(self) -> int:
        at = self._at
        if at < len(self._data) and self._data[at] < 0x80:  # most of them are one byte
            self._at = at + 1
            return self._data[at]
        value = 0
        for shift in range(0, 7 * _MAX_UVARINT_BYTES, 7):
            if self._at >= len(self._data):
                raise BadFields("a number runs past the end")
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise BadFields("a number has more than 32 bits")

    def take(self, size: int) -> bytes:
        """The next bytes, so many."""
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise BadFields(f"{size} bytes are claimed, {len(self._data) - self._at} are left")
        data = self._data[self._at : end]
        self._at = end
        return data

    def string(self) -> str:
        return _text(self.take(self.number(INT16)))

    def nullable_string(self) -> str | None:
        size = self.number(INT16)
        return None if size == -1 else _text(self.take(size))

    def data_field(self) -> bytes:
        return self.take(self.number(INT32))

    def compact_string(self) -> str:
        return _text(self.take(self.uvarint() - 1))

    def compact_nullable_string(self) -> str | None:
        size = self.uvarint()
        return None if size == 0 else _text(self.take(size - 1))

    def compact_data(self) -> bytes:
        return self.take(self.uvarint() - 1)

    def uuid(self) -> UUID:
        return uuid_of(self.take(_UUID_BYTES))

    def array(self, count: int, read: Callable[[], T]) -> tuple[T, ...]:
        """So many of what `read` reads; each has a byte at least, so a claim of more is refused at once."""
        if not 0 <= count <= len(self._data) - self._at:
            raise BadFields(f"{count} elements are claimed in {len(self._data) - self._at} bytes")
        return tuple(read() for _ in range(count))

    def compact_array(self, read: Callable[[], T]) -> tuple[T, ...]:
        return self.array(self.uvarint() - 1, read)

    def int32_array(self) -> tuple[int, ...]:
        """A compact array of 32-bit numbers."""
        count = self.uvarint() - 1
        data = self.take(count * INT32.size)
        return _int32s(count).unpack(data)

    def tagged_fields(self) -> dict[int, bytes]:
        """The tagged fields that end a structure."""
        count = self.uvarint()
        if not count:
            return {}
        fields: dict[int, bytes] = {}
        for _ in range(count):
            tag = self.uvarint()
            fields[tag] = self.take(self.uvarint())
        return fields

    def check_end(self) -> None:
        """Refuse trailing bytes."""
        if self._at != len(self._data):
            raise BadFields(f"{len(self._data) - self._at} bytes are left")


def int64_field(fields: dict[int, bytes], tag: int, default: int) -> int:
    """A tagged number of 64 bits."""
    return _tagged(INT64, fields, tag, default)


def int16_field(fields: dict[int, bytes], tag: int, default: int) -> int:
    """A tagged number of 16 bits."""
    return _tagged(INT16, fields, tag, default)


def _tagged(kind: Struct, fields: dict[int, bytes], tag: int, default: int) -> int:
    data = fields.get(tag)
    if data is None:
        return default
    if len(data) != kind.size:
        raise BadFields(f"the field with tag {tag} has {len(data)} bytes")
    return int(kind.unpack(data)[0])


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error_:
        raise BadFields(f"a string is not UTF-8: {error_}") from None
