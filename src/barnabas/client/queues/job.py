"""A job: a record that this member has, until it says what became of it."""

from types import TracebackType
from typing import Protocol, Self

from barnabas.client.message import Message
from barnabas.client.queues.locks import Ack, Lock
from barnabas.core.errors import InvalidRecordState
from barnabas.core.records.record import Header


class LockLost(InvalidRecordState):
    """A job that is no longer this worker's: its lock ran out, or its broker went away. It is delivered again, but for
    an `AckInDoubt`.
    """


class AckInDoubt(LockLost):
    """A job whose acknowledgement was sent and not answered: it is acknowledged, or it is delivered again."""


class Answering(Protocol):
    """Takes what is said of a job."""

    def answer(self, job: "Job", lock: Lock, answer: Ack) -> None: ...


class Job:
    """One record of a queue. In a `with`, it is accepted at the end of the block, and released if the block raises."""

    __slots__ = ("_answering", "_is_answered", "_lock", "delivery_count", "message")

    def __init__(self, message: Message, delivery_count: int, lock: Lock, answering: Answering) -> None:
        self.message = message
        self.delivery_count = delivery_count
        self._lock = lock
        self._answering = answering
        self._is_answered = False

    def __repr__(self) -> str:
        return f"Job({self.topic!r}, {self.partition}, {self.offset}, delivery_count={self.delivery_count})"

    @property
    def topic(self) -> str:
        return self.message.topic

    @property
    def partition(self) -> int:
        return self.message.partition

    @property
    def offset(self) -> int:
        return self.message.offset

    @property
    def key(self) -> bytes | None:
        return self.message.key

    @property
    def value(self) -> bytes | None:
        return self.message.value

    @property
    def headers(self) -> tuple[Header, ...]:
        return self.message.headers

    @property
    def timestamp_ms(self) -> int:
        return self.message.timestamp_ms

    @property
    def is_lost(self) -> bool:
        """Whether another worker may have it by now. Long work may look, and stop."""
        return self._lock.is_lost

    def accept(self) -> None:
        """It is done."""
        self._answer(Ack.ACCEPT)

    def release(self) -> None:
        """Let any worker try it again, up to the delivery limit of the group."""
        self._answer(Ack.RELEASE)

    def reject(self) -> None:
        """It can never be done: it is not delivered again."""
        self._answer(Ack.REJECT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.accept()
            return
        try:
            self.release()
        except LockLost:  # it comes back anyway, and the error of the block is the one to see
            return

    def _answer(self, answer: Ack) -> None:
        """Only the first answer counts."""
        if not self._is_answered:
            self._is_answered = True
            self._answering.answer(self, self._lock, answer)
