"""The way to the other nodes of the quorum: where they are, what they are asked over which connection."""

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from barnabas.core.errors import PeerUnreachable
from barnabas.core.raft.log_view import SnapshotId
from barnabas.core.raft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from barnabas.core.raft.state import bootstrap_ids
from barnabas.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.runtime.peers import Peers
from barnabas.runtime.peers.channel import Address
from barnabas.runtime.raft_driver.peers import WirePeers, choose_endpoint
from barnabas.runtime.raft_driver.wire_answers import LeaderAt, RefusedByPeer
from barnabas.wire.apis import FETCH
from barnabas.wire.reading import read_struct
from barnabas.wire.reading_values import Body
from barnabas.wire.responses import write_response
from barnabas.wire.schemas import response_schema

ME, OTHER = ReplicaKey(1, UUID(int=11)), ReplicaKey(2, UUID(int=22))
BEGIN = BeginQuorumEpochRequest(cluster_id="c", epoch=5, leader_id=1, voter=OTHER)
VOTE = VoteRequest(cluster_id="c", epoch=5, candidate=ME, voter=OTHER, last_epoch=4, end_offset=7, is_pre_vote=False)
FETCHING = FetchRequest(cluster_id="c", epoch=5, replica=ME, fetch_offset=7, last_epoch=4)
SNAPSHOT = FetchSnapshotRequest(cluster_id="c", epoch=5, replica=ME, snapshot=SnapshotId(6, 4), position=0)


class FakePeers:
    """Notes where nodes are and what they are asked; answers fetches as one who knows that node 3 leads."""

    def __init__(self) -> None:
        self.moved: list[tuple[int, str, int]] = []
        self.asked: list[tuple[object, int, str]] = []
        self.closed: list[Address] = []
        self.code = 0

    def move(self, node_id: int, host: str, port: int) -> None:
        self.moved.append((node_id, host, port))

    def to(self, node_id: int) -> "FakePeer":
        return FakePeer(self, node_id)

    def at(self, host: str, port: int) -> "FakePeer":
        return FakePeer(self, (host, port))

    def once(self, host: str, port: int) -> "AskedOnce":
        return AskedOnce(self, (host, port))


class FakePeer:
    def __init__(self, peers: FakePeers, target: int | Address) -> None:
        self._peers = peers
        self._target = target
        self.address = ("two", 9093)

    async def call(self, api_key: int, values: Any, *, timeout_s: float, purpose: str, min_version: int = 0) -> Any:
        assert timeout_s > 0
        assert values["cluster_id"] == "c"
        self._peers.asked.append((self._target, api_key, purpose))
        if api_key != FETCH.key:
            raise PeerUnreachable("it answers fetches alone")
        leader = {"leader_id": 3, "leader_epoch": 6}
        partition = {"error_code": 6, "current_leader": leader, "records": b""}
        answer = {
            "error_code": self._peers.code,
            "responses": [{"partitions": [partition]}],
            "node_endpoints": [{"node_id": 3, "host": "three", "port": 9093}],
        }
        data = bytes(write_response(FETCH.key, 18, answer))
        assert min_version <= 18
        return read_struct(response_schema(FETCH.key, 18), Body(data, max_elements=100))[0]


class AskedOnce:
    """Somebody at an address who says which features it knows."""

    def __init__(self, peers: FakePeers, target: Address) -> None:
        self._peers = peers
        self._target = target

    async def call(self, api_key: int, values: Any, *, timeout_s: float, purpose: str, min_version: int) -> Any:
        assert timeout_s > 0
        assert (values["client_software_name"], min_version) == ("barnabas", 3)
        self._peers.asked.append((self._target, api_key, purpose))
        knows = {"name": "kraft.version", "min_version": 0, "max_version": 1}
        data = bytes(write_response(api_key, 4, {"api_keys": [], "supported_features": [knows]}))
        return read_struct(response_schema(api_key, 4), Body(data, max_elements=100))[0]

    def close(self) -> None:
        self._peers.closed.append(self._target)


def new_peers(peers: FakePeers, *, bootstrap: tuple[Address, ...] = ()) -> WirePeers:
    here = [VoterEndpoint("OTHER", "me", 1), VoterEndpoint("CONTROLLER", "me", 9093)]
    return WirePeers(cast("Peers", peers), node_id=1, bootstrap=bootstrap, listener="controller", endpoints=here)


def voters(host: str, listener: str = "CONTROLLER") -> VoterSet:
    return VoterSet.of(
        [Voter(ME, (VoterEndpoint(listener, "me", 9093),)), Voter(OTHER, (VoterEndpoint(listener, host, 9093),))]
    )


def test_a_node_that_others_do_not_let_in_says_so_once_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        fake = FakePeers()
        peers = new_peers(fake)
        fake.code = 31
        for _ in range(3):
            with pytest.raises(RefusedByPeer):
                await peers.ask(2, FETCHING)
        assert caplog.text.count("the controller at two:9093 (node 2) does not let this node act as one") == 1
        assert "name each of them in super.users, on every node" in caplog.text
        fake.code = 0
        await peers.ask(2, FETCHING)
        fake.code = 31
        with pytest.raises(RefusedByPeer):
            await peers.ask(2, FETCHING)
        assert caplog.text.count("does not let this node act as one") == 2

    asyncio.run(scenario())


def test_voters_are_where_the_set_says_that_rules() -> None:
    peers = FakePeers()
    wire = new_peers(peers)

    wire.note_voters(voters("two"))
    wire.note_voters(voters("two"))
    wire.note_voters(voters("elsewhere", listener="UNKNOWN"))

    assert peers.moved == [(2, "two", 9093), (2, "elsewhere", 9093)]


def test_what_a_leader_says_of_itself_holds_until_the_voters_change() -> None:
    peers = FakePeers()
    wire = new_peers(peers)
    wire.note_voters(voters("two"))

    wire.note_endpoints(2, [VoterEndpoint("CONTROLLER", "moved", 9093)])
    wire.note_voters(voters("two"))
    wire.note_voters(voters("back"))

    assert peers.moved == [(2, "two", 9093), (2, "moved", 9093), (2, "back", 9093)]
    assert wire.leader_at(2) == LeaderAt(2, "back", 9093)


def test_an_answer_that_names_the_leader_says_where_it_is() -> None:
    peers = FakePeers()
    wire = new_peers(peers, bootstrap=(("seed", 9093), ("spare", 9094)))

    answer = asyncio.run(wire.ask(bootstrap_ids(2)[1], FETCHING))

    assert peers.asked[0][0] == ("spare", 9094)
    assert answer.response.leader_id == 3
    assert peers.moved == [(3, "three", 9093)]


@pytest.mark.parametrize(
    ("request_", "other"), [(VOTE, FETCHING), (BEGIN, FETCHING), (VOTE, SNAPSHOT), (SNAPSHOT, FETCHING)]
)
def test_a_vote_does_not_wait_behind_a_fetch_or_a_snapshot(request_: Request, other: Request) -> None:
    peers = FakePeers()
    wire = new_peers(peers)

    for each in (request_, other):
        try:
            asyncio.run(wire.ask(2, each))
        except PeerUnreachable:
            continue

    (_, _, one), (_, _, two) = peers.asked
    assert one != two


def test_a_node_is_asked_for_its_features_where_it_listens_for_controllers_and_only_once() -> None:
    peers = FakePeers()
    other = Voter(OTHER, (VoterEndpoint("CLIENTS", "elsewhere", 9092), VoterEndpoint("CONTROLLER", "two", 9093)))

    assert asyncio.run(new_peers(peers).features_of(other)) == {"kraft.version": range(2)}

    assert [target for target, _, _ in peers.asked] == [("two", 9093)]
    assert peers.closed == [("two", 9093)]


def test_a_leader_is_unknown_here_unless_somebody_has_said_where_it_is() -> None:
    wire = new_peers(FakePeers())

    assert wire.leader_at(None) is None
    assert wire.leader_at(7) is None
    assert wire.leader_at(1) == LeaderAt(1, "me", 9093)


def test_an_endpoint_is_chosen_by_the_name_of_the_listener_or_is_the_first() -> None:
    first, second = VoterEndpoint("A", "a", 1), VoterEndpoint("B", "b", 2)

    assert choose_endpoint([first, second], "b") == second
    assert choose_endpoint([first, second], "C") == first
    assert choose_endpoint([], "A") is None
