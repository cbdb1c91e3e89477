"""Refusals as HTTP: a status, and JSON with Kafka's error code, its name and a sentence."""

from typing import Final

import msgspec

from barnabas.core.errors import BarnabasError
from barnabas.core.errors.codes import Refused
from barnabas.wire.error_names import name_of

_STATUS: Final = {
    3: 404,  # UNKNOWN_TOPIC_OR_PARTITION
    69: 404,  # GROUP_ID_NOT_FOUND
    100: 404,  # UNKNOWN_TOPIC_ID
    105: 404,  # TRANSACTIONAL_ID_NOT_FOUND
    1: 416,  # OFFSET_OUT_OF_RANGE
    36: 409,  # TOPIC_ALREADY_EXISTS
    68: 409,  # NON_EMPTY_GROUP
    86: 409,  # GROUP_SUBSCRIBED_TO_TOPIC
    25: 409,  # UNKNOWN_MEMBER_ID: the group has members
    29: 403,  # TOPIC_AUTHORIZATION_FAILED
    30: 403,  # GROUP_AUTHORIZATION_FAILED
    31: 403,  # CLUSTER_AUTHORIZATION_FAILED
    53: 403,  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    58: 401,  # SASL_AUTHENTICATION_FAILED
    10: 413,  # MESSAGE_TOO_LARGE
    89: 429,  # THROTTLING_QUOTA_EXCEEDED
    7: 504,  # REQUEST_TIMED_OUT
    5: 503,  # LEADER_NOT_AVAILABLE
    6: 503,  # NOT_LEADER_OR_FOLLOWER
    14: 503,  # COORDINATOR_LOAD_IN_PROGRESS
    15: 503,  # COORDINATOR_NOT_AVAILABLE
    16: 503,  # NOT_COORDINATOR
    19: 503,  # NOT_ENOUGH_REPLICAS
    41: 503,  # NOT_CONTROLLER
    56: 503,  # KAFKA_STORAGE_ERROR
    13: 503,  # NETWORK_EXCEPTION
    -1: 500,
}
_AGAIN: Final = frozenset({5, 6, 7, 13, 14, 15, 16, 19, 20, 41, 78, 89})
"""Errors after which the same request may succeed."""


class Problem(msgspec.Struct, frozen=True):
    """Why a request was refused."""

    error_code: int
    error: str
    message: str
    retriable: bool = False


class HttpRefusal(Exception):
    """A refusal that is HTTP's own: a status, and a problem with a code of Kafka's that fits."""

    def __init__(self, status: int, message: str, *, code: int = 42) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def problem_of(error: BarnabasError | HttpRefusal) -> Problem:
    """What is told of a refusal."""
    code = code_of(error)
    return Problem(code, name_of(code), str(error), code in _AGAIN)


def code_of(error: BarnabasError | HttpRefusal) -> int:
    """Kafka's code for a refusal."""
    if isinstance(error, HttpRefusal | Refused):
        return error.code
    return error.kafka_code


def status_of(error: BarnabasError | HttpRefusal) -> int:
    """The status for a refusal."""
    if isinstance(error, HttpRefusal):
        return error.status
    return _STATUS.get(code_of(error), 400)


def bad(message: str) -> HttpRefusal:
    """A request that makes no sense."""
    return HttpRefusal(400, message)
