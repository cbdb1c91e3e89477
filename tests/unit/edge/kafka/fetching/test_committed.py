"""Fetch on a whole broker: what `read_committed` sees of transactions, and when."""

import asyncio
from typing import Any

import pytest

from barnabas.core.records.control import MarkerType
from barnabas.services.broker import Broker
from barnabas.wire.apis import FETCH
from tests.support.served import versions_of
from tests.unit.edge.kafka.calling import Caller
from tests.unit.edge.kafka.fetching.support import fill, is_parked, values_in
from tests.unit.edge.kafka.producing.support import hold_flushes
from tests.unit.edge.kafka.producing.transacting import PRODUCER, codes, end, part, partition_of, send, with_admission
from tests.unit.edge.kafka.support import create, run

VERSIONS = versions_of(FETCH)


async def durable(broker: Broker, end_offset: int) -> None:
    await broker.logs.flusher.wait_flushed(partition_of(broker).log, end_offset)


async def fetched(broker: Broker, offset: int = 0, **options: Any) -> Any:
    return await Caller(broker).fetched(("t", 0, offset), isolation_level=1, **options)


def data_in(partition: Any) -> list[bytes | None]:
    """The values that were fetched, without those of markers."""
    return [value for value in values_in(partition) if value is None or len(value) < 6]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_is_seen_when_its_marker_is_durable(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        with_admission(broker)
        await fill(broker, "t", b"a")
        assert await codes(send(Caller(broker), part(0, b"b"))) == [0]
        partition = await fetched(broker, version=version)
        assert (data_in(partition), partition.last_stable_offset, partition.high_watermark) == ([b"a"], 1, 2)
        gate = hold_flushes(broker)
        end_offset = end(broker, 1)
        await gate.is_waited_for.wait()
        partition = await fetched(broker, version=version)
        assert (data_in(partition), partition.last_stable_offset, partition.high_watermark) == ([b"a"], 1, 2)
        gate.is_open.set()
        await durable(broker, end_offset)
        partition = await fetched(broker, version=version)
        assert (data_in(partition), partition.last_stable_offset) == ([b"a", b"b"], 3)
        assert not partition.aborted_transactions

    run(scenario)


def test_aborted_transactions_are_listed_with_where_they_began() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        with_admission(broker)
        caller = Caller(broker)
        await codes(send(caller, part(0, b"gone")))
        await fill(broker, "t", b"plain")
        await codes(send(caller, part(1, b"gone")))
        await durable(broker, end(broker, 1, marker=MarkerType.ABORT))
        await codes(send(caller, part(0, b"kept", epoch=1)))
        await durable(broker, end(broker, 2))
        partition = await fetched(broker)
        assert data_in(partition) == [b"gone", b"plain", b"gone", b"kept"]  # a client leaves out what is aborted
        aborted = [(each.producer_id, each.first_offset) for each in partition.aborted_transactions]
        assert (aborted, partition.last_stable_offset) == ([(PRODUCER, 0)], 6)
        assert (await fetched(broker, 4)).aborted_transactions == ()
        assert (await Caller(broker).fetched(("t", 0, 0))).aborted_transactions is None

    run(scenario)


def test_a_poll_that_waits_for_committed_records_is_answered_by_the_marker() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        with_admission(broker)
        call = Caller(broker).fetch(("t", 0, 0), isolation_level=1, max_wait_ms=20_000)
        await codes(send(Caller(broker), part(0, b"a")))
        await asyncio.sleep(0)
        assert not call.is_answered
        assert is_parked(broker, "t")
        end(broker, 1)
        partition = (await call.read()).responses[0].partitions[0]
        assert (data_in(partition), partition.last_stable_offset) == ([b"a"], 2)

    run(scenario)
