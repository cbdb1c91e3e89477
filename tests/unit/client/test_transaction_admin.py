# ruff: noqa: PT012 - what raises is the end of a transaction's block, so the block is in it
"""Transactions as an administrator sees and ends them, against a broker; and one that hangs, made behind its back."""

import asyncio
import time
from typing import Any

import pytest

from barnabas.client import Bus, TransactionFenced, Unreachable
from barnabas.client.cluster import Cluster
from barnabas.client.errors import Passing, check
from barnabas.client.settings import Settings
from barnabas.core.errors import (
    InvalidRequest,
    InvalidTxnState,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.testing.embedded import EmbeddedBroker

HANGING_PRODUCER = 987_654


def make_hanging(broker: EmbeddedBroker, topic: str, *, age_s: float, producer_id: int = HANGING_PRODUCER) -> None:
    """A transactional batch in the log that no coordinator was asked about."""
    at_ms = round((time.time() - age_s) * 1000)
    data = encode_batch(
        [Record(0, at_ms, None, b"hanging")],
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=0,
        is_transactional=True,
    )

    async def append() -> None:
        partition = broker._node.broker.served.get_partition(topic, 0)  # type: ignore[union-attr]
        partition.append(data, now_ms=at_ms)

    assert broker._loop is not None
    asyncio.run_coroutine_threadsafe(append(), broker._loop).result(60)


@pytest.fixture
def topic(real_bus: Bus, name: str) -> str:
    real_bus.create_topic(name, partitions=2)
    return name


def test_an_open_transaction_is_listed_and_described(real_bus: Bus, topic: str) -> None:
    with real_bus.transaction(topic, timeout=30) as tx:
        tx.send(topic, b"a", partition=0).result(60)
        tx.send(topic, b"b", partition=1).result(60)
        (listed,) = real_bus.transactions(pattern=topic)
        details = real_bus.describe_transaction(topic)
    (after,) = real_bus.transactions(pattern=topic)

    assert (listed.transactional_id, listed.state, listed.coordinator) == (topic, "Ongoing", 1)
    assert (details.state, details.producer_id, details.timeout_ms) == ("Ongoing", listed.producer_id, 30_000)
    assert details.partitions == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert details.start_ms is not None
    assert 0 <= (details.age_seconds or 0) < 30
    assert after.state == "CompleteCommit"


def test_a_listing_can_be_narrowed(real_bus: Bus, topic: str) -> None:
    def ids(**filters: Any) -> list[str]:
        return [each.transactional_id for each in real_bus.transactions(pattern=f"{topic}.*", **filters)]

    with real_bus.transaction(f"{topic}-done") as tx:
        tx.send(topic, b"a")
    with real_bus.transaction(f"{topic}-open") as tx:
        tx.send(topic, b"a").result(60)
        assert ids() == [f"{topic}-done", f"{topic}-open"]
        assert ids(states=["Ongoing"]) == [f"{topic}-open"]
        assert ids(states=["CompleteCommit", "Ongoing"]) == ids()
        assert ids(longer_than=0) == [f"{topic}-open"]
        assert ids(longer_than=3600) == []
        assert real_bus.transactions(pattern=topic) == []  # all of an id must match


@pytest.mark.parametrize("asked", [{"states": ["Nowhere"]}, {"pattern": "("}])
def test_a_filter_that_cannot_be_is_refused(real_bus: Bus, asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        real_bus.transactions(**asked)


def test_an_id_that_is_not_known_is_refused(real_bus: Bus, name: str) -> None:
    for ask in (real_bus.describe_transaction, real_bus.abort_transaction):
        with pytest.raises(TransactionalIdNotFound, match=f"transactional id '{name}' does not exist"):
            ask(name)


def test_a_transaction_is_aborted_and_its_producer_fenced(real_bus: Bus, topic: str) -> None:
    with pytest.raises(TransactionFenced), real_bus.transaction(topic) as tx:
        tx.send(topic, b"never").result(60)
        after = real_bus.abort_transaction(topic)

    assert after.state in ("CompleteAbort", "Empty")
    assert list(real_bus.consume(topic, until_end=True)) == []


def test_a_transaction_that_hangs_is_found_and_ended(broker: EmbeddedBroker, real_bus: Bus, topic: str) -> None:
    real_bus.send(topic, b"before", partition=0).result(60)
    make_hanging(broker, topic, age_s=2000)
    real_bus.send(topic, b"behind", partition=0).result(60)
    assert [message.value for message in real_bus.consume(topic, until_end=True)] == [b"before"]

    (hanging,) = real_bus.hanging_transactions(topic)
    ended = real_bus.abort_hanging_transaction(topic, 0, hanging.start_offset)

    assert (hanging.topic, hanging.partition, hanging.start_offset) == (topic, 0, 1)
    assert (hanging.producer_id, hanging.producer_epoch, hanging.transactional_id) == (HANGING_PRODUCER, 3, None)
    assert hanging.age_seconds > 1900
    assert ended.start_offset == 1
    assert real_bus.hanging_transactions(topic, older_than=0) == []
    assert [message.value for message in real_bus.consume(topic, until_end=True)] == [b"before", b"behind"]


def test_one_whose_id_is_known_and_elsewhere_hangs_too(broker: EmbeddedBroker, real_bus: Bus, topic: str) -> None:
    with real_bus.transaction(topic) as tx:
        tx.send(topic, b"a", partition=1).result(60)
        producer_id = real_bus.describe_transaction(topic).producer_id
        make_hanging(broker, topic, age_s=2000, producer_id=producer_id)
        (hanging,) = real_bus.hanging_transactions(topic, older_than=0)
        real_bus.abort_hanging_transaction(topic, 0, hanging.start_offset)

    assert (hanging.partition, hanging.producer_id, hanging.transactional_id) == (0, producer_id, topic)
    assert [message.value for message in real_bus.consume(topic, until_end=True)] == [b"a"]


def test_what_is_young_or_will_be_ended_does_not_hang(broker: EmbeddedBroker, real_bus: Bus, topic: str) -> None:
    with real_bus.transaction(topic) as tx:
        tx.send(topic, b"a", partition=0).result(60)
        assert real_bus.hanging_transactions(topic, older_than=0) == []
        with pytest.raises(InvalidTxnState, match=f"does not hang: abort '{topic}' instead"):
            real_bus.abort_hanging_transaction(topic, 0, 0)
    make_hanging(broker, topic, age_s=2000)
    assert real_bus.hanging_transactions(topic, older_than=3000) == []
    assert topic in {each.topic for each in real_bus.hanging_transactions()}
    real_bus.abort_hanging_transaction(topic, 0, 2)


def test_what_is_not_there_cannot_be_ended(real_bus: Bus, topic: str, name: str) -> None:
    with pytest.raises(InvalidTxnState, match="no transaction is open"):
        real_bus.abort_hanging_transaction(topic, 0, 5)
    with pytest.raises(UnknownTopicOrPartition):
        real_bus.abort_hanging_transaction(topic, 7, 0)
    with pytest.raises(UnknownTopicOrPartition):
        real_bus.hanging_transactions(f"{name}-none")


def test_nobody_there_is_said() -> None:
    with Bus("127.0.0.1:1", timeout=0.2) as bus, pytest.raises(Unreachable, match=r"cannot reach 127\.0\.0\.1:1 "):
        bus.transactions()


def test_a_coordinator_that_moves_is_asked_again_until_the_time_is_up() -> None:
    def moved() -> None:
        attempts.append(1)
        check(16, "ask")

    attempts: list[int] = []
    with pytest.raises(Exception, match="cannot ask") as refused:
        Cluster(Settings("127.0.0.1:1"), 0.15).trying(moved)
    assert len(attempts) >= 2
    assert not isinstance(refused.value, Passing)
