"""Calls to another node: answered, or failed in a way that says whether they may have been done."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from barnabas.core.errors import (
    InvalidRequest,
    PeerBusy,
    PeerError,
    PeerLost,
    PeerTimedOut,
    PeerUnreachable,
    UnsupportedVersion,
)
from barnabas.runtime.peers import PeerLimits, Peers
from barnabas.runtime.peers.connection import SMALL_BYTES, PeerConnection
from barnabas.testing.link import NetworkConfig
from barnabas.testing.simulation import Simulation
from barnabas.wire.apis import API_VERSIONS
from tests.unit.runtime.peers.peer_support import FETCH, HEARTBEAT, FakeNode, answer, framed, run, well

VOTE = 52


def silent(node: FakeNode, key: int, version: int, correlation_id: int) -> bytes | None:
    """Answers greetings alone."""
    return well(node, key, version, correlation_id) if key == API_VERSIONS.key else None


async def beat(peers: Peers, *, timeout_s: float = 5.0, purpose: str = "control") -> Any:
    return await peers.at("b", 9092).call(HEARTBEAT, {"broker_id": 1}, timeout_s=timeout_s, purpose=purpose)


def test_a_call_is_answered_in_the_newest_version_both_know() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        found = await beat(peers)
        assert found.is_caught_up is True
        assert [version for _, version, _ in node.only(HEARTBEAT)] == [1]
        await peers.at("b", 9092).call(HEARTBEAT, {}, timeout_s=5, max_version=0)
        assert [version for _, version, _ in node.only(HEARTBEAT)] == [1, 0]
        assert node.connections == 1

    run(scenario)


def test_a_version_or_an_api_that_the_other_does_not_know_is_refused() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        with pytest.raises(UnsupportedVersion, match="0 to 1"):
            await peers.at("b", 9092).call(HEARTBEAT, {}, timeout_s=5, min_version=2)
        with pytest.raises(UnsupportedVersion, match="no version"):
            await peers.at("b", 9092).call(VOTE, {}, timeout_s=5)

    run(scenario)


def test_a_large_answer_comes_over_whole() -> None:
    records = bytes(range(256)) * 2000

    def reply(node: FakeNode, key: int, version: int, correlation_id: int) -> bytes | None:
        if key != FETCH:
            return well(node, key, version, correlation_id)
        partitions = [{"partition_index": 3, "records": records}]
        small = answer(key, version, correlation_id, {"responses": [{"partitions": partitions}]})
        assert len(small) > SMALL_BYTES
        return small

    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        node.reply = reply
        for _ in range(3):
            found = await peers.at("b", 9092).call(FETCH, {}, timeout_s=30)
            assert found.responses[0].partitions[0].records == records
            assert (await beat(peers)).error_code == 0

    run(scenario, config=NetworkConfig(split_chance=0.9, spike_chance=0.2, link_bytes=5_000))


def test_nobody_who_listens_is_unreachable_and_found_once_it_does() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        with pytest.raises(PeerUnreachable, match="refused") as caught:
            await beat(peers)
        assert not caught.value.may_be_done
        await node.listen()
        assert (await beat(peers)).error_code == 0

    run(scenario, listens=False)


def test_attempts_to_connect_become_rarer() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        loop, times = asyncio.get_running_loop(), []
        for _ in range(10):
            with pytest.raises(PeerUnreachable):
                await beat(peers)
            times.append(loop.time())
        gaps = [after - before for before, after in pairwise(times)]
        assert gaps[0] < 0.1
        assert all(0.5 <= gap < 1.1 for gap in gaps[-3:])
        assert len({round(gap, 6) for gap in gaps[-3:]}) == 3  # not all at the same time

    run(scenario, listens=False)


def test_a_node_whose_address_is_not_known_is_unreachable_until_it_is() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        with pytest.raises(PeerUnreachable, match="not known"):
            await peers.to(2).call(HEARTBEAT, {}, timeout_s=5)
        peers.move(2, "b", 9092)
        assert (await peers.to(2).call(HEARTBEAT, {}, timeout_s=5)).error_code == 0
        peers.move(2, "b", 9092)
        assert node.connections == 1

    run(scenario)


def test_calls_to_an_address_end_when_the_node_moves() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        node.reply = silent
        peers.move(2, "b", 9092)
        call = asyncio.create_task(peers.to(2).call(HEARTBEAT, {}, timeout_s=60))
        await node.wait_asked(HEARTBEAT)
        peers.move(2, "b", 9093)
        with pytest.raises(PeerLost):
            await call
        with pytest.raises(PeerUnreachable):
            await peers.to(2).call(HEARTBEAT, {}, timeout_s=60)

    run(scenario)


def test_a_reset_in_the_middle_leaves_it_open_whether_it_was_done() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        node.reply = silent
        call = asyncio.create_task(beat(peers))
        await node.wait_asked(HEARTBEAT)
        simulation.network.reset_between("a", "b")
        with pytest.raises(PeerLost) as caught:
            await call
        assert caught.value.may_be_done
        node.reply = well
        assert (await beat(peers)).error_code == 0
        assert node.connections == 2

    run(scenario)


def test_a_node_that_restarts_is_connected_to_again() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        assert (await beat(peers)).error_code == 0
        simulation.crash("b")
        with pytest.raises(PeerError):
            await beat(peers)
        await node.listen()
        assert (await beat(peers)).error_code == 0

    run(scenario)


def test_a_node_that_never_answers_times_out_and_its_connection_ends() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        node.reply = silent
        began = asyncio.get_running_loop().time()
        with pytest.raises(PeerTimedOut) as caught:
            await beat(peers, timeout_s=2)
        assert caught.value.may_be_done
        assert 2 <= asyncio.get_running_loop().time() - began < 2.1
        node.reply = well
        assert (await beat(peers)).error_code == 0
        assert node.connections == 2

    run(scenario)


def test_a_node_that_is_cut_off_is_unreachable_after_the_time_to_connect() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        simulation.network.partition(["a"], ["b"])
        with pytest.raises(PeerUnreachable, match="within 3 s"):
            await beat(peers, timeout_s=60)
        with pytest.raises(PeerUnreachable, match="took no request within 1 s"):
            await beat(peers, timeout_s=1)  # its deadline passes while it waits for a connection: nothing was sent
        simulation.network.heal()
        assert (await beat(peers, timeout_s=60)).error_code == 0

    run(scenario, limits=PeerLimits(connect_timeout_s=3))


def test_answers_out_of_order_find_those_who_wait() -> None:
    held: list[bytes] = []

    def reply(node: FakeNode, key: int, version: int, correlation_id: int) -> bytes | None:
        if key == API_VERSIONS.key:
            return well(node, key, version, correlation_id)
        held.insert(0, answer(key, version, correlation_id, {"error_code": correlation_id}))
        return b"".join(held) if len(held) == 3 else None

    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        node.reply = reply
        found = await asyncio.gather(*(beat(peers) for _ in range(3)))
        assert [each.error_code for each in found] == [2, 3, 4]

    run(scenario)


BAD_ANSWERS = {
    "unknown correlation id": framed(b"\x00\x00\x03\xe7\x00"),
    "too long": (2**31 - 1).to_bytes(4, "big"),
    "longer than the limit": (1001).to_bytes(4, "big"),
    "negative length": b"\xff\xff\xff\xff",
    "too short": framed(b"\x00"),
    "no body": framed(b"\x00\x00\x00\x02"),
    "cut off": framed(b"\x00\x00\x00\x02\x00\x00\x00"),
    "many tagged fields": framed(b"\x00\x00\x00\x02\xff\xff\xff\xff\x0f"),
}


@pytest.mark.parametrize("bad", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_a_malformed_answer_ends_the_connection(bad: bytes) -> None:
    def reply(node: FakeNode, key: int, version: int, correlation_id: int) -> bytes | None:
        return well(node, key, version, correlation_id) if key == API_VERSIONS.key else bad

    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        node.reply = reply
        with pytest.raises(PeerLost) as caught:
            await beat(peers)
        assert caught.value.may_be_done
        node.reply = well
        assert (await beat(peers)).error_code == 0
        assert node.connections == 2

    run(scenario, limits=PeerLimits(max_answer_bytes=1000))


def test_a_greeting_that_is_refused_or_malformed_is_unreachable() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        for bad in (framed(b"\x00\x00\x00\x01\x00\x23"), answer(18, 0, 1, {"error_code": 35})):
            node.reply = lambda *_, bad=bad: bad
            with pytest.raises(PeerUnreachable):
                await beat(peers)
        node.reply = well
        assert (await beat(peers)).error_code == 0

    run(scenario)


def test_one_call_too_many_is_refused_and_the_others_are_answered() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        calls = [asyncio.create_task(beat(peers)) for _ in range(5)]
        await asyncio.sleep(0)
        with pytest.raises(PeerBusy) as caught:
            await beat(peers)
        assert not caught.value.may_be_done
        assert [found.error_code for found in await asyncio.gather(*calls)] == [0] * 5
        assert (await beat(peers)).error_code == 0

    run(scenario, limits=PeerLimits(max_calls=5, max_in_flight=2))


@pytest.mark.parametrize("limits", [PeerLimits(max_in_flight=2), PeerLimits(max_in_flight_bytes=100)])
def test_requests_under_way_are_bounded(limits: PeerLimits) -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        node.reply = silent
        peer = peers.at("b", 9092)
        values = {"broker_id": 1, "offline_log_dirs": [None, None]}
        calls = [asyncio.create_task(peer.call(HEARTBEAT, values, timeout_s=60)) for _ in range(6)]
        await asyncio.sleep(1)
        assert len(node.only(HEARTBEAT)) < 3
        node.reply = well
        for key, version, correlation_id in node.only(HEARTBEAT):
            node.writers[0].write(answer(key, version, correlation_id))
        await asyncio.gather(*calls)
        assert len(node.only(HEARTBEAT)) == 6

    run(scenario, limits=limits)


def test_a_request_that_is_too_large_is_refused() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        with pytest.raises(InvalidRequest, match="the maximum is 100"):
            await peers.at("b", 9092).call(HEARTBEAT, {"offline_log_dirs": [None] * 20}, timeout_s=5)

    run(scenario, limits=PeerLimits(max_request_bytes=100))


def test_a_caller_that_is_cancelled_does_not_disturb_the_others() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        node.reply = silent
        sent, queued, last = (asyncio.create_task(beat(peers, timeout_s=30)) for _ in range(3))
        await node.wait_asked(HEARTBEAT)
        sent.cancel()
        queued.cancel()
        await asyncio.sleep(1)
        assert sent.cancelled()
        assert queued.cancelled()
        node.reply = well
        node.writers[0].write(answer(*node.only(HEARTBEAT)[0]))
        assert (await last).error_code == 0
        assert (node.connections, len(node.only(HEARTBEAT))) == (1, 2)

    run(scenario, limits=PeerLimits(max_in_flight=1))


def test_a_connection_does_not_stay_blocked_by_what_a_cancelled_caller_left() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        node.reply = silent
        sent = asyncio.create_task(beat(peers, timeout_s=5))
        await node.wait_asked(HEARTBEAT)
        sent.cancel()
        waiting = asyncio.create_task(beat(peers, timeout_s=30))
        await asyncio.sleep(1)
        node.reply = well
        assert (await waiting).error_code == 0
        assert node.connections == 2

    run(scenario, limits=PeerLimits(max_in_flight=1))


def test_what_was_not_sent_when_a_connection_ends_is_sent_over_the_next() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        node.reply = silent
        first = asyncio.create_task(beat(peers, timeout_s=2))
        await node.wait_asked(HEARTBEAT)
        second = asyncio.create_task(beat(peers, timeout_s=30))
        await asyncio.sleep(1)
        node.reply = well
        with pytest.raises(PeerTimedOut):
            await first
        assert (await second).error_code == 0
        assert node.connections == 2

    run(scenario, limits=PeerLimits(max_in_flight=1))


def test_a_purpose_does_not_wait_for_another() -> None:
    def reply(node: FakeNode, key: int, version: int, correlation_id: int) -> bytes | None:
        return silent(node, key, version, correlation_id) if key == FETCH else well(node, key, version, correlation_id)

    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        node.reply = reply
        fetch = asyncio.create_task(peers.at("b", 9092).call(FETCH, {}, timeout_s=60, purpose="fetch"))
        await node.wait_asked(FETCH)
        assert (await beat(peers)).error_code == 0
        assert node.connections == 2
        fetch.cancel()

    run(scenario, limits=PeerLimits(max_in_flight=1))


def test_closing_ends_every_call_and_takes_no_more() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        node.reply = silent
        sent, queued = (asyncio.create_task(beat(peers, timeout_s=60)) for _ in range(2))
        await node.wait_asked(HEARTBEAT)
        connecting = asyncio.create_task(beat(peers, timeout_s=60, purpose="other"))
        await asyncio.sleep(0)
        peers.close()
        for call, error in ((sent, PeerLost), (queued, PeerUnreachable), (connecting, PeerUnreachable)):
            with pytest.raises(error):
                await call
        with pytest.raises(PeerUnreachable, match="closed"):
            await beat(peers)

    run(scenario, limits=PeerLimits(max_in_flight=1))


def test_a_node_that_is_forgotten_ends_its_calls() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        node.reply = silent
        peers.move(2, "b", 9092)
        call = asyncio.create_task(peers.to(2).call(HEARTBEAT, {}, timeout_s=60))
        await node.wait_asked(HEARTBEAT)
        peers.forget(2)
        with pytest.raises(PeerLost):
            await call
        with pytest.raises(PeerUnreachable, match="not known"):
            await peers.to(2).call(HEARTBEAT, {}, timeout_s=60)

    run(scenario)


def test_an_authentication_comes_before_the_first_call() -> None:
    asked: list[bool] = []

    async def authenticate(connection: PeerConnection) -> None:
        found = await connection.ask(HEARTBEAT, 0, {})
        asked.append(found.is_caught_up)
        if len(asked) == 1:
            raise PeerUnreachable("not you")

    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        with pytest.raises(PeerUnreachable, match="not you"):
            await beat(peers)
        assert (await beat(peers)).error_code == 0
        assert asked == [True, True]
        assert [version for _, version, _ in node.only(HEARTBEAT)] == [0, 0, 1]

    run(scenario, authenticate=authenticate)


def test_the_same_seed_gives_the_same_run() -> None:
    async def scenario(simulation: Simulation, node: FakeNode, peers: Peers) -> None:
        for _ in range(3):
            await asyncio.gather(*(beat(peers) for _ in range(5)))
            simulation.network.reset_between("a", "b")
            await asyncio.sleep(0.5)

    assert run(scenario, seed=7) == run(scenario, seed=7)
