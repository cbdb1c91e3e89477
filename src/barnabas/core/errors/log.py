"""Refusals of a partition: its records, its log, its leader, and the requests that write and read it."""

from barnabas.core.errors.requests import BarnabasError


class CorruptRecord(BarnabasError):
    """Invalid bytes: a wrong checksum, length, count or varint."""

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


class FencedLeaderEpoch(BarnabasError):
    """An append under a leader epoch older than one the log has seen."""

    kafka_code = 74


class UnknownLeaderEpoch(BarnabasError):
    """A leader epoch that this node does not know yet."""

    kafka_code = 75


class StorageError(BarnabasError):
    """The disk failed or was taken offline; the partition cannot be served from it."""

    kafka_code = 56


class StorageExhausted(StorageError):
    """There is no space, or no descriptor or memory is left: nothing was done, and a retry may succeed."""


class DataDirLost(StorageError):
    """The data directory has vanished or failed: a node without another one cannot go on."""


class CorruptLog(StorageError):
    """Data that was written and is now damaged. It is reported, never dropped."""


class NotLeaderOrFollower(BarnabasError):
    """This node does not lead the partition, or has no replica of it."""

    kafka_code = 6


class CutOff(NotLeaderOrFollower):
    """This node led the partition when it last heard of the cluster, and cannot know whether it still does."""


class ReplicaNotAvailable(BarnabasError):
    """This node has no replica of the partition."""

    kafka_code = 9


class OffsetNotAvailable(BarnabasError):
    """A new leader does not know yet what was acknowledged before it led."""

    kafka_code = 78


class NotEnoughReplicas(BarnabasError):
    """Fewer replicas are in sync than `min.insync.replicas`."""

    kafka_code = 19


class InvalidRequiredAcks(BarnabasError):
    """A number of acknowledgements other than 0, 1 or all (-1)."""

    kafka_code = 21


class InvalidTimestamp(BarnabasError):
    """A record with a timestamp that its topic does not accept."""

    kafka_code = 32


class FetchSessionIdNotFound(BarnabasError):
    """A fetch session that does not exist, or no longer."""

    kafka_code = 70


class InvalidFetchSessionEpoch(BarnabasError):
    """A request out of sequence in its fetch session."""

    kafka_code = 71


class FetchSessionTopicIdError(BarnabasError):
    """Topic names and topic ids mixed in one fetch session."""

    kafka_code = 106


class LogDirNotFound(BarnabasError):
    """A directory that is not one of this node's data directories."""

    kafka_code = 57
