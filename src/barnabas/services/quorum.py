"""This node's part in the quorum, as other nodes and administrators ask for it.

Requests of the quorum are carried out by any node, changes of the voters and descriptions by its leader alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from barnabas.core.errors import (
    BarnabasError,
    InconsistentClusterId,
    InvalidRequest,
    NotLeaderOrFollower,
    PeerError,
    RequestTimedOut,
    UnsupportedVersion,
)
from barnabas.core.metadata.quorum import Quorum
from barnabas.core.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Request,
)
from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.output import Output
from barnabas.core.raft.state import Leader
from barnabas.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.runtime.metadata_log import MetadataLog
from barnabas.runtime.raft_driver import Answer
from barnabas.services.features import KRAFT_VERSION

if TYPE_CHECKING:
    from barnabas.runtime.raft_driver.peers import WirePeers
    from barnabas.runtime.raft_driver.wire_answers import LeaderAt

Change: TypeAlias = Callable[[RaftNode, object, int], Output]


class QuorumService:
    """Answers for the quorum. `peers` is the way to the others, once there is one."""

    def __init__(self, metadata: MetadataLog, peers: WirePeers | None = None) -> None:
        self._metadata = metadata
        self.peers = peers

    @property
    def cluster_id(self) -> str:
        """The cluster that the quorum is of."""
        return self._metadata.driver.node.cluster_id

    @property
    def replica(self) -> ReplicaKey:
        """Who this node is in it."""
        return self._metadata.driver.node.key

    @property
    def voters(self) -> VoterSet:
        """The voters that rule."""
        return self._metadata.driver.node.voters.current

    @property
    def epoch(self) -> int:
        """The epoch that this node is in."""
        return self._metadata.epoch

    @property
    def leader_id(self) -> int | None:
        """Who leads, as far as this node knows."""
        return self._metadata.driver.node.quorum.leader_id

    @property
    def log_start_offset(self) -> int:
        """Where the metadata log begins."""
        return self._metadata.log_start_offset

    def leader_at(self, leader_id: int | None) -> LeaderAt | None:
        """Where a leader is found, if that is known."""
        return None if self.peers is None else self.peers.leader_at(leader_id)

    async def handle(self, request: Request, *, endpoints: Sequence[VoterEndpoint] = ()) -> Answer:
        """Answer another node of the quorum. `endpoints`: where a leader that announces itself listens."""
        answer = await self._metadata.driver.handle(request)
        if isinstance(request, BeginQuorumEpochRequest | EndQuorumEpochRequest):
            self._note_leader(request.leader_id, answer, endpoints)
        return answer

    def _note_leader(self, leader_id: int, answer: Answer, endpoints: Sequence[VoterEndpoint]) -> None:
        response = answer.response
        if self.peers is not None and response.refusal is None and response.leader_id == leader_id:
            self.peers.note_endpoints(leader_id, endpoints)

    # Changes of the voters

    async def add_voter(self, voter: Voter, *, cluster_id: str | None = None, is_awaited: bool = True) -> None:
        """Have an observer vote; returns when that is committed, or, not awaited, when it is in the log."""
        self._check_leads(cluster_id)
        _check_key(voter.key)
        from barnabas.runtime.raft_driver.peers import choose_endpoint  # noqa: PLC0415 - voters are rarely added

        if choose_endpoint(voter.endpoints, "") is None:
            raise InvalidRequest(f"the request does not say where node {voter.key.node_id} listens for controllers")
        self._metadata.driver.node.check_can_add(voter.key)
        await self._probe(voter)
        await self._metadata.driver.change_voters(
            lambda node, token, now_ms: node.add_voter(voter, token, now_ms=now_ms), is_awaited=is_awaited
        )

    async def _probe(self, voter: Voter) -> None:
        """Have a node say, where it is to listen, that it knows what the voters are written in: if it cannot be reached
        there, or cannot read that, its vote would be missing from the moment that it counts.
        """
        if self.peers is None:
            return
        node_id, level = voter.key.node_id, self.kraft_version
        try:
            features = await self.peers.features_of(voter)
        except PeerError as error:
            raise RequestTimedOut(
                f"node {node_id} does not answer where it is to listen for controllers: {error}"
            ) from error
        except UnsupportedVersion as error:
            raise InvalidRequest(f"node {node_id} does not say which features it knows: {error}") from error
        known = features.get(KRAFT_VERSION, range(0))
        if level not in known:
            says = f"{known.start} to {known.stop - 1}" if known else "none"
            raise InvalidRequest(f"node {node_id} does not know level {level} of {KRAFT_VERSION}, it knows {says}")

    async def remove_voter(self, key: ReplicaKey, *, cluster_id: str | None = None) -> None:
        """Have a voter vote no more; returns when that is committed."""
        self._check_leads(cluster_id)
        _check_key(key)
        await self._change(lambda node, token, now_ms: node.remove_voter(key, token, now_ms=now_ms))

    async def update_voter(self, voter: Voter, *, epoch: int, cluster_id: str | None = None) -> None:
        """Note where a voter listens; returns when that is committed."""
        from barnabas.runtime.raft_driver.wire_requests import check_cluster  # noqa: PLC0415 - a node alone has no voters

        check_cluster(cluster_id, self.cluster_id)
        self._metadata.driver.node.check_leader_request(epoch)
        _check_key(voter.key)
        if not voter.endpoints:
            raise InvalidRequest(f"the request does not say where node {voter.key.node_id} listens for controllers")
        await self._change(lambda node, token, now_ms: node.update_voter(voter, token, now_ms=now_ms))

    async def make_dynamic(self) -> None:
        """Have the log say who votes (kraft.version 1), and no fixed list; done if it does already."""
        self._check_leads(None)
        await self._change(lambda node, token, now_ms: node.make_dynamic(token, now_ms=now_ms))

    @property
    def kraft_version(self) -> int:
        """1 if the log says who votes, 0 if a fixed list does."""
        return 0 if self._metadata.driver.node.voters.last_entry is None else 1

    async def _change(self, change: Change) -> None:
        await self._metadata.driver.change_voters(change)

    # Descriptions

    def describe(self) -> Quorum:
        """The quorum as its leader knows it; `NotLeaderOrFollower` elsewhere."""
        self._check_leads(None)
        return self._metadata.quorum

    def _check_leads(self, cluster_id: str | None) -> None:
        self._check_cluster(cluster_id)
        if not isinstance(self._metadata.driver.node.role, Leader):
            raise self._not_leading()

    def _not_leading(self) -> BarnabasError:
        leader = "nobody" if self.leader_id is None else f"node {self.leader_id}"
        return NotLeaderOrFollower(f"node {self.replica.node_id} does not lead the quorum; {leader} does")

    def _check_cluster(self, cluster_id: str | None) -> None:
        if cluster_id is not None and cluster_id != self.cluster_id:
            raise InconsistentClusterId(f"this is the cluster {self.cluster_id!r}, not {cluster_id!r}")


def _check_key(key: ReplicaKey) -> None:
    if key.node_id < 0 or key.directory_id is None:
        raise InvalidRequest("a voter is a node id and the id of its data directory; the request has not both")
