"""Produce on a whole broker: when it is acknowledged, and what happens when it cannot be."""

import asyncio

import pytest

from barnabas.core.errors import StorageError
from barnabas.edge.kafka.producing import RefusedUnanswered
from barnabas.runtime.partition import Partition
from barnabas.runtime.replica import Replication
from barnabas.services.broker import Broker
from barnabas.wire.apis import PRODUCE
from tests.support.served import versions_of
from tests.unit.edge.kafka.calling import NAMED, Caller, batch
from tests.unit.edge.kafka.producing.support import hold_flushes, records_of
from tests.unit.edge.kafka.support import create, run

VERSIONS = versions_of(PRODUCE)
NOT_ENOUGH_REPLICAS = 19


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_answered_with_where_the_records_are(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller = Caller(broker)
        first = await caller.produced("t", batch(b"a", b"b"), version=version)
        second = await caller.produced("t", batch(b"c"), version=version, acks=1)
        assert (first.error_code.value, first.base_offset, second.base_offset) == (0, 0, 2)
        assert getattr(first, "log_start_offset", 0) == 0
        assert first.log_append_time is None
        assert [record.value for record in records_of(broker, "t")] == [b"a", b"b", b"c"]

    run(scenario)


def test_acks_all_is_answered_only_when_the_records_are_on_disk() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller, gate = Caller(broker), hold_flushes(broker)
        waiting = caller.produce("t", batch())
        pipelined = caller.produce("t", batch())
        at_once = caller.produce("t", batch(), acks=1)
        await gate.is_waited_for.wait()
        assert [call.is_answered for call in (waiting, pipelined, at_once)] == [False, False, True]
        assert broker.served.get_partition("t", 0).high_watermark == 0
        gate.is_open.set()
        assert (await waiting.read()).responses[0].partition_responses[0].base_offset == 0
        assert (await pipelined.read()).responses[0].partition_responses[0].base_offset == 1
        assert broker.served.get_partition("t", 0).high_watermark == 3

    run(scenario)


def test_acks_all_of_a_topic_that_leaves_flushing_to_the_system_waits_for_nothing() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", flush_policy="os")
        hold_flushes(broker)
        call = Caller(broker).produce("t", batch())
        assert call.is_answered

    run(scenario)


def test_acks_0_gets_no_answer() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await create(broker, "compacted", cleanup_policy="compact")
        for topic in ("t", "compacted"):
            assert await Caller(broker).produce(topic, batch(), acks=0).bytes() == b""
            assert len(records_of(broker, topic)) == 1

    run(scenario)


def test_acks_0_that_is_refused_closes_the_connection() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "compacted", cleanup_policy="compact")
        with pytest.raises(RefusedUnanswered):
            Caller(broker).produce("missing", batch(), acks=0)
        with pytest.raises(RefusedUnanswered):
            await Caller(broker).produce("compacted", batch(key=None), acks=0).bytes()

    run(scenario)


@pytest.mark.parametrize("acks", [2, -2, 32767, -32768])
def test_other_acks_are_refused(acks: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await create(broker, "compacted", cleanup_policy="compact")
        assert await Caller(broker).refusal("t", batch(), acks=acks) == 21
        assert await Caller(broker).refusal("compacted", batch(), acks=acks) == 21
        assert records_of(broker, "t") == []

    run(scenario)


def test_a_flush_that_hangs_is_answered_as_timed_out_and_heard_of_no_more() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        await create(broker, "compacted", cleanup_policy="compact")
        gate = hold_flushes(broker)
        caller = Caller(broker)
        assert await caller.refusal("t", batch(), timeout_ms=10) == 7
        assert await caller.refusal("compacted", batch(), timeout_ms=10) == 7
        assert await caller.refusal("t", batch(), timeout_ms=-5) == 7
        assert not broker.served.get_partition("t", 0)._acks  # nobody is left to be told
        gate.is_open.set()
        assert await caller.refusal("t", batch()) == 0
        assert len(records_of(broker, "t")) == 3

    run(scenario)


def test_partitions_acknowledged_before_the_timeout_are_not_timed_out() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        await create(broker, "os", flush_policy="os")
        hold_flushes(broker)
        caller = Caller(broker)
        data = [{"index": 0, "records": batch()}]
        topics = [{"name": "t", "partition_data": data}, {"name": "os", "partition_data": data}]
        response = await caller.request(PRODUCE, 9, acks=-1, timeout=10, topic_data=topics).read()
        assert [topic.partition_responses[0].error_code.value for topic in response.responses] == [7, 0]

    run(scenario)


def test_a_disk_that_fails_fails_whoever_waits() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        gate = hold_flushes(broker)
        call = Caller(broker).produce("t", batch())
        await gate.is_waited_for.wait()
        broker.logs.note_failed(broker.served.get_partition("t", 0).log, StorageError("broken"))
        assert (await call.read()).responses[0].partition_responses[0].error_code.value == 56
        gate.is_open.set()

    run(scenario)


def test_a_topic_deleted_while_its_producers_wait_tells_them() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        gate = hold_flushes(broker)
        call = Caller(broker).produce("t", batch())
        await gate.is_waited_for.wait()
        await broker.topics.delete("t")
        assert (await call.read()).responses[0].partition_responses[0].error_code.value == 3
        gate.is_open.set()

    run(scenario)


def test_a_callback_that_is_called_twice_counts_once() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        gate = hold_flushes(broker)
        call = Caller(broker).produce("t", batch(), batch())
        acks = broker.served.get_partition("t", 0)._acks
        assert acks is not None
        (_, callback) = acks._waiting[0]
        callback(None)
        callback(None)
        await asyncio.sleep(0)
        assert not call.is_answered
        gate.is_open.set()
        assert len((await call.read()).responses[0].partition_responses) == 2

    run(scenario)


def test_min_insync_replicas_counts_as_far_as_there_are_replicas() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", min_insync_replicas="2")
        assert await Caller(broker).refusal("t", batch()) == 0

    run(scenario)


def lead_one_of_three(partition: Partition, *isr: int) -> None:
    partition.lead(partition.leader_epoch, Replication(1, (1, 2, 3), isr, 0, 2))


@pytest.mark.parametrize("compression_type", ["producer", "lz4"])
def test_acks_all_is_refused_before_the_append_while_too_few_are_in_sync(compression_type: str) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", compression_type=compression_type)
        partition = broker.served.get_partition("t", 0)
        lead_one_of_three(partition, 1)
        caller = Caller(broker)
        assert await caller.refusal("t", batch()) == NOT_ENOUGH_REPLICAS
        assert not partition.has_log
        assert await caller.refusal("t", batch(), acks=1) == 0
        assert await caller.refusal("t", batch()) == NOT_ENOUGH_REPLICAS
        assert partition.end_offset == 1

    run(scenario)


def test_acks_all_is_refused_when_replicas_fall_behind_while_a_batch_is_opened() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", compression_type="lz4")
        partition = broker.served.get_partition("t", 0)
        lead_one_of_three(partition, 1, 2)
        call = Caller(broker).produce("t", batch())
        lead_one_of_three(partition, 1)
        assert (await call.read()).responses[0].partition_responses[0].error_code.value == NOT_ENOUGH_REPLICAS
        assert not partition.has_log

    run(scenario)


def test_no_partition_keeps_waiters_when_all_is_answered() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        for _ in range(5):
            assert await Caller(broker).refusal("t", batch(), version=NAMED) == 0
        assert not broker.served.get_partition("t", 0)._acks

    run(scenario)
