"""Faults of the simulated network: resets, partitions, and hosts that crash."""

import asyncio

import pytest

from barnabas.testing.hosts import Host
from barnabas.testing.link import NetworkConfig
from barnabas.testing.loop import SimulationStuck
from barnabas.testing.network import SimulatedNetwork
from tests.unit.testing.network_support import ask, connected, echo, run


def test_a_reset_reaches_both_ends() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        [connection] = network.connections("a", "b")
        network.reset(connection)
        client.transport.write(b"lost")
        await client.lost.wait()
        await server.lost.wait()
        assert isinstance(client.error, ConnectionResetError)
        assert isinstance(server.error, ConnectionResetError)
        assert server.received == b""

    run(scenario)


def test_resets_and_refusals_by_chance_are_survived_by_trying_again() -> None:
    async def scenario(network: SimulatedNetwork) -> int:
        async def careful(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await echo(reader, writer)
            except ConnectionError:
                writer.close()

        await network.host("b").run(asyncio.start_server(careful, "b", 9092))
        failures = 0
        for _ in range(20):
            try:
                await ask(5)
            except (ConnectionError, AssertionError):
                failures += 1
        return failures

    config = NetworkConfig(reset_chance=0.05, refuse_chance=0.2)
    assert 0 < run(scenario, config=config) < 20


@pytest.mark.parametrize("seed", range(5))
def test_a_partition_holds_bytes_back_until_it_heals(seed: int) -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        network.partition(["a"], ["b"])
        client.transport.write(b"patience")
        client.transport.close()
        await client.lost.wait()
        await asyncio.sleep(500)
        assert server.received == b""
        network.heal()
        await server.lost.wait()
        assert server.received == b"patience"
        assert server.error is None

    run(scenario, seed=seed)


def test_a_partition_that_drops_bytes_ends_in_a_reset() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        network.isolate("b", drop=True)
        client.transport.write(b"gone")
        await asyncio.sleep(10)
        network.heal()
        await client.lost.wait()
        await server.lost.wait()
        assert isinstance(server.error, ConnectionResetError)
        assert server.received == b""

    run(scenario)


def test_a_partition_may_be_one_way() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        network.partition(["a"], ["b"], one_way=True)
        client.transport.write(b"there")
        server.transport.write(b"back")
        await asyncio.sleep(10)
        assert client.received == b"back"
        assert server.received == b""

    run(scenario)


def test_connecting_across_a_partition_times_out_or_waits_for_it_to_heal() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        loop = asyncio.get_running_loop()
        await network.host("b").run(asyncio.start_server(echo, "b", 9092))
        network.partition(["localhost"], ["b"])
        began = loop.time()
        with pytest.raises(TimeoutError):
            await asyncio.open_connection("b", 9092)
        assert loop.time() - began == pytest.approx(127)
        asking = asyncio.create_task(ask(3))
        await asyncio.sleep(60)
        assert not asking.done()
        network.heal()
        assert len(await asking) == 3

    run(scenario)


def test_a_crashed_host_hears_nothing_and_its_peers_see_a_reset() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        server.transport.write(b"unread")
        network.crash("b")
        await client.lost.wait()
        await asyncio.sleep(100)
        assert isinstance(client.error, ConnectionResetError)
        assert server.calls == ["made"]
        assert network.connections() == []
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("b", 9092)
        await network.host("b").run(asyncio.start_server(echo, "b", 9092))
        assert len(await ask(3)) == 3

    run(scenario)


def test_a_host_that_crashes_behind_a_partition_is_missed_only_after_it_heals() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, _ = await connected(network)
        network.isolate("b")
        network.crash("b")
        await asyncio.sleep(100)
        assert client.calls == ["made"]
        network.heal()
        await client.lost.wait()
        assert isinstance(client.error, ConnectionResetError)

    run(scenario)


def test_a_server_task_of_a_crashed_host_is_not_what_a_simulation_is_stuck_on() -> None:
    async def serve() -> None:
        server = await asyncio.start_server(echo, None, 9092)
        await server.serve_forever()

    async def scenario(network: SimulatedNetwork) -> None:
        host: Host = network.host("b")
        host.start(serve())
        await asyncio.sleep(1)
        network.crash("b")
        await asyncio.Event().wait()

    with pytest.raises(SimulationStuck, match="1 pending task"):
        run(scenario)


def test_a_paused_host_keeps_its_connections_and_answers_late() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        network.pause("b")
        client.transport.write(b"wait")
        await asyncio.sleep(10)
        assert server.received == b""
        network.resume("b")
        await asyncio.sleep(1)
        assert server.received == b"wait"
        assert network.connections("a", "b")

    run(scenario)


def test_the_timers_of_a_paused_host_are_late_and_those_of_others_are_not() -> None:
    async def scenario(network: SimulatedNetwork) -> list[tuple[str, float]]:
        woken: list[tuple[str, float]] = []

        async def sleep(name: str) -> None:
            await asyncio.sleep(1)
            woken.append((name, network.loop.time()))

        sleeping = [network.host(name).start(sleep(name)) for name in ("a", "b")]
        await asyncio.sleep(0.5)
        network.pause("b")
        await asyncio.sleep(2.5)
        network.resume("b")
        await asyncio.gather(*sleeping)
        return woken

    assert run(scenario) == [("a", 1.0), ("b", 3.0)]


def test_a_paused_host_may_crash_and_its_next_life_runs() -> None:
    async def scenario(network: SimulatedNetwork) -> list[str]:
        ran: list[str] = []

        async def note(what: str) -> None:
            await asyncio.sleep(1)
            ran.append(what)

        network.host("b").start(note("the first life"))
        network.pause("b")
        await asyncio.sleep(2)
        network.crash("b")
        await network.host("b").run(note("the next life"))
        return ran

    assert run(scenario) == ["the next life"]


def test_a_slow_way_is_slow_until_it_heals() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        network.slow(["a"], ["b"], 5.0)
        client.transport.write(b"slow")
        await asyncio.sleep(0.2)
        assert server.received == b""
        await asyncio.sleep(5)
        assert server.received == b"slow"
        network.heal()
        client.transport.write(b", fast")
        await asyncio.sleep(0.2)
        assert server.received == b"slow, fast"

    run(scenario, config=NetworkConfig(split_chance=0.0))
