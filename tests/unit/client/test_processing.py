# ruff: noqa: PT012 - what raises is the end of a transaction's block, so the block is in it
"""`Bus.process` against a broker: what comes out, once or at least once, and what it does about failures."""

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import (
    BarnabasError,
    Bus,
    DeliveryFailed,
    Message,
    Output,
    Processed,
    Refused,
    TransactionAborted,
    TransactionFenced,
    TransactionInDoubt,
    Unreachable,
)
from barnabas.client.processing import may_pass
from barnabas.client.transactions import Transaction, _TransactionalProducer
from barnabas.core.errors import (
    IllegalGeneration,
    InvalidRequest,
    RecordTooLarge,
    TopicExists,
    UnknownTopicOrPartition,
)

MODES = pytest.mark.parametrize("exactly_once", [True, False])


@pytest.fixture
def source(real_bus: Bus, name: str) -> str:
    topic = f"{name}-in"
    real_bus.create_topic(topic, partitions=2)
    for number in range(10):
        real_bus.send(topic, b"%d" % number, key=b"k%d" % number, partition=number % 2)
    real_bus.flush(60)
    return topic


@pytest.fixture
def sink(real_bus: Bus, name: str) -> str:
    real_bus.create_topic(f"{name}-out", partitions=2)
    return f"{name}-out"


def found(bus: Bus, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    pairs = [(message.key, message.value) for message in bus.consume(topic, until_end=True)]
    return sorted(pairs, key=lambda pair: (pair[0] or b"", pair[1] or b""))


def shout(message: Message) -> bytes:
    return (message.value or b"") + b"!"


SHOUTED = [(b"k%d" % number, b"%d!" % number) for number in range(10)]


@MODES
def test_what_was_there_goes_through_the_function_once(
    real_bus: Bus, source: str, sink: str, exactly_once: bool
) -> None:
    for expected in ((10, 10), (0, 0)):  # the second time there is nothing left
        done = real_bus.process(
            source, shout, sink, exactly_once=exactly_once, batch_size=4, instance="one", until_end=True
        )
        assert (done.read, done.written, done.retries) == (*expected, 0)

    assert found(real_bus, sink) == SHOUTED


def test_a_group_of_the_newer_protocol_does_as_well(real_bus: Bus, source: str, sink: str) -> None:
    with Bus(real_bus.bootstrap, config={"group.protocol": "consumer"}) as bus:
        done = bus.process(source, shout, sink, batch_size=4, until_end=True)

    assert (done.read, done.written) == (10, 10)
    assert found(real_bus, sink) == SHOUTED


def test_a_function_gives_nothing_one_or_many_with_keys_of_their_own(real_bus: Bus, source: str, sink: str) -> None:
    answers: dict[bytes | None, Any] = {
        b"0": None,
        b"1": "text",
        b"2": [b"a", Output(b"b", key="own"), Output(None), Output(b"c", key=None)],
        b"3": [],
        b"5": Output(b"d", headers={"h": b"1"}, partition=1, timestamp_ms=1234),
    }

    def answer(message: Message) -> Any:
        if message.value == b"4":
            return dataclasses.replace(message, value=b"whole", topic="whatever")
        return answers.get(message.value)

    done = real_bus.process(source, answer, sink, until_end=True)

    assert (done.read, done.written) == (10, 7)
    assert found(real_bus, sink) == [
        (None, b"c"),
        (b"k1", b"text"),
        (b"k2", None),
        (b"k2", b"a"),
        (b"k4", b"whole"),
        (b"k5", b"d"),
        (b"own", b"b"),
    ]
    (special,) = [each for each in real_bus.consume(sink, until_end=True) if each.key == b"k5"]
    assert (special.partition, special.timestamp_ms, special.headers) == (1, 1234, (("h", b"1"),))


def test_a_function_that_gives_something_else_is_told(real_bus: Bus, source: str, sink: str) -> None:
    with pytest.raises(InvalidRequest, match="the function returned int"):
        real_bus.process(source, lambda _: 5, sink, until_end=True)  # type: ignore[arg-type, return-value]


@MODES
@pytest.mark.parametrize("error", [ZeroDivisionError, IllegalGeneration])
def test_what_a_function_raises_is_raised_and_its_batch_is_read_again(
    real_bus: Bus, source: str, sink: str, exactly_once: bool, error: type[Exception]
) -> None:
    def stumble(message: Message) -> bytes:
        if message.value == b"7":
            raise error("no")
        return shout(message)

    run: Callable[..., Processed] = lambda function: real_bus.process(  # noqa: E731
        source, function, sink, exactly_once=exactly_once, batch_size=100, max_wait=0.5, instance="one", until_end=True
    )
    with pytest.raises(error, match="no"):
        run(stumble)
    assert found(real_bus, sink) == []
    run(shout)

    assert found(real_bus, sink) == SHOUTED


def test_it_goes_on_until_it_is_told_to_stop(real_bus: Bus, source: str, sink: str) -> None:
    stop = threading.Event()
    seen: list[bytes | None] = []

    def note(message: Message) -> bytes:
        seen.append(message.value)
        if message.value == b"last":
            stop.set()
        elif len(seen) == 10:
            real_bus.send(source, b"last", key=b"k").result(60)
        return shout(message)

    done = real_bus.process(source, note, sink, stop=stop)

    assert (done.read, done.written) == (11, 11)
    assert found(real_bus, sink) == [(b"k", b"last!"), *SHOUTED]


def test_a_topic_that_asks_for_exactly_once_gets_nothing_less(real_bus: Bus, source: str, name: str) -> None:
    real_bus.create_topic(f"{name}-strict", config={"delivery.semantics": "exactly-once"})
    with pytest.raises(InvalidRequest, match="exactly-once"):
        real_bus.process(source, shout, f"{name}-strict", exactly_once=False, until_end=True)
    real_bus.process(source, shout, f"{name}-strict", until_end=True)

    assert found(real_bus, f"{name}-strict") == SHOUTED


def test_aborted_records_are_not_processed(real_bus: Bus, source: str, sink: str) -> None:
    with pytest.raises(ZeroDivisionError), real_bus.transaction(source) as tx:
        tx.send(source, b"aborted").result(60)
        raise ZeroDivisionError
    real_bus.process(source, shout, sink, until_end=True)

    assert found(real_bus, sink) == SHOUTED


@pytest.mark.parametrize("topics", [("source", "none"), ("none", "sink")])
def test_a_topic_that_is_not_there_is_refused(
    real_bus: Bus, source: str, sink: str, name: str, topics: tuple[str, str]
) -> None:
    names = {"source": source, "sink": sink, "none": f"{name}-none"}
    with pytest.raises(UnknownTopicOrPartition):
        real_bus.process(names[topics[0]], shout, names[topics[1]], until_end=True)


def test_a_batch_of_none_is_refused(real_bus: Bus, source: str, sink: str) -> None:
    with pytest.raises(InvalidRequest, match="batch_size"):
        real_bus.process(source, shout, sink, batch_size=0)


def test_a_record_that_the_sink_refuses_ends_it(real_bus: Bus, source: str, name: str) -> None:
    real_bus.create_topic(f"{name}-small", config={"max.message.bytes": "1000"})
    with pytest.raises(BarnabasError, match=r"(?i)too large"):
        real_bus.process(source, lambda _: bytes(5000), f"{name}-small", until_end=True)


# Failures on the way; each comes once, wherever it can


def _fails_once(monkeypatch: pytest.MonkeyPatch, kind: type, method: str, fail: Callable[..., None]) -> list[int]:
    """Have a method fail the second time it is called, as `fail` does, and work again after."""
    plain = getattr(kind, method)
    calls = [0]

    def failing(self: Any, *arguments: Any, **more: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            fail(lambda: plain(self, *arguments, **more))
        return plain(self, *arguments, **more)

    monkeypatch.setattr(kind, method, failing)
    return calls


def _in_doubt_and_committed(really: Callable[[], None]) -> None:
    really()
    raise TransactionInDoubt("no answer, though it was done")


def _in_doubt_and_lost(_really: Callable[[], None]) -> None:
    raise TransactionInDoubt("no answer, and it was not done")


def _aborted(_really: Callable[[], None]) -> None:
    raise TransactionAborted("aborted") from IllegalGeneration("moved on")


def _fenced(_really: Callable[[], None]) -> None:
    raise TransactionFenced("taken over")


@pytest.mark.parametrize("fail", [_in_doubt_and_committed, _in_doubt_and_lost, _aborted, _fenced])
def test_a_commit_that_fails_is_done_again_only_if_it_was_not_done(
    real_bus: Bus, source: str, sink: str, monkeypatch: pytest.MonkeyPatch, fail: Callable[..., None]
) -> None:
    calls = _fails_once(monkeypatch, _TransactionalProducer, "commit", fail)

    done = real_bus.process(source, shout, sink, batch_size=3, instance="one", until_end=True)

    assert calls[0] >= 4
    assert done.retries == 1
    assert found(real_bus, sink) == SHOUTED


def test_a_send_that_fails_half_way_leaves_nothing_behind(
    real_bus: Bus, source: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(really: Callable[[], None]) -> None:
        really()  # it is on its way, and must be taken back
        raise Unreachable("gone")

    _fails_once(monkeypatch, Transaction, "send", unreachable)

    done = real_bus.process(source, shout, sink, batch_size=5, until_end=True)

    assert done.retries == 1
    assert found(real_bus, sink) == SHOUTED


def test_another_producer_of_the_same_name_does_not_double_anything(
    real_bus: Bus, source: str, sink: str, name: str
) -> None:
    """Fenced between two batches, it takes its id back and goes on."""
    fenced: list[object] = []

    def fence_once(message: Message) -> bytes:
        if not fenced and message.offset >= 2:
            with Bus(real_bus.bootstrap) as other:
                fenced.append(other.abort_transaction(f"{name}-one"))
        return shout(message)

    done = real_bus.process(source, fence_once, sink, group=name, batch_size=2, instance="one", until_end=True)

    assert len(fenced) == 1
    assert done.retries >= 1
    assert found(real_bus, sink) == SHOUTED


def test_two_processors_share_the_partitions(real_bus: Bus, source: str, sink: str, name: str) -> None:
    stop = threading.Event()
    results: list[Processed] = []
    count = threading.Semaphore(0)

    def work() -> None:
        with Bus(real_bus.bootstrap) as bus:
            results.append(bus.process(source, noted, sink, group=name, batch_size=3, stop=stop))

    def noted(message: Message) -> bytes:
        count.release()
        return shout(message)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for number in range(10, 60):
            real_bus.send(source, b"%d" % number, key=b"k%d" % number).result(60)
        for _ in range(60):
            assert count.acquire(timeout=20)
    finally:
        stop.set()
        for worker in workers:
            worker.join(30)

    expected = sorted((b"k%d" % number, b"%d!" % number) for number in range(60))
    if sum(done.read for done in results) < 60:  # stopped before its last batch, which is still to be done
        real_bus.process(source, shout, sink, group=name, until_end=True)
    assert sorted(found(real_bus, sink)) == expected


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (Unreachable("x"), True),
        (IllegalGeneration("x"), True),
        (Refused("x", 14), True),
        (Refused("x", 999), False),
        (TopicExists("x"), False),
        (BarnabasError("x"), False),
    ],
)
def test_only_what_may_pass_is_tried_again(error: BarnabasError, passes: bool) -> None:
    assert may_pass(error) is passes
    for kind in (TransactionAborted, DeliveryFailed):
        wrapped = kind("wrapped")
        wrapped.__cause__ = error
        assert may_pass(wrapped) is passes
    assert not may_pass(RecordTooLarge("x"))
