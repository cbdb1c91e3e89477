"""How a node gets its place among the voters: the first one forms the quorum, others ask its leader."""

from uuid import UUID

import pytest

from barnabas.core.errors import InvalidUpdateVersion, RequestTimedOut
from barnabas.core.raft.joining import AddVoter, RemoveVoter, UpdateVoter, VoterChange
from barnabas.core.raft.log_view import BatchInfo
from barnabas.core.raft.messages import BeginQuorumEpochRequest, FetchRequest, FetchResponse, VoteResponse
from barnabas.core.raft.node import RaftNode, Restored
from barnabas.core.raft.output import (
    AppendControl,
    ChangeDone,
    KRaftVersion,
    LeaderChange,
    OutgoingRequest,
    Output,
    Voters,
)
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterEndpoint, VotersAt, VoterSet
from barnabas.testing.dice import SimulatedDice, derive_random

ME, OTHER = ReplicaKey(1, UUID(int=11)), ReplicaKey(2, UUID(int=22))
HERE = (VoterEndpoint("CONTROLLER", "one", 9093),)
THERE = (VoterEndpoint("CONTROLLER", "two", 9093),)


def new_node(key: ReplicaKey = ME, *, voters: VoterSet = NO_VOTERS, forms_quorum: bool = False) -> RaftNode:
    dice = SimulatedDice(derive_random(1, "dice"))
    node = RaftNode(key, "c", Restored(), dice=dice, static_voters=voters, forms_quorum=forms_quorum)
    node.listen_at(HERE)
    return node


def first_records(node: RaftNode) -> tuple[object, ...]:
    (operation,) = node.start(0).operations
    assert isinstance(operation, AppendControl)
    return operation.records


def follow(node: RaftNode, voters: VoterSet, *, end_offset: int = 3) -> None:
    """Have a node fetch the log of a leader, with these voters in it."""
    node.start(0)
    output = node.receive(BeginQuorumEpochRequest(cluster_id="c", epoch=1, leader_id=2, voter=node.key), None, now_ms=1)
    (asked,) = output.requests
    assert isinstance(asked, OutgoingRequest)
    batch = BatchInfo(0, end_offset, 1, VotersAt(end_offset - 1, voters))
    response = FetchResponse(epoch=1, leader_id=2, high_watermark=end_offset, batches=(batch,))
    node.receive_response(2, asked.request_id, response, now_ms=2)
    node.flushed(end_offset, epoch=1, now_ms=3)


def test_a_node_that_forms_a_quorum_writes_itself_as_the_first_voter() -> None:
    node = new_node(voters=VoterSet.of([Voter(ME)]), forms_quorum=True)

    records = first_records(node)

    assert records == (LeaderChange(1, (1,), (1,)), KRaftVersion(1), Voters(VoterSet.of([Voter(ME, HERE)])))
    assert node.voters.current.by_id(1) == Voter(ME, HERE)


@pytest.mark.parametrize(
    ("key", "forms_quorum"), [(ReplicaKey(1), True), (ME, False)], ids=["without a directory id", "of a fixed list"]
)
def test_a_node_stays_the_voter_of_its_settings(key: ReplicaKey, forms_quorum: bool) -> None:
    node = new_node(key, voters=VoterSet.of([Voter(key)]), forms_quorum=forms_quorum)

    assert first_records(node) == (LeaderChange(1, (1,), (1,)),)


@pytest.mark.parametrize(
    ("voters", "joins", "expected"),
    [
        pytest.param([Voter(OTHER, THERE)], True, AddVoter(Voter(ME, HERE)), id="joins"),
        pytest.param([Voter(OTHER, THERE)], False, None, id="only observes"),
        pytest.param([Voter(OTHER, THERE), Voter(ME, HERE)], True, None, id="votes"),
        pytest.param([Voter(OTHER, THERE), Voter(ME, THERE)], False, UpdateVoter(Voter(ME, HERE)), id="has moved"),
        pytest.param(
            [Voter(OTHER, THERE), Voter(ReplicaKey(1, UUID(int=9)), HERE)],
            True,
            RemoveVoter(ReplicaKey(1, UUID(int=9))),
            id="has a new disk",
        ),
        pytest.param(
            [Voter(OTHER, THERE), Voter(ReplicaKey(1, UUID(int=9)), HERE)], False, None, id="has a new disk, observes"
        ),
    ],
)
def test_a_follower_asks_for_its_place(voters: list[Voter], joins: bool, expected: VoterChange | None) -> None:
    node = new_node()

    follow(node, VoterSet.of(voters))

    assert node.due_change(joins=joins) == expected


def test_a_fixed_list_becomes_dynamic_once_the_leader_knows_all_directories() -> None:
    node = new_node(voters=VoterSet.of([Voter(ReplicaKey(1), HERE), Voter(ReplicaKey(2), THERE)]))
    lead(node)
    with pytest.raises(RequestTimedOut):
        node.make_dynamic("early", now_ms=20)
    fetch(node, ReplicaKey(2))
    with pytest.raises(InvalidUpdateVersion):
        node.make_dynamic("unknown", now_ms=20)
    fetch(node, OTHER)

    output = node.make_dynamic("asked", now_ms=30)

    voters = VoterSet.of([Voter(ME, HERE), Voter(OTHER, THERE)])
    assert output.operations == [AppendControl(1, 1, (KRaftVersion(1), Voters(voters)))]
    assert node.voters.current == voters
    node.flushed(3, epoch=1, now_ms=31)
    assert fetch(node, OTHER, offset=3).changes == [ChangeDone("asked")]
    assert node.make_dynamic("again", now_ms=40).changes == [ChangeDone("again")]


def test_the_leader_of_a_fixed_list_tells_the_directories_that_voters_fetched_with() -> None:
    node = new_node(voters=VoterSet.of([Voter(ReplicaKey(1), HERE), Voter(ReplicaKey(2), THERE)]))
    lead(node)
    assert [each.key for each in node.describe()] == [ME, ReplicaKey(2)]

    fetch(node, OTHER)

    assert [(each.key, each.is_voter) for each in node.describe()] == [(ME, True), (OTHER, True)]


def lead(node: RaftNode) -> None:
    """Have a node elected by the other voter."""
    node.start(0)
    (asked,) = node.tick(5000).requests
    (asked,) = node.receive_response(2, asked.request_id, VoteResponse(epoch=0, is_granted=True), now_ms=5001).requests
    node.receive_response(2, asked.request_id, VoteResponse(epoch=1, is_granted=True), now_ms=5002)
    node.flushed(1, epoch=1, now_ms=5003)


def fetch(node: RaftNode, replica: ReplicaKey, offset: int = 1) -> Output:
    request = FetchRequest(cluster_id="c", epoch=1, replica=replica, fetch_offset=offset, last_epoch=1)
    return node.receive(request, None, now_ms=5004)


def test_nothing_is_asked_for_before_the_log_says_who_votes() -> None:
    node = new_node(voters=VoterSet.of([Voter(ReplicaKey(2), THERE)]))
    node.start(0)

    assert node.due_change(joins=True) is None
