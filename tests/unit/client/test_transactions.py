# ruff: noqa: PT012 - what raises is the end of a transaction's block, so the block is in it
"""Transactions of the bus against a broker: what a block commits, aborts, and says when it cannot."""

import contextlib
import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client import (
    Bus,
    Message,
    TransactionAborted,
    TransactionalReader,
    TransactionFenced,
    TransactionInDoubt,
    TransactionTimedOut,
)
from barnabas.core.errors import (
    BarnabasError,
    InvalidConfig,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    RecordTooLarge,
)
from barnabas.testing.embedded import EmbeddedBroker

TIMEOUT_S = 60.0


class _Mishap(Exception):
    """What a block of a test raises."""


@contextlib.contextmanager
def reading(bus: Bus, topic: str, group: str, **more: Any) -> Iterator[TransactionalReader]:
    reader = bus.consume(topic, group=group, mode="transactional", timeout=TIMEOUT_S, **more)
    assert isinstance(reader, TransactionalReader)
    with contextlib.closing(reader):
        yield reader


def seen(bus: Bus, topic: str) -> list[bytes | None]:
    return sorted((message.value for message in bus.consume(topic, until_end=True)), key=lambda value: value or b"")


def filled(bus: Bus, topic: str, count: int, partitions: int = 1) -> list[bytes]:
    values = [b"%d" % number for number in range(count)]
    bus.create_topic(topic, partitions=partitions)
    for number, value in enumerate(values):
        bus.send(topic, value, key=b"k", partition=number % partitions)
    bus.flush(60)
    return values


def committed(bus: Bus, group: str) -> dict[int, int | None]:
    return {each.partition: each.offset for each in bus.describe_group(group).partitions}


def test_what_a_block_sends_is_seen_at_its_end_as_it_was_sent(real_bus: Bus, name: str) -> None:
    real_bus.create_topic(name, partitions=2)
    with real_bus.transaction(name) as tx:
        place = tx.send(name, "v", key="k", partition=1, headers={"h": b"1"}, timestamp_ms=1234).result(60)
        tx.send(name, None, key=b"gone", partition=0)
        assert seen(real_bus, name) == []

    found = {message.partition: message for message in real_bus.consume(name, until_end=True)}

    assert (place.partition, place.offset) == (1, 0)
    assert (found[1].key, found[1].value, found[1].headers) == (b"k", b"v", (("h", b"1"),))
    assert found[1].timestamp_ms == 1234
    assert (found[0].key, found[0].value) == (b"gone", None)


def test_a_block_that_raises_leaves_nothing_and_the_next_one_goes_on(real_bus: Bus, name: str) -> None:
    real_bus.create_topic(name)
    with pytest.raises(_Mishap), real_bus.transaction(name) as tx:
        tx.send(name, b"never").result(60)
        tx.send(name, b"nor this")
        raise _Mishap
    with real_bus.transaction(name) as tx:
        tx.send(name, b"seen")

    assert seen(real_bus, name) == [b"seen"]


def test_an_empty_block_is_fine(real_bus: Bus, name: str) -> None:
    with real_bus.transaction(name):
        pass


def test_one_transaction_of_an_id_at_a_time(real_bus: Bus, name: str) -> None:
    with (
        real_bus.transaction(name),
        pytest.raises(InvalidRequest, match="open already"),
        real_bus.transaction(name),
    ):
        pass
    with real_bus.transaction(name):
        pass


def test_nothing_is_sent_after_the_block(real_bus: Bus, name: str) -> None:
    real_bus.create_topic(name)
    with real_bus.transaction(name) as tx:
        pass
    with pytest.raises(InvalidTxnState, match="has ended"):
        tx.send(name, b"late")


def test_a_record_that_cannot_be_sent_aborts_all(real_bus: Bus, name: str) -> None:
    real_bus.create_topic(name)
    with pytest.raises(RecordTooLarge), real_bus.transaction(name) as tx:
        tx.send(name, b"small")
        tx.send(name, bytes(120_000_000))

    assert seen(real_bus, name) == []


def test_a_record_that_the_broker_refuses_aborts_all(real_bus: Bus, name: str) -> None:
    real_bus.create_topic(name, config={"max.message.bytes": "1000"})
    with pytest.raises(TransactionAborted, match=r"(?i)too large") as aborted, real_bus.transaction(name) as tx:
        tx.send(name, b"small").result(60)
        tx.send(name, bytes(5000))

    assert isinstance(aborted.value.__cause__, RecordTooLarge)
    assert seen(real_bus, name) == []
    with real_bus.transaction(name) as tx:
        tx.send(name, b"next")
    assert seen(real_bus, name) == [b"next"]


def test_whoever_opens_the_same_id_fences_the_one_before(broker: EmbeddedBroker, real_bus: Bus, name: str) -> None:
    real_bus.create_topic(name)
    with Bus(broker.bootstrap) as other:
        with (
            pytest.raises(TransactionFenced, match=f"another producer took over the transactional id '{name}'"),
            real_bus.transaction(name) as tx,
        ):
            tx.send(name, b"zombie").result(60)
            with other.transaction(name) as newer:
                newer.send(name, b"newer")
        with real_bus.transaction(name) as tx:  # and back again
            tx.send(name, b"newest")

    assert seen(real_bus, name) == [b"newer", b"newest"]


def test_sending_when_fenced_says_so(broker: EmbeddedBroker, real_bus: Bus, name: str) -> None:
    real_bus.create_topic(name)

    def send_on() -> None:
        with real_bus.transaction(name) as tx, Bus(broker.bootstrap) as other:
            tx.send(name, b"zombie").result(60)
            other.abort_transaction(name)
            deadline = time.monotonic() + TIMEOUT_S
            while time.monotonic() < deadline:
                with contextlib.suppress(BarnabasError):
                    tx.send(name, b"zombie").result(60)
                tx.send(name, b"zombie")

    with pytest.raises((TransactionFenced, TransactionAborted)):
        send_on()
    assert seen(real_bus, name) == []


def test_a_block_that_takes_longer_than_its_timeout_is_ended(real_bus: Bus, name: str) -> None:
    real_bus.create_topic(name)
    with (
        pytest.raises(TransactionTimedOut, match=r"the cluster ends it after 1 s"),
        real_bus.transaction(name, timeout=1) as tx,
    ):
        tx.send(name, b"late").result(60)
        deadline = time.monotonic() + TIMEOUT_S
        while real_bus.describe_transaction(name).state != "CompleteAbort":
            assert time.monotonic() < deadline
            time.sleep(0.05)
    with real_bus.transaction(name, timeout=1) as tx:
        tx.send(name, b"in time")

    assert seen(real_bus, name) == [b"in time"]


@pytest.mark.parametrize(("timeout", "error"), [(100_000, InvalidTransactionTimeout), (0, InvalidConfig)])
def test_a_timeout_that_cannot_be_is_refused(
    real_bus: Bus, name: str, timeout: float, error: type[BarnabasError]
) -> None:
    with pytest.raises(error), real_bus.transaction(name, timeout=timeout):
        pass


def test_an_empty_id_is_refused(real_bus: Bus) -> None:
    with pytest.raises(InvalidRequest, match="must not be empty"), real_bus.transaction(""):
        pass


def test_a_closed_bus_opens_no_transaction(broker: EmbeddedBroker, name: str) -> None:
    with Bus(broker.bootstrap) as bus:
        pass
    with pytest.raises(BarnabasError, match="closed"), bus.transaction(name):
        pass


# Offsets


def test_offsets_are_committed_with_the_records(real_bus: Bus, name: str) -> None:
    values = filled(real_bus, name, 5)
    real_bus.create_topic(f"{name}-out")
    with reading(real_bus, name, name, max_records=3) as reader:
        for message in reader:
            with real_bus.transaction(name) as tx:
                tx.commit_offsets(reader)
                tx.send(f"{name}-out", message.value)

    assert seen(real_bus, f"{name}-out") == values[:3]
    assert committed(real_bus, name) == {0: 3}


def test_a_transactional_reader_commits_nothing_by_itself(real_bus: Bus, name: str) -> None:
    filled(real_bus, name, 5)
    for _ in range(2):
        with reading(real_bus, name, name, until_end=True) as reader:
            assert len(list(reader)) == 5


def test_an_abort_has_the_records_read_again(real_bus: Bus, name: str) -> None:
    values = filled(real_bus, name, 6)
    real_bus.create_topic(f"{name}-out")
    attempts: list[list[bytes | None]] = []
    with reading(real_bus, name, name, until_end=True) as reader:
        with real_bus.transaction(name) as tx:
            tx.commit_offsets(reader)
            assert next(reader).value == values[0]
        for fails_at in (b"2", b"5", b"none"):
            attempts.append([])
            with contextlib.suppress(_Mishap), real_bus.transaction(name) as tx:
                tx.commit_offsets(reader)
                for message in reader:
                    attempts[-1].append(message.value)
                    tx.send(f"{name}-out", message.value)
                    if message.value == fails_at:
                        raise _Mishap

    assert attempts == [values[1:3], values[1:], values[1:]]
    assert seen(real_bus, f"{name}-out") == values[1:]
    assert committed(real_bus, name) == {0: 6}


def test_an_abort_keeps_the_number_of_records_that_was_asked_for(real_bus: Bus, name: str) -> None:
    values = filled(real_bus, name, 6)
    with reading(real_bus, name, name, max_records=4) as reader:
        with contextlib.suppress(_Mishap), real_bus.transaction(name) as tx:
            tx.commit_offsets(reader)
            assert [next(reader).value, next(reader).value] == values[:2]
            raise _Mishap
        assert [message.value for message in reader] == values[:4]


def test_a_rewind_gives_every_partition_in_its_order_and_none_twice(real_bus: Bus, name: str) -> None:
    filled(real_bus, name, 40, partitions=4)
    kept: list[Message] = []
    attempt = 0
    with reading(real_bus, name, name, until_end=True) as reader:
        while len(kept) < 40:
            attempt += 1
            with contextlib.suppress(_Mishap), real_bus.transaction(name) as tx:
                tx.commit_offsets(reader)
                taken = list(itertools.islice(reader, 7))
                if attempt % 2:
                    raise _Mishap
                kept += taken

    for partition in range(4):
        assert [each.offset for each in kept if each.partition == partition] == list(range(10))
    assert committed(real_bus, name) == dict.fromkeys(range(4), 10)


def test_offsets_of_partitions_that_were_taken_away_are_not_committed(
    broker: EmbeddedBroker, real_bus: Bus, name: str
) -> None:
    filled(real_bus, name, 20, partitions=2)
    real_bus.create_topic(f"{name}-out")
    with reading(real_bus, name, name) as reader, Bus(broker.bootstrap) as other_bus:

        def lose_a_partition() -> None:
            with real_bus.transaction(name) as tx, reading(other_bus, name, name) as other:
                tx.commit_offsets(reader)
                tx.send(f"{name}-out", next(reader).value)
                for _ in range(40):  # joining takes both to poll; what comes does not matter
                    reader._open().next_chunk(1, 0.05)
                    other._open().next_chunk(1, 0.05)

        with pytest.raises(TransactionAborted, match=r"(?i)another member|rebalanc|generation"):
            lose_a_partition()
    assert seen(real_bus, f"{name}-out") == []


def test_a_member_that_was_replaced_cannot_commit(broker: EmbeddedBroker, real_bus: Bus, name: str) -> None:
    """It has not heard of it: only the cluster knows (KIP-447)."""
    filled(real_bus, name, 5)
    real_bus.create_topic(f"{name}-out")
    config = {"group.instance.id": name}
    with (
        Bus(broker.bootstrap, config=config) as one,
        Bus(broker.bootstrap, config=config) as two,
        reading(one, name, name) as zombie,
        reading(two, name, name) as newer,
    ):
        assert next(zombie).value == b"0"
        assert next(newer).value == b"0"
        with pytest.raises(BarnabasError, match=r"(?i)fenced|static") as refused, one.transaction(name) as tx:
            tx.commit_offsets(zombie)
            tx.send(f"{name}-out", b"zombie")
        assert not isinstance(refused.value, TransactionInDoubt)
        with two.transaction(f"{name}-2") as tx:
            tx.commit_offsets(newer)
            tx.send(f"{name}-out", b"newer")

    assert seen(real_bus, f"{name}-out") == [b"newer"]


def test_only_a_transactional_reader_has_offsets_to_commit(real_bus: Bus, name: str) -> None:
    filled(real_bus, name, 1)
    with pytest.raises(InvalidRequest, match='mode="transactional"'), real_bus.transaction(name) as tx:
        tx.commit_offsets(real_bus.consume(name, group=name))


def test_a_reader_that_was_closed_has_none_either(real_bus: Bus, name: str) -> None:
    filled(real_bus, name, 1)
    with reading(real_bus, name, name) as reader:
        next(reader)
    assert list(reader) == []
    with pytest.raises(TransactionAborted, match="closed"), real_bus.transaction(name) as tx:
        tx.commit_offsets(reader)
