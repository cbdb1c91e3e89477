"""Peers over real sockets, on the loops that a node runs on."""

import asyncio

import pytest
import uvloop

from barnabas.core.errors import PeerUnreachable
from barnabas.runtime.dice import SystemDice
from barnabas.runtime.peers import Peers
from tests.unit.runtime.peers.peer_support import FETCH, HEARTBEAT, FakeNode, answer, well

RECORDS = bytes(300_000)


def with_records(node: FakeNode, key: int, version: int, correlation_id: int) -> bytes | None:
    if key != FETCH:
        return well(node, key, version, correlation_id)
    partitions = [{"partition_index": 3, "records": RECORDS}]
    return answer(key, version, correlation_id, {"responses": [{"partitions": partitions}]})


async def talk() -> None:
    node = FakeNode(with_records)
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, asyncio.TaskGroup() as tasks:
        peers = Peers(tasks, asyncio.get_running_loop(), SystemDice())
        peer = peers.at("127.0.0.1", port)
        for _ in range(3):
            found, beat = await asyncio.gather(
                peer.call(FETCH, {}, timeout_s=30), peer.call(HEARTBEAT, {}, timeout_s=30, purpose="beat")
            )
            assert found.responses[0].partitions[0].records == RECORDS
            assert beat.is_caught_up
        peers.close()
        assert node.connections == 2


ON_BOTH_LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])


@ON_BOTH_LOOPS
def test_peers_talk_over_real_sockets(loop: object) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type]
        runner.run(talk())


async def call_impossible_hosts() -> None:
    async with asyncio.TaskGroup() as tasks:
        peers = Peers(tasks, asyncio.get_running_loop(), SystemDice())
        for number, host in enumerate(("\x00", "a" * 300, "..", "")):
            peers.move(number, host, 1)
            with pytest.raises(PeerUnreachable, match="cannot connect"):
                await peers.to(number).call(HEARTBEAT, {}, timeout_s=30)
        peers.close()


@ON_BOTH_LOOPS
def test_a_host_that_can_be_no_name_is_not_reached_and_ends_nothing(loop: object) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type]
        runner.run(call_impossible_hosts())
