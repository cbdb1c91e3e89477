"""What a refusal becomes for a gRPC client: a status, by Kafka's error code."""

from typing import Final

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration

from barnabas.core.errors import BarnabasError
from barnabas.v1 import bus_pb2

CODE_KEY: Final = "barnabas-kafka-code"
NAME_KEY: Final = "barnabas-error"
PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"
DETAILS_KEY: Final = "grpc-status-details-bin"
RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"
MAX_MESSAGE: Final = 500

_S = grpc.StatusCode
STATUSES: Final = {
    _S.INVALID_ARGUMENT: (2, 10, 12, 17, 21, 24, 26, 32, 37, 38, 39, 40, 42, 43, 76, 87, 128),
    _S.NOT_FOUND: (3, 69, 100),
    _S.ALREADY_EXISTS: (36,),
    _S.OUT_OF_RANGE: (1,),
    _S.PERMISSION_DENIED: (29, 30, 31, 53),
    _S.UNAUTHENTICATED: (58,),
    _S.FAILED_PRECONDITION: (44, 54, 68, 73),
    _S.ABORTED: (22, 25, 27, 45, 46, 47, 49, 79, 82, 88, 90, 110, 111, 113),
    _S.UNAVAILABLE: (5, 6, 9, 13, 14, 15, 16, 19, 20, 41, 56, 74, 75, 78),
    _S.DEADLINE_EXCEEDED: (7,),
    _S.RESOURCE_EXHAUSTED: (81, 89),
    _S.UNIMPLEMENTED: (35,),
}
"""The codes of Kafka by the status that they become. Any other is UNKNOWN."""

_STATUS_OF: Final = {code: status for status, codes in STATUSES.items() for code in codes}
_RETRIABLE: Final = frozenset({_S.UNAVAILABLE, _S.ABORTED, _S.DEADLINE_EXCEEDED, _S.RESOURCE_EXHAUSTED})


class Unauthenticated(BarnabasError):
    """Who calls is not known."""

    kafka_code = 58


class TooManyCalls(BarnabasError):
    """More streams than a node serves."""

    kafka_code = 89


class NoSuchRecord(BarnabasError):
    """There is no record at an offset that the log has."""

    kafka_code = 3


def code_of(error: BarnabasError) -> int:
    """Kafka's code for a refusal, also of one that another node has decided."""
    return int(getattr(error, "code", error.kafka_code))


def status_of(error: BarnabasError) -> grpc.StatusCode:
    """The status for a refusal."""
    return _STATUS_OF.get(code_of(error), _S.UNKNOWN)


def message_of(error: BarnabasError) -> str:
    """What a client is told; it may quote a name of any length."""
    return str(error)[:MAX_MESSAGE] or type(error).__name__


def trailing_of(error: BarnabasError, *, retry_ms: int = 0) -> tuple[tuple[str, str | bytes], ...]:
    """The trailing metadata beside a status; `retry_ms`: how long the caller has to wait for a quota.

    That is told twice: for the retries of gRPC itself, and for those who look into the details of a status.
    """
    trailing: tuple[tuple[str, str | bytes], ...] = (
        (CODE_KEY, str(code_of(error))),
        (NAME_KEY, type(error).__name__),
    )
    if retry_ms > 0 and status_of(error) is _S.RESOURCE_EXHAUSTED:
        trailing += ((PUSHBACK_KEY, str(retry_ms)), (DETAILS_KEY, retry_details(error, retry_ms)))
    return trailing


def retry_details(error: BarnabasError, retry_ms: int) -> bytes:
    """A google.rpc.Status with a google.rpc.RetryInfo, whose messages are in a package that is not needed otherwise."""
    delay = Duration()
    delay.FromMilliseconds(retry_ms)
    info = Any(type_url=RETRY_INFO, value=_field(1, delay.SerializeToString()))
    code = bytes((1 << 3, status_of(error).value[0]))
    return code + _field(2, message_of(error).encode()) + _field(3, info.SerializeToString())


def _field(number: int, data: bytes) -> bytes:
    """A field of a message with a length, as protobuf writes it."""
    length, head = len(data), bytearray((number << 3 | 2,))
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + data


def error_of(error: BarnabasError) -> bus_pb2.Error:
    """A refusal of one part of a call."""
    return bus_pb2.Error(
        kafka_code=code_of(error),
        name=type(error).__name__,
        message=message_of(error),
        is_retriable=status_of(error) in _RETRIABLE,
    )
