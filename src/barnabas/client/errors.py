"""The errors of the client: librdkafka's errors as refusals, each one clear line.

Owns the refusals that only a client knows, and the translation. A code that `core.errors` has a class for becomes
that class; any other becomes `Refused`, which carries the code.
"""

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from barnabas.core import errors as core_errors
from barnabas.core.errors import BarnabasError, codes

Refused = codes.Refused
refusal_of = codes.refusal_of


class Unreachable(BarnabasError):
    """No broker answered in time."""

    kafka_code = 7


class Passing(BarnabasError):
    """A retriable refusal; the refusal itself is its `__cause__`."""

    kafka_code = 6


class RecordNotFound(BarnabasError):
    """No record has that offset: before the start of the log, not written yet, or compacted away."""

    kafka_code = 1


class DamagedBatch(core_errors.CorruptRecord):
    """A damaged batch. No record of it, or after it in its partition, was returned."""

    def __init__(self, topic: str, partition: int, offset: int, why: str) -> None:
        super().__init__(
            f"cannot read {topic}-{partition} at offset {offset}: the batch there is damaged ({why}); "
            f"{_repair_advice(topic)}"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset


class Unreadable(core_errors.StorageError):
    """A partition that its broker cannot read, at an offset or at all: it is damaged, or its files are missing."""

    def __init__(self, topic: str, partition: int, offset: int | None = None) -> None:
        where = "" if offset is None else f" at offset {offset}"
        super().__init__(
            f"cannot read {topic}-{partition}{where}: its broker cannot read it from disk "
            f"(see the log of the broker); {_repair_advice(topic)}"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset


def _repair_advice(topic: str) -> str:
    return f"for a remedy run, on the broker's machine: barnabas topic repair {topic} --data-dir DIR --dry-run"


class DeliveryFailed(BarnabasError):
    """Records that were sent and not acknowledged, `count` of them; the reason, if known, is its `__cause__`."""

    def __init__(self, message: str, count: int = 1) -> None:
        super().__init__(message)
        self.count = count


class TransactionAborted(BarnabasError):
    """An aborted transaction. The reason is its `__cause__`; the work may be retried."""

    kafka_code = 120


class TransactionFenced(core_errors.ProducerFenced):
    """Another producer took over the transactional id."""


class TransactionTimedOut(core_errors.ProducerFenced):
    """A transaction that was open for longer than its timeout, and was aborted by the cluster."""


class TransactionInDoubt(BarnabasError):
    """A commit that was not answered: its outcome is unknown. The group's committed offsets, if any, show it."""

    kafka_code = 7


class ProducerBroken(BarnabasError):
    """A producer, or its transaction, that cannot continue: the next producer of its id ends the open transaction."""

    kafka_code = 120


IS_IT_RUNNING: Final = "; is a broker running at that address?"
_UNREACHABLE: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
# librdkafka's own codes, and what the broker would have said.
_LOCAL: Final[dict[int, type[BarnabasError]]] = {
    KafkaError._AUTO_OFFSET_RESET: core_errors.OffsetOutOfRange,
    KafkaError._CONFLICT: core_errors.InvalidConfig,
    KafkaError._FENCED: core_errors.ProducerFenced,
    KafkaError._INVALID_ARG: core_errors.InvalidConfig,
    KafkaError._NOENT: core_errors.UnknownTopicOrPartition,
    KafkaError._UNKNOWN_PARTITION: core_errors.UnknownTopicOrPartition,
    KafkaError._UNKNOWN_TOPIC: core_errors.UnknownTopicOrPartition,
}
# What librdkafka says of a batch with a wrong checksum, codec, format number, length or count.
_DAMAGED: Final = frozenset(
    {
        KafkaError._BAD_COMPRESSION,
        KafkaError._BAD_MSG,
        KafkaError._NOT_IMPLEMENTED,
        KafkaError._UNDERFLOW,
        KafkaError.INVALID_MSG,
    }
)


def translate(error: KafkaError | KafkaException, doing: str) -> BarnabasError:
    """The refusal that `error` means, as "cannot <doing>: <why>"."""
    reason = error.args[0] if isinstance(error, KafkaException) else error
    if not isinstance(reason, KafkaError):  # a setting that librdkafka does not take
        return core_errors.InvalidConfig(f"cannot {doing}: {reason}")
    code = reason.code()
    message = f"cannot {doing}: {_why(reason)}"
    if code in _UNREACHABLE:
        # A broker that says so itself is there.
        is_answered = code == KafkaError.REQUEST_TIMED_OUT
        return Unreachable(message if is_answered else f"{message}{IS_IT_RUNNING}")
    local = _LOCAL.get(code)
    return local(message) if local else refusal_of(code, message)


def reading_refusal(error: KafkaError, topic: str, partition: int, offset: int | None) -> BarnabasError:
    """The refusal for a consumer's error in a partition."""
    if error.code() in _DAMAGED and offset is not None and offset >= 0:
        return DamagedBatch(topic, partition, offset, _why(error))
    where = f"{topic}-{partition}" if partition >= 0 else "records"
    return translate(error, f"read {where}" if offset is None or offset < 0 else f"read {where} at offset {offset}")


def check_answer(answer: Any, doing: str) -> None:
    """As `check`, for an answer that has an error code and maybe the words of the broker that refused."""
    check(answer.error_code, doing, getattr(answer, "error_message", None))


def check(code: int, doing: str, words: str | None = None) -> None:
    """Raise the error of a broker's error code, if it is not 0: `Passing`, or the refusal.

    An unknown topic is a refusal: whether to retry is up to the caller.
    """
    number = int(code)
    if number == 0:
        return
    refusal = refusal_of(number, f"cannot {doing}: {words or words_of(number)}")
    if is_passing(number) and number != core_errors.UnknownTopicOrPartition.kafka_code:
        raise Passing(str(refusal)) from refusal
    raise refusal


def is_passing(code: int) -> bool:
    """Whether an error is retriable, as in Kafka."""
    from barnabas.wire.schemas import ErrorCode  # noqa: PLC0415 - most callers never need it

    try:
        return ErrorCode(code).retriable
    except ValueError:
        return False


def words_of(code: int) -> str:
    """A broker's error code in words."""
    from barnabas.wire.schemas import ErrorCode  # noqa: PLC0415

    try:
        return ErrorCode(code).name.replace("_", " ")
    except ValueError:
        return f"error {code}"


def _why(error: KafkaError) -> str:
    """librdkafka's message in one line, without its "Broker: " and "Local: "."""
    words = " ".join((error.str() or error.name()).split())
    for source in ("Broker: ", "Local: "):
        words = words.replace(source, "")
    return words
