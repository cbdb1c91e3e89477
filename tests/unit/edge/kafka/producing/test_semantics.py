"""Produce on a whole broker: what delivery semantics demand, and what idempotent producers may send."""

from typing import Any

import pytest

from barnabas.edge.kafka.producing import RefusedUnanswered
from barnabas.services.broker import Broker
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.producing.support import hold_flushes, records_of
from tests.unit.edge.kafka.support import create, run


def test_delivery_semantics_refuse_what_is_weaker() -> None:
    idempotent: dict[str, Any] = {"producer_id": 4, "producer_epoch": 0, "base_sequence": 0}

    async def scenario(broker: Broker) -> None:
        for name in ("at-most-once", "at-least-once", "exactly-once"):
            await create(broker, name, delivery_semantics=name)
        caller = Caller(broker)
        assert await caller.refusal("at-most-once", batch(), acks=1) == 0
        assert await caller.refusal("at-least-once", batch(), acks=1) == 44
        assert await caller.refusal("at-least-once", batch()) == 0
        assert await caller.refusal("exactly-once", batch()) == 44
        assert await caller.refusal("exactly-once", batch(**idempotent), acks=1) == 44
        assert await caller.refusal("exactly-once", batch(**idempotent)) == 0
        with pytest.raises(RefusedUnanswered):
            caller.produce("at-least-once", batch(), acks=0)

    run(scenario)


def idempotent(sequence: int, *values: bytes, producer_epoch: int = 0) -> bytes:
    return batch(*values, producer_id=7, producer_epoch=producer_epoch, base_sequence=sequence)


@pytest.mark.parametrize("settings", [{}, {"cleanup_policy": "compact"}], ids=str)
def test_a_retry_is_answered_with_where_the_records_are_and_not_written_again(settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        caller = Caller(broker)
        assert (await caller.produced("t", idempotent(0, b"a", b"b"))).base_offset == 0
        assert (await caller.produced("t", idempotent(2, b"c"))).base_offset == 2
        assert (await caller.produced("t", idempotent(0, b"a", b"b"))).base_offset == 0
        assert (await caller.produced("t", idempotent(2, b"c"), acks=1)).base_offset == 2
        assert len(records_of(broker, "t")) == 3

    run(scenario)


def test_a_retry_of_what_is_not_on_disk_yet_waits_for_that() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller, gate = Caller(broker), hold_flushes(broker)
        calls = [caller.produce("t", idempotent(n)) for n in range(3)]
        retry = caller.produce("t", idempotent(1))
        await gate.is_waited_for.wait()
        assert not retry.is_answered
        gate.is_open.set()
        assert (await retry.read()).responses[0].partition_responses[0].base_offset == 1
        assert [(await call.read()).responses[0].partition_responses[0].base_offset for call in calls] == [0, 1, 2]

    run(scenario)


def test_gaps_old_retries_and_old_epochs_are_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller = Caller(broker)
        for sequence in range(8):
            assert await caller.refusal("t", idempotent(sequence)) == 0
        assert await caller.refusal("t", idempotent(9)) == 45
        assert await caller.refusal("t", idempotent(0)) == 46
        assert await caller.refusal("t", idempotent(5, producer_epoch=1)) == 45
        assert await caller.refusal("t", idempotent(0, producer_epoch=1)) == 0
        assert await caller.refusal("t", idempotent(8)) == 47

    run(scenario)
