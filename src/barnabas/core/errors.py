"""Every refusal, each with the Kafka error code that a client hears.

A ``BarnabasError`` is an answer: something was asked that cannot be done, and its message says what
happened and what to do. Anything else that is raised is a bug and is let through.
"""

from typing import ClassVar


class BarnabasError(Exception):
    """A refusal with a Kafka error code."""

    kafka_code: ClassVar[int] = -1


class CorruptRecord(BarnabasError):
    """Bytes that are not what they claim to be: a wrong checksum, length, count or varint."""

    kafka_code = 2


class RecordTooLarge(BarnabasError):
    """A batch, or what it decompresses to, is over its limit."""

    kafka_code = 10


class UnsupportedRecordFormat(BarnabasError):
    """A record format older than v2 (magic 0 or 1), or one that does not exist yet."""

    kafka_code = 43


class UnsupportedCompression(BarnabasError):
    """A compression codec that the format does not define."""

    kafka_code = 76


class InvalidRecord(BarnabasError):
    """Well-formed bytes that break a rule of the log."""

    kafka_code = 87


class OffsetOutOfRange(BarnabasError):
    """An offset below the start of the log or beyond its end."""

    kafka_code = 1


class OutOfOrderSequence(BarnabasError):
    """An idempotent producer skipped a sequence number."""

    kafka_code = 45


class DuplicateSequence(BarnabasError):
    """A retry of a batch so old that its offset is no longer remembered."""

    kafka_code = 46


class InvalidProducerEpoch(BarnabasError):
    """A producer that a newer one has replaced."""

    kafka_code = 47


class InvalidTxnState(BarnabasError):
    """A write that does not fit the transaction that is open, or is not."""

    kafka_code = 48


class TransactionCoordinatorFenced(BarnabasError):
    """A transaction marker from a coordinator that a newer one has replaced."""

    kafka_code = 52


class FencedLeaderEpoch(BarnabasError):
    """An append under a leader epoch older than one the log has seen."""

    kafka_code = 74


class StorageError(BarnabasError):
    """The disk failed or was taken offline; the partition cannot be served from it."""

    kafka_code = 56


class CorruptLog(StorageError):
    """Data that was written and is now damaged. It is reported, never dropped."""


class InvalidConfig(BarnabasError):
    """A setting that does not exist, or a value it cannot have."""

    kafka_code = 40
