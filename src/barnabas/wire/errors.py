"""A message that cannot be decoded. Its connection is closed: the bytes after it cannot be interpreted."""

from barnabas.core.errors import BarnabasError


class Malformed(BarnabasError):
    """Bytes that are not a message of the protocol."""


class MalformedRequest(Malformed):
    """Bytes that are not a request of the protocol."""

    kafka_code = 42


class MalformedAnswer(Malformed):
    """Bytes that are not an answer to the request: whether it was carried out is unknown."""


class UnservedVersion(BarnabasError):
    """A request of an API or version that is not served."""

    kafka_code = 35
