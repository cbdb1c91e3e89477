"""Backoff of share groups: what comes back waits, and does not stand in the way of what is new."""

import asyncio

from barnabas.services.broker import Broker
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.handlers.sharing import QUICK, RELEASE, Member, ack_code, begin, pass_time, set_group
from tests.unit.edge.kafka.support import produce, run


async def release(member: Member, first: int, last: int) -> None:
    assert ack_code(await member.acknowledge({0: [(first, last, [RELEASE])]})) == 0


def test_a_released_record_waits_twice_as_long_after_each_delivery() -> None:
    async def scenario(broker: Broker) -> None:
        loop = asyncio.get_running_loop()
        await set_group(broker, share__retry__backoff__ms="1000", share__retry__backoff__max__ms="3000")
        member = await begin(broker, records=1)
        assert await member.acquire() == [(0, 0, 1)]
        for count, longest_s in ((2, 1.0), (3, 2.0), (4, 3.0), (5, 3.0)):
            await release(member, 0, 0)
            began = loop.time()
            assert await member.acquire() == []
            assert await member.acquire(max_wait=10_000) == [(0, 0, count)]
            assert longest_s * 0.8 - 0.01 <= loop.time() - began <= longest_s + 0.01

    run(scenario, QUICK, is_virtual=True)


def test_what_waits_does_not_hold_up_what_is_new() -> None:
    async def scenario(broker: Broker) -> None:
        await set_group(broker, share__retry__backoff__ms="60000")
        member = await begin(broker, records=2)
        assert await member.acquire() == [(0, 1, 1)]
        await release(member, 0, 1)
        await produce(broker, "t", NOW_MS)
        assert await member.acquire() == [(2, 2, 1)]

    run(scenario, QUICK, is_virtual=True)


def test_a_record_whose_lock_runs_out_and_one_whose_member_goes_wait_as_well() -> None:
    async def scenario(broker: Broker) -> None:
        await set_group(broker, share__retry__backoff__ms="10000")
        member, other = await begin(broker, records=1, batches=2), Member(broker, "other")
        assert await member.acquire(max_records=1) == [(0, 0, 1)]
        assert await other.acquire(max_records=1) == [(1, 1, 1)]
        await other.fetch(epoch=-1)
        await pass_time(6)  # the lock of the first one was of 5 s
        assert await member.acquire() == []
        assert sum(led.waiting for led in broker.shares.led.of_group("g")) == 2
        await pass_time(10)
        assert await member.acquire() == [(0, 1, 2)]

    run(scenario, QUICK, is_virtual=True)


def test_with_as_many_waiting_as_may_nothing_new_is_delivered_and_that_shows() -> None:
    async def scenario(broker: Broker) -> None:
        await set_group(broker, share__retry__backoff__ms="20000", share__partition__max__waiting__records="100")
        member = await begin(broker, records=60, batches=3)
        for first in (0, 60):
            assert await member.acquire(max_records=60) == [(first, first + 59, 1)]
            await release(member, first, first + 59)
        assert await member.acquire() == []
        (led,) = broker.shares.led.of_group("g")
        assert (led.waiting, led.in_flight, led.is_full_of_waiting) == (120, 0, True)
        assert await member.acquire(max_records=500, max_wait=30_000) != []
        assert led.is_full_of_waiting is False

    run(scenario, QUICK, is_virtual=True)


def test_another_leader_has_a_record_wait_anew() -> None:
    async def scenario(broker: Broker) -> None:
        await set_group(broker, share__retry__backoff__ms="10000")
        member = await begin(broker, records=1)
        await member.acquire()
        await release(member, 0, 0)
        await pass_time(5)
        (led,) = broker.shares.led.of_group("g")
        broker.shares.led._drop(led)  # what a change of leaders does
        member.epoch = 0
        assert await member.acquire() == []
        await pass_time(7)
        assert await member.acquire() == []
        await pass_time(4)
        assert await member.acquire() == [(0, 0, 2)]

    run(scenario, QUICK, is_virtual=True)
