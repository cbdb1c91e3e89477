"""A request that cannot be understood. Its connection is closed: nobody knows what the bytes after it mean."""

from barnabas.core.errors import BarnabasError


class MalformedRequest(BarnabasError):
    """Bytes that are no request of the protocol."""

    kafka_code = 42


class UnsupportedVersion(BarnabasError):
    """A request of an API or version that is not served."""

    kafka_code = 35
