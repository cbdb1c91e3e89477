"""Single steps of a node that neither the scenarios nor the simulation look at closely."""

from random import Random
from uuid import UUID

import pytest

from barnabas.core.errors import NotController, UnknownLeaderEpoch
from barnabas.core.raft.epochs import LAST_EPOCH
from barnabas.core.raft.log_view import EpochStart, SnapshotId
from barnabas.core.raft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    VoteResponse,
)
from barnabas.core.raft.node import RaftNode, Restored
from barnabas.core.raft.output import FinishSnapshot, QuorumState, ResetToSnapshot, WriteSnapshotPart
from barnabas.core.raft.state import Follower, Leader, Resigned, Unattached
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VotersAt, VoterSet

KEYS = {node_id: ReplicaKey(node_id, UUID(int=node_id)) for node_id in (1, 2, 3)}
FIXED = VoterSet.of(Voter(ReplicaKey(node_id)) for node_id in KEYS)


def make_node(restored: Restored | None = None, *, voters: VoterSet = FIXED) -> RaftNode:
    node = RaftNode(KEYS[1], "castle", restored or Restored(), dice=Random(1), static_voters=voters)
    node.start(0)
    return node


def make_leader() -> RaftNode:
    """A sole voter, whose first record is synced."""
    node = make_node(voters=VoterSet.of([Voter(ReplicaKey(1))]))
    node.flushed(1, epoch=1, now_ms=0)
    return node


def fetch(epoch: int, offset: int, last_epoch: int, *, wait_ms: int = 0, watermark: int = -1) -> FetchRequest:
    return FetchRequest(
        cluster_id="castle",
        epoch=epoch,
        replica=KEYS[2],
        fetch_offset=offset,
        last_epoch=last_epoch,
        max_wait_ms=wait_ms,
        high_watermark=watermark,
    )


def test_an_append_is_refused_under_an_epoch_that_the_node_does_not_lead() -> None:
    leader = make_leader()
    with pytest.raises(NotController):
        leader.appended(2, epoch=2, now_ms=1)
    with pytest.raises(NotController):
        make_node().appended(1, epoch=1, now_ms=1)
    assert leader.log.end_offset == 1


def test_a_fetch_that_finds_nothing_waits_for_a_record() -> None:
    leader = make_leader()
    assert leader.receive(fetch(1, 1, 1, wait_ms=500, watermark=1), "t", now_ms=1).replies == []
    replies = leader.appended(2, epoch=1, now_ms=2).replies
    assert [(reply.token, reply.read_from) for reply in replies] == [("t", 1)]


def test_a_fetch_that_waits_is_answered_when_its_time_is_up() -> None:
    leader = make_leader()
    leader.receive(fetch(1, 1, 1, wait_ms=300, watermark=1), "t", now_ms=1)
    assert leader.deadline_ms == 301
    assert [reply.token for reply in leader.tick(301).replies] == ["t"]


def test_a_fetch_of_one_who_knows_less_is_answered_at_once() -> None:
    leader = make_leader()
    [reply] = leader.receive(fetch(1, 1, 1, wait_ms=500, watermark=0), "t", now_ms=1).replies
    assert isinstance(reply.response, FetchResponse)
    assert reply.response.high_watermark == 1


def test_a_second_fetch_of_a_replica_takes_the_place_of_the_first() -> None:
    leader = make_leader()
    leader.receive(fetch(1, 1, 1, wait_ms=500, watermark=1), "first", now_ms=1)
    replies = leader.receive(fetch(1, 1, 1, wait_ms=500, watermark=1), "second", now_ms=2).replies
    assert [reply.token for reply in replies] == ["first"]


def test_a_leader_knows_how_far_replicas_are() -> None:
    leader = make_leader()
    leader.receive(fetch(1, 1, 1), "t", now_ms=7)
    described = [(one.key.node_id, one.is_voter, one.end_offset, one.last_fetch_ms) for one in leader.describe()]
    assert described == [(1, True, 1, None), (2, False, 1, 7)]
    assert make_node().describe() == []


def test_an_observer_that_is_gone_for_long_is_forgotten() -> None:
    leader = make_leader()
    leader.receive(fetch(1, 1, 1), "t", now_ms=7)
    leader.tick(300_007)
    assert [one.key.node_id for one in leader.describe()] == [1]


def test_a_quorum_state_that_is_older_than_the_log_gives_way() -> None:
    node = make_node(Restored(quorum=QuorumState(2), end_offset=5, epochs=(EpochStart(4, 0),)))
    assert node.quorum == QuorumState(4)


def test_a_snapshot_that_the_log_does_not_lead_up_to_replaces_it_at_the_start() -> None:
    voters = VoterSet.of(Voter(key) for key in KEYS.values())
    restored = Restored(
        end_offset=5, epochs=(EpochStart(1, 0),), snapshots=(SnapshotId(9, 2),), voters=(VotersAt(8, voters),)
    )
    node = RaftNode(KEYS[1], "castle", restored, dice=Random(1))
    output = node.start(0)
    assert output.operations == [ResetToSnapshot(SnapshotId(9, 2))]
    assert (node.log.start_offset, node.log.end_offset, node.high_watermark) == (9, 9, 9)
    assert node.voters.current == voters


def test_a_log_that_differs_from_its_snapshot_is_replaced_at_the_start() -> None:
    """The crash came after the snapshot took its name and before the log was reset."""
    restored = Restored(end_offset=12, epochs=(EpochStart(1, 0),), snapshots=(SnapshotId(9, 2),))
    node = RaftNode(KEYS[1], "castle", restored, dice=Random(1), static_voters=FIXED)
    assert node.start(0).operations == [ResetToSnapshot(SnapshotId(9, 2))]


def fetching_snapshot() -> tuple[RaftNode, int]:
    """A follower of node 2 that has been told to take a snapshot, and the id of its request."""
    node = make_node()
    begin = BeginQuorumEpochRequest(cluster_id="castle", epoch=3, leader_id=2, voter=KEYS[1])
    [sent] = node.receive(begin, "t", now_ms=1).requests
    told = FetchResponse(epoch=3, leader_id=2, snapshot=SnapshotId(9, 2))
    [sent] = node.receive_response(2, sent.request_id, told, now_ms=2).requests
    return node, sent.request_id


def piece(position: int, length_bytes: int) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(
        epoch=3,
        leader_id=2,
        snapshot=SnapshotId(9, 2),
        position=position,
        length_bytes=length_bytes,
        size_bytes=10,
    )


def test_a_snapshot_counts_when_the_driver_has_synced_it() -> None:
    node, request_id = fetching_snapshot()
    output = node.receive_response(2, request_id, piece(0, 10), now_ms=3)
    assert output.operations == [WriteSnapshotPart(SnapshotId(9, 2), 0, 10), FinishSnapshot(SnapshotId(9, 2))]
    assert output.requests == []
    assert node.log.end_offset == 0
    output = node.snapshot_ready(SnapshotId(9, 2), NO_VOTERS, now_ms=4)
    assert output.operations == [ResetToSnapshot(SnapshotId(9, 2))]
    assert output.high_watermark == 9


def test_a_snapshot_that_is_damaged_is_fetched_again() -> None:
    node, request_id = fetching_snapshot()
    node.receive_response(2, request_id, piece(0, 10), now_ms=3)
    [sent] = node.snapshot_failed(SnapshotId(9, 2), now_ms=4).requests
    assert isinstance(sent.request, FetchRequest)


def test_an_empty_piece_of_a_snapshot_does_not_go_on_for_ever() -> None:
    node, request_id = fetching_snapshot()
    output = node.receive_response(2, request_id, piece(0, 0), now_ms=3)
    assert output.operations == []
    assert isinstance(node.role, Follower)
    assert node.role.snapshot is None


def test_a_snapshot_that_comes_too_late_does_not_touch_the_log() -> None:
    node, request_id = fetching_snapshot()
    node.receive_response(2, request_id, piece(0, 10), now_ms=3)
    begin = BeginQuorumEpochRequest(cluster_id="castle", epoch=4, leader_id=3, voter=KEYS[1])
    node.receive(begin, "t", now_ms=4)
    assert node.snapshot_ready(SnapshotId(9, 2), NO_VOTERS, now_ms=5).operations == []


def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
    node = make_node()
    node.receive_response(2, 77, FetchResponse(epoch=9, leader_id=2), now_ms=1)
    assert node.quorum.epoch == 0


def test_the_last_voter_that_stays_alone_leads_without_asking() -> None:
    leader = make_leader()
    assert isinstance(leader.role, Leader)
    leader.tick(1_000_000)
    assert isinstance(leader.role, Leader)


ALONE = VoterSet.of([Voter(ReplicaKey(1))])


def test_a_node_in_the_last_epoch_starts_and_says_that_there_is_no_other() -> None:
    for voters in (ALONE, FIXED):
        restored = Restored(quorum=QuorumState(LAST_EPOCH, None, KEYS[1]))
        node = RaftNode(KEYS[1], "castle", restored, dice=Random(1), static_voters=voters)
        assert "is the last" in node.start(0).notes[0]
        node.tick(1_000_000)
        assert isinstance(node.role, Unattached)
        assert node.quorum.epoch == LAST_EPOCH
        assert node.deadline_ms is None or node.deadline_ms > 1_000_000


def test_the_leader_of_the_last_epoch_leads_it_to_its_end() -> None:
    node = make_node(Restored(quorum=QuorumState(LAST_EPOCH - 1)), voters=ALONE)
    assert isinstance(node.role, Leader)
    assert node.quorum.epoch == LAST_EPOCH

    restarted = make_node(Restored(quorum=node.quorum), voters=ALONE)
    restarted.tick(1_000_000)
    assert isinstance(restarted.role, Resigned)
    assert restarted.quorum.epoch == LAST_EPOCH
    assert restarted.deadline_ms is None


def test_an_observer_whose_leader_answers_has_no_other() -> None:
    """Its leader was away for a moment, and whom it asked instead is in an older epoch, which somebody led once."""
    others = VoterSet.of(Voter(KEYS[node_id]) for node_id in (2, 3))
    node = RaftNode(KEYS[1], "castle", Restored(quorum=QuorumState(7, 2)), dice=Random(1), static_voters=others)
    [asked] = node.start(0).requests
    [asked] = node.request_failed(2, asked.request_id, now_ms=1).requests
    lagging = FetchResponse(epoch=5, leader_id=3, refusal=UnknownLeaderEpoch)
    node.receive_response(3, asked.request_id, lagging, now_ms=2)

    [asked] = [request for request in node.tick(5000).requests if request.to == 2]
    node.receive_response(2, asked.request_id, FetchResponse(epoch=7, leader_id=2), now_ms=5001)

    assert node.leadership == (2, 7)


def elected(silences_ms: dict[int, int]) -> RaftNode:
    """A node that fetched from 2 at 100, asked for votes at 5000, and was elected by these, at 5100."""
    node = make_node(Restored(quorum=QuorumState(7, 2)))
    [asked] = node.receive(
        BeginQuorumEpochRequest(cluster_id="castle", epoch=8, leader_id=2, voter=KEYS[1]), "t", now_ms=0
    ).requests
    node.receive_response(2, asked.request_id, FetchResponse(epoch=8, leader_id=2), now_ms=100)
    asked_all = {each.to: each for each in node.tick(5000).requests}
    for is_pre_vote in (True, False):
        answered = dict(asked_all)
        for voter, silence_ms in silences_ms.items():
            response = VoteResponse(epoch=8 if is_pre_vote else 9, is_granted=True, silence_ms=silence_ms)
            output = node.receive_response(voter, answered[voter].request_id, response, now_ms=5100)
            asked_all = {each.to: each for each in output.requests} or asked_all
    return node


def test_a_leader_knows_who_led_before_it_and_how_long_nobody_who_elected_it_has_heard_of_that() -> None:
    assert elected({3: 4000}).former_leader(6000) == (2, 4900)
    assert elected({3: 10**9}).former_leader(6000) == (2, 5900)  # it has heard of it at 100 itself
    assert elected({3: 0}).former_leader(6000) == (2, 900)
    assert elected({3: -1}).former_leader(6000) == (2, 900)  # who does not say may just have heard of it
    assert make_node().former_leader(0) is None
