"""Closing a consumer takes bounded time, whatever librdkafka does meanwhile."""

import threading

import pytest

from barnabas.client.closing import close_within


class Closes:
    """Closes when it is let, and with the error that it is given."""

    def __init__(self, failure: BaseException | None = None) -> None:
        self.may_end = threading.Event()
        self.is_closed = threading.Event()
        self._failure = failure

    def close(self) -> None:
        self.may_end.wait()
        self.is_closed.set()
        if self._failure is not None:
            raise self._failure


def test_one_that_closes_is_waited_for() -> None:
    consumer = Closes()
    consumer.may_end.set()

    assert close_within(consumer, 60)
    assert consumer.is_closed.is_set()


def test_one_that_never_closes_is_left_behind() -> None:
    consumer = Closes()

    assert not close_within(consumer, 0.01)
    assert not consumer.is_closed.is_set()
    consumer.may_end.set()
    assert consumer.is_closed.wait(60), "it was not left to close by itself"


def test_what_closing_raises_reaches_the_caller() -> None:
    consumer = Closes(RuntimeError("a callback failed"))
    consumer.may_end.set()

    with pytest.raises(RuntimeError, match="a callback failed"):
        close_within(consumer, 60)
