"""Produce on a whole broker: batches in transactions, and when the coordinator is asked about them."""

import asyncio
from typing import Any

import pytest

from barnabas.core.errors import (
    ConcurrentTransactions,
    InvalidTxnState,
    NotCoordinator,
    ProducerFenced,
    TransactionAbortable,
)
from barnabas.core.model import TopicPartition
from barnabas.core.records.control import MarkerType, encode_marker
from barnabas.edge.kafka.producing import RefusedUnanswered
from barnabas.services.broker import Broker
from barnabas.wire.apis import PRODUCE
from tests.support.ports import NOW_MS
from tests.support.served import versions_of
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.producing.support import hold_flushes, patched, records_of
from tests.unit.edge.kafka.producing.transacting import (
    ID,
    PRODUCER,
    codes,
    end,
    has_guards,
    part,
    partition_of,
    send,
    with_admission,
)
from tests.unit.edge.kafka.support import create, run

VERSIONS = versions_of(PRODUCE)
MUST_OPEN: list[dict[str, Any]] = [{}, {"cleanup_policy": "compact"}]


@pytest.mark.parametrize("settings", MUST_OPEN, ids=str)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_coordinator_is_asked_once_about_a_transaction_in_a_partition(
    version: int, settings: dict[str, Any]
) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        caller, admission = Caller(broker), with_admission(broker)
        assert await codes(send(caller, part(0, b"a"), version=version)) == [0]
        assert await codes(send(caller, part(1, b"b"), version=version)) == [0]
        assert admission.asked == [(ID, PRODUCER, 0, (TopicPartition("t", 0),), version >= 12)]
        assert [record.value for record in records_of(broker, "t")] == [b"a", b"b"]
        assert not has_guards(broker)

    run(scenario)


def test_what_is_in_an_open_transaction_is_appended_at_once() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2, flush_policy="os")
        caller, admission = Caller(broker), with_admission(broker)
        assert not (first := send(caller, part(0))).is_answered
        assert await codes(first) == [0]
        assert send(caller, part(1)).is_answered
        assert not (mixed := send(caller, part(2), part(0))).is_answered
        assert await codes(mixed) == [0, 0]
        assert send(caller, part(3), part(1)).is_answered
        assert [names for *_, names, _ in admission.asked] == [(("t", 0),), (("t", 1),)]

    run(scenario)


def test_one_question_covers_all_partitions_of_a_request() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=3)
        caller, admission = Caller(broker), with_admission(broker)
        admission.refuse(InvalidTxnState("not added"), partition=1)
        assert await codes(send(caller, part(0), part(0), part(0), part(0))) == [0, 48, 0, 3]
        assert [names for *_, names, _ in admission.asked] == [(("t", 0), ("t", 1), ("t", 2))]
        assert [partition_of(broker, n).has_log for n in range(3)] == [True, False, True]

    run(scenario)


def test_acks_all_waits_for_the_disk_after_the_coordinator_too() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        with_admission(broker)
        caller, gate = Caller(broker), hold_flushes(broker)
        call = send(caller, part(0))
        await gate.is_waited_for.wait()
        assert not call.is_answered
        assert not has_guards(broker)
        gate.is_open.set()
        assert await codes(call) == [0]

    run(scenario)


@pytest.mark.parametrize("settings", MUST_OPEN, ids=str)
def test_a_retry_is_answered_without_asking_until_its_transaction_is_over(settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        caller, admission = Caller(broker), with_admission(broker)
        await codes(send(caller, part(0)))
        response = await send(caller, part(0)).read()
        assert response.responses[0].partition_responses[0].base_offset == 0
        assert len(admission.asked) == 1
        end(broker, 0, version=1)
        assert await codes(send(caller, part(0))) == [45]  # with the numbers of the first, but not a retry of it
        assert await codes(send(caller, part(1))) == [0]
        assert len(admission.asked) == 3

    run(scenario)


def test_a_topic_of_exactly_once_takes_transactions_with_acks_of_all() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", delivery_semantics="exactly-once")
        with_admission(broker)
        caller = Caller(broker)
        assert await codes(send(caller, part(0))) == [0]
        assert await codes(send(caller, part(1), acks=1)) == [44]

    run(scenario)


def test_batches_outside_of_the_transaction_need_no_coordinator() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        caller = Caller(broker)
        assert await codes(send(caller, batch())) == [0]
        admission = with_admission(broker)
        assert await codes(send(caller, batch(), part(0))) == [0, 0]
        assert [names for *_, names, _ in admission.asked] == [(("t", 1),)]

    run(scenario)


# What is refused


CONTROL = encode_marker(
    MarkerType.COMMIT, producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS
)
BAD: dict[str, tuple[bytes | None, int]] = {
    "no producer": (part(0, producer_id=-1, epoch=-1), 87),
    "a negative producer": (part(0, producer_id=-5), 87),
    "no epoch": (part(0, epoch=-1), 87),
    "no sequence": (part(-1), 87),
    "a marker": (bytes(CONTROL), 87),
    "nothing": (None, 87),
    "a header cut off": (part(0)[:50], 87),
    "magic 1": (part(0)[:16] + b"\x01" + part(0)[17:], 43),
    "a length of 0": (part(0)[:8] + bytes(4) + part(0)[12:], 87),
}


@pytest.mark.parametrize("settings", MUST_OPEN, ids=str)
@pytest.mark.parametrize(("records", "code"), BAD.values(), ids=BAD)
def test_bad_batches_are_refused_and_the_coordinator_hears_nothing_of_them(
    records: bytes | None, code: int, settings: dict[str, Any]
) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        caller, admission = Caller(broker), with_admission(broker)
        assert await codes(send(caller, records)) == [code]
        assert admission.asked == []
        assert records_of(broker, "t") == []

    run(scenario)


def test_a_damaged_batch_opens_no_transaction() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        with_admission(broker)
        caller = Caller(broker)
        assert await codes(send(caller, part(0)[:-1] + b"?")) == [2]
        assert await codes(send(caller, patched(part(0), 57, bytes(4)))) == [87]
        assert partition_of(broker).log.producers.open_transactions == {}
        assert not has_guards(broker)

    run(scenario)


@pytest.mark.parametrize("settings", MUST_OPEN, ids=str)
@pytest.mark.parametrize("version", [3, 9, 12, 13])
def test_a_transactional_batch_needs_a_transactional_id(version: int, settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2, **settings)
        caller, admission = Caller(broker), with_admission(broker)
        assert await codes(send(caller, part(0), transactional_id=None, version=version)) == [53]
        assert await codes(send(caller, part(0), batch(), transactional_id=None, version=version)) == [53, 0]
        assert admission.asked == []

    run(scenario)


@pytest.mark.parametrize("other", [{"producer_id": 8}, {"epoch": 1}], ids=str)
def test_a_request_has_one_transactional_producer(other: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=3)
        caller, admission = Caller(broker), with_admission(broker)
        assert await codes(send(caller, part(0), part(0, **other), batch())) == [49, 49, 49]
        with pytest.raises(RefusedUnanswered):
            send(caller, part(0), part(0, **other), acks=0)
        assert admission.asked == []
        assert not partition_of(broker, 2).has_log

    run(scenario)


def test_the_brokers_own_topics_are_never_made_part_of_a_transaction_by_a_produce() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "__consumer_offsets")
        caller, admission = Caller(broker), with_admission(broker)
        call = caller.produce("__consumer_offsets", part(0), transactional_id=ID)
        assert await codes(call) == [17]
        assert admission.asked == []

    run(scenario)


@pytest.mark.parametrize(
    ("error", "version", "code"),
    [
        (NotCoordinator("x"), 12, 19),
        (ProducerFenced("x"), 12, 47),
        (TransactionAbortable("x"), 10, 48),
        (TransactionAbortable("x"), 11, 120),
        (ConcurrentTransactions("x"), 11, 19),
    ],
)
@pytest.mark.parametrize("settings", MUST_OPEN, ids=str)
def test_the_coordinators_refusals_reach_the_client(
    error: Any, version: int, code: int, settings: dict[str, Any]
) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        caller, admission = Caller(broker), with_admission(broker)
        admission.refuse(error)
        assert await codes(send(caller, part(0), version=version)) == [code]
        assert len(admission.asked) == 1
        assert not has_guards(broker)
        assert await codes(send(caller, part(0), version=version)) == [0]

    run(scenario)


def test_an_acks_0_that_the_coordinator_refuses_closes_the_connection() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller, admission = Caller(broker), with_admission(broker)
        admission.refuse(InvalidTxnState("no"))
        with pytest.raises(RefusedUnanswered):
            await send(caller, part(0), acks=0).bytes()
        assert await send(caller, part(0), acks=0).bytes() == b""

    run(scenario)


def test_the_end_of_the_last_transaction_is_waited_for_a_moment() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller, admission = Caller(broker), with_admission(broker)
        admission.refuse(ConcurrentTransactions("still ending"), times=2)
        assert await codes(send(caller, part(0), version=12)) == [0]
        assert len(admission.asked) == 3
        admission.refuse(ConcurrentTransactions("still ending"), times=100)
        assert await codes(send(caller, part(0, epoch=1), version=12)) == [51]
        assert len(admission.asked) < 20

    run(scenario)


# While the coordinator is asked


@pytest.mark.parametrize("settings", MUST_OPEN, ids=str)
def test_a_transaction_that_is_ended_while_the_coordinator_is_asked_is_not_begun_again(
    settings: dict[str, Any],
) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        caller, admission = Caller(broker), with_admission(broker)
        admission.hold()
        call = send(caller, part(0), version=11)
        await admission.is_asked.wait()
        end(broker, 0, version=1, marker=MarkerType.ABORT)
        admission.go_on()
        assert await codes(call) == [48]
        assert partition_of(broker).log.producers.open_transactions == {}
        assert not has_guards(broker)

    run(scenario)


def test_a_transaction_that_is_ended_under_a_new_epoch_meanwhile_is_fenced() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller, admission = Caller(broker), with_admission(broker)
        admission.hold()
        call = send(caller, part(0))
        await admission.is_asked.wait()
        end(broker, 1, marker=MarkerType.ABORT)
        admission.go_on()
        assert await codes(call) == [47]
        assert await codes(send(caller, part(0))) == [47]
        assert len(admission.asked) == 1

    run(scenario)


def test_the_late_marker_of_the_last_transaction_does_not_end_the_next() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller, admission = Caller(broker), with_admission(broker)
        assert await codes(send(caller, part(0, b"first"))) == [0]
        admission.hold()
        admission.is_asked.clear()
        call = send(caller, part(0, b"second", epoch=1))
        await admission.is_asked.wait()
        end(broker, 1)
        admission.go_on()
        assert await codes(call) == [0]
        assert partition_of(broker).log.producers.open_transactions == {2: PRODUCER}

    run(scenario)


def test_a_transaction_that_is_ended_while_its_batch_is_opened_is_not_begun_again() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", cleanup_policy="compact")
        caller = Caller(broker)
        with_admission(broker)
        assert await codes(send(caller, part(0))) == [0]

        class Ending:
            async def run(self, function: Any) -> Any:
                end(broker, 0, version=1)
                return function()

        broker.produce._offload = Ending()
        assert await codes(send(caller, part(1))) == [48]
        assert partition_of(broker).log.producers.open_transactions == {}

    run(scenario)


def test_two_connections_may_ask_about_the_same_transaction() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller, admission = Caller(broker), with_admission(broker)
        admission.hold()
        first, second = send(caller, part(0)), send(Caller(broker), part(1))
        await admission.is_asked.wait()
        await asyncio.sleep(0)
        assert has_guards(broker)
        admission.go_on()
        assert [await codes(first), await codes(second)] == [[0], [0]]
        assert not has_guards(broker)

    run(scenario)


def test_a_client_that_leaves_while_the_coordinator_is_asked_leaves_no_guard() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller, admission = Caller(broker), with_admission(broker)
        admission.hold()
        call = send(caller, part(0))
        await admission.is_asked.wait()
        assert call._work is not None
        call._work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call._work
        assert not has_guards(broker)

    run(scenario)


def test_a_coordinator_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.services.produce.ADMISSION_TIMEOUT_S", 0.01)

    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller, admission = Caller(broker), with_admission(broker)
        admission.hold()
        assert await codes(send(caller, part(0))) == [19]
        assert not has_guards(broker)

    run(scenario)


def test_a_coordinator_that_refuses_everything_is_heard_for_each_partition() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)

        class Refusing:
            async def admit(self, *_args: Any, **_options: Any) -> Any:
                raise ProducerFenced("replaced")

        broker.produce.admission = Refusing()
        assert await codes(send(Caller(broker), part(0), part(0))) == [47, 47]

    run(scenario)


def test_a_topic_deleted_while_the_coordinator_is_asked_is_unknown() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller, admission = Caller(broker), with_admission(broker)
        admission.hold()
        call = send(caller, part(0))
        await admission.is_asked.wait()
        await broker.topics.delete("t")
        admission.go_on()
        assert await codes(call) == [3]

    run(scenario)
