"""Any message to any node: whatever numbers it has, it is answered or passed over, and no exception ends the node.

But for one: a leader that would have committed records undone is `BrokenQuorum`.
"""

from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.errors import FencedLeaderEpoch, InvalidRequest, NotLeaderOrFollower, UnknownLeaderEpoch
from barnabas.core.raft.epochs import LAST_EPOCH
from barnabas.core.raft.log_view import BatchInfo, EpochEnd, EpochStart, SnapshotId
from barnabas.core.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    VoteRequest,
    VoteResponse,
)
from barnabas.core.raft.node import RaftNode, Restored
from barnabas.core.raft.output import Output, QuorumState
from barnabas.core.raft.state import BrokenQuorum
from barnabas.core.raft.voters import ReplicaKey, Voter, VoterSet

KEYS = tuple(ReplicaKey(node_id, UUID(int=node_id)) for node_id in (1, 2, 3))
EPOCHS = st.integers(0, 9) | st.sampled_from([-(2**31), -1, 1000, 1007, LAST_EPOCH - 2**20, LAST_EPOCH - 1, LAST_EPOCH])
OFFSETS = st.integers(0, 12) | st.sampled_from([-(2**63), -1, 2**63 - 1])
NODE_IDS = st.integers(1, 4) | st.sampled_from([-(2**31), -1, 2**31 - 1])
REPLICAS = st.sampled_from(KEYS) | st.builds(ReplicaKey, NODE_IDS, st.none() | st.just(UUID(int=9)))
SNAPSHOTS = st.builds(SnapshotId, OFFSETS, EPOCHS)
CLUSTER = st.sampled_from(["castle", "castle", "castle", "bridge"])
REQUESTS = st.one_of(
    st.builds(
        VoteRequest,
        cluster_id=CLUSTER,
        epoch=EPOCHS,
        candidate=REPLICAS,
        voter=st.just(KEYS[0]) | REPLICAS,
        last_epoch=EPOCHS,
        end_offset=OFFSETS,
        is_pre_vote=st.booleans(),
    ),
    st.builds(
        BeginQuorumEpochRequest, cluster_id=CLUSTER, epoch=EPOCHS, leader_id=NODE_IDS, voter=st.just(KEYS[0]) | REPLICAS
    ),
    st.builds(
        EndQuorumEpochRequest,
        cluster_id=CLUSTER,
        epoch=EPOCHS,
        leader_id=NODE_IDS,
        successors=st.lists(REPLICAS, max_size=40).map(tuple),
    ),
    st.builds(
        FetchRequest,
        cluster_id=CLUSTER,
        epoch=EPOCHS,
        replica=REPLICAS,
        fetch_offset=OFFSETS,
        last_epoch=EPOCHS,
        high_watermark=OFFSETS,
        max_wait_ms=st.sampled_from([-1, 0, 500, 2**31 - 1]),
    ),
    st.builds(
        FetchSnapshotRequest,
        cluster_id=CLUSTER,
        epoch=EPOCHS,
        replica=REPLICAS,
        snapshot=SNAPSHOTS,
        position=OFFSETS,
    ),
)
COMMON: dict[str, Any] = {
    "epoch": EPOCHS,
    "leader_id": st.none() | NODE_IDS.filter(lambda node_id: node_id >= 0),
    "refusal": st.sampled_from(
        [None, None, FencedLeaderEpoch, UnknownLeaderEpoch, InvalidRequest, NotLeaderOrFollower]
    ),
}
BATCHES = st.lists(st.builds(BatchInfo, OFFSETS, OFFSETS, EPOCHS), max_size=2).map(tuple)
RESPONSES: dict[type[Request], st.SearchStrategy[Any]] = {
    VoteRequest: st.builds(VoteResponse, **COMMON, is_granted=st.booleans()),
    BeginQuorumEpochRequest: st.builds(BeginQuorumEpochResponse, **COMMON),
    EndQuorumEpochRequest: st.builds(EndQuorumEpochResponse, **COMMON),
    FetchRequest: st.builds(
        FetchResponse,
        **COMMON,
        high_watermark=OFFSETS,
        diverging=st.none() | st.builds(EpochEnd, EPOCHS, OFFSETS),
        snapshot=st.none() | SNAPSHOTS,
        batches=BATCHES,
    ),
    FetchSnapshotRequest: st.builds(
        FetchSnapshotResponse, **COMMON, snapshot=SNAPSHOTS, position=OFFSETS, length_bytes=OFFSETS, size_bytes=OFFSETS
    ),
}
RESTORED = (
    Restored(),
    Restored(quorum=QuorumState(5, 2), end_offset=4, epochs=(EpochStart(1, 0), EpochStart(5, 2))),
    Restored(quorum=QuorumState(5, 1, KEYS[0]), end_offset=4, epochs=(EpochStart(1, 0), EpochStart(5, 2))),
    Restored(quorum=QuorumState(5, None, KEYS[0]), end_offset=4, epochs=(EpochStart(1, 0),)),
    Restored(
        quorum=QuorumState(5, 3),
        start_offset=4,
        end_offset=6,
        epochs=(EpochStart(5, 4),),
        snapshots=(SnapshotId(4, 3),),
    ),
    Restored(quorum=QuorumState(LAST_EPOCH - 1, 2)),
    Restored(quorum=QuorumState(LAST_EPOCH, 1)),
)


class Attacked:
    """A node of three that is told anything; what it asks itself is answered with anything."""

    def __init__(self, restored: Restored) -> None:
        voters = VoterSet.of(map(Voter, KEYS))
        self.node = RaftNode(KEYS[0], "castle", restored, dice=Random(1), static_voters=voters)
        self.now_ms = 0
        self._asked: list[Any] = []
        self.note(self.node.start(0))

    def note(self, output: Output) -> None:
        self._asked += output.requests

    def step(self, data: st.DataObject) -> None:
        before = self.node.quorum.epoch
        match data.draw(st.sampled_from(["request", "request", "answer", "answer", "time", "sync"])):
            case "request":
                request = data.draw(REQUESTS)
                if data.draw(st.booleans()):
                    request = msgspec.structs.replace(request, epoch=before + data.draw(st.integers(0, 1)))
                self.note(self.node.receive(request, "t", now_ms=self.now_ms, snapshot_size_bytes=100))
            case "answer" if self._asked:
                asked = self._asked.pop()
                response = data.draw(RESPONSES[type(asked.request)])
                if data.draw(st.booleans()):  # else most are of another epoch, and do not get far
                    response = msgspec.structs.replace(
                        response, epoch=before, leader_id=self.node.quorum.leader_id, refusal=None
                    )
                self.note(self.node.receive_response(asked.to, asked.request_id, response, now_ms=self.now_ms))
            case "sync":
                log = self.node.log
                self.note(self.node.flushed(log.end_offset, epoch=log.last_epoch, now_ms=self.now_ms))
            case _:
                self.now_ms += data.draw(st.sampled_from([1, 30, 700, 5000]))
                self.note(self.node.tick(self.now_ms))
        assert before <= self.node.quorum.epoch <= LAST_EPOCH
        assert self.node.deadline_ms is None or self.node.deadline_ms > self.now_ms


@pytest.mark.parametrize("restored", RESTORED, ids=lambda restored: str(restored.quorum))
@settings(max_examples=30)
@given(data=st.data())
def test_no_message_ends_a_node(restored: Restored, data: st.DataObject) -> None:
    attacked = Attacked(restored)
    for _ in range(12):
        try:
            attacked.step(data)
        except BrokenQuorum:
            return
