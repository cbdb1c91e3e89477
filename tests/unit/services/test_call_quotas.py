"""Callers whose connection cannot be held: refused with the time to wait, or, with a stream, made to wait."""

import asyncio

import pytest

from barnabas.core.errors import ThrottlingQuotaExceeded
from barnabas.services.call_quotas import CallQuotas, Use, client_id_of
from tests.unit.services.test_quotas import ANY_USER, Client, World, in_virtual_time


def test_a_caller_over_its_quota_is_refused_until_it_owes_nothing() -> None:
    async def scenario() -> None:
        world, client = World(), Client()
        calls = CallQuotas(world.quotas)
        world.set(ANY_USER, "producer_byte_rate", 100.0)
        calls.admit(client, Use.PRODUCING)
        calls.count(client, Use.PRODUCING, 1_250)
        with pytest.raises(ThrottlingQuotaExceeded, match="producer_byte_rate is used up; try again in 2500 ms"):
            calls.admit(client, Use.PRODUCING)
        assert (client.throttle_ms, client.muted) == (2500, [])
        assert (world.quotas.throttled["producer"], world.quotas.throttled_ms["producer"]) == (1, 2500)
        calls.admit(client, Use.CONSUMING)  # another quota
        calls.admit(Client(user="bob"), Use.PRODUCING)
        await asyncio.sleep(2.5)
        calls.admit(client, Use.PRODUCING)

    in_virtual_time(scenario)


def test_callers_and_clients_of_the_kafka_port_share_the_quota_of_their_user() -> None:
    async def scenario() -> None:
        world, client = World(), Client()
        world.set(ANY_USER, "producer_byte_rate", 100.0)
        world.quotas.produce(client, 1_100)
        with pytest.raises(ThrottlingQuotaExceeded):
            CallQuotas(world.quotas).admit(Client("another"), Use.PRODUCING)

    in_virtual_time(scenario)


def test_a_stream_runs_at_the_rate_of_its_quota() -> None:
    async def scenario() -> None:
        world, client, loop = World(), Client(), asyncio.get_running_loop()
        calls = CallQuotas(world.quotas)
        world.set(ANY_USER, "consumer_byte_rate", 100.0)
        begun = loop.time()
        for _ in range(50):
            calls.count(client, Use.CONSUMING, 60)
            await calls.wait_admitted(client, Use.CONSUMING)
        assert loop.time() - begun == pytest.approx(20, abs=0.1)  # 3,000 bytes, of which 1,000 at once

    in_virtual_time(scenario)


def test_a_stream_that_is_held_goes_on_when_its_quota_is_removed_and_ends_with_its_login() -> None:
    class LoggedOut(Exception):
        pass

    async def scenario() -> None:
        world, client, loop = World(), Client(), asyncio.get_running_loop()
        calls = CallQuotas(world.quotas)
        world.set(ANY_USER, "consumer_byte_rate", 1.0)
        calls.count(client, Use.CONSUMING, 1_000_000)
        waiting = asyncio.ensure_future(calls.wait_admitted(client, Use.CONSUMING))
        await asyncio.sleep(5)
        world.set(ANY_USER, "consumer_byte_rate", None)
        await waiting
        assert loop.time() < 10
        world.set(ANY_USER, "consumer_byte_rate", 1.0)
        calls.count(client, Use.CONSUMING, 1_000_000)

        def check() -> None:
            raise LoggedOut

        client.check_login = check
        with pytest.raises(LoggedOut):
            await calls.wait_admitted(client, Use.CONSUMING)

    in_virtual_time(scenario)


def test_the_time_that_calls_take_counts_also_of_streams_that_were_open_before_there_was_a_quota() -> None:
    async def scenario() -> None:
        world, client = World(), Client()
        calls = CallQuotas(world.quotas)
        may_go_on = asyncio.Event()

        async def work() -> None:
            await may_go_on.wait()
            world.spend(20)

        stream = asyncio.ensure_future(calls.measure_long(client, work))
        await asyncio.sleep(0)
        world.set(ANY_USER, "request_percentage", 100.0)
        may_go_on.set()
        await stream
        with pytest.raises(ThrottlingQuotaExceeded, match="request_percentage"):
            calls.admit(client, Use.TIME)

    in_virtual_time(scenario)


def test_nobody_is_a_node_by_the_client_id_that_it_says() -> None:
    assert client_id_of("app", "default") == "app"
    assert client_id_of(None, "default") == "default"
    assert client_id_of("barnabas-node-1", "default") is None
    assert client_id_of("x" * 1000, None) == "x" * 200
