"""Refusals of share groups: of sessions, of acknowledgements, and of what a share coordinator is asked to write."""

from barnabas.core.errors.requests import BarnabasError


class InvalidRecordState(BarnabasError):
    """An acknowledgement of records that the member has not acquired, or has no longer."""

    kafka_code = 121


class ShareSessionNotFound(BarnabasError):
    """A share session that does not exist on this node."""

    kafka_code = 122


class InvalidShareSessionEpoch(BarnabasError):
    """A request of a share session out of sequence."""

    kafka_code = 123


class FencedStateEpoch(BarnabasError):
    """A write to the state of a share partition that was initialised anew meanwhile."""

    kafka_code = 124


class ShareSessionLimitReached(BarnabasError):
    """The node has as many share sessions as it may have."""

    kafka_code = 133
