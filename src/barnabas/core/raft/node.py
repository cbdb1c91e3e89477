"""One node of the quorum: every input is a method, and each returns what the driver has to do (`output`).

Time is an argument, in milliseconds of a clock that never goes back; chance comes from a `Dice`. A node is made of what
its disk holds (`Restored`), and `start` is its first step. After each step `deadline_ms` says when to call `tick`.
"""

from collections.abc import Iterable

import msgspec

from barnabas.core.errors import InconsistentClusterId, NotController, UnknownLeaderEpoch
from barnabas.core.raft import following, leading, looking_on, membership, snapshots, strangers, transitions, voting
from barnabas.core.raft.epochs import is_credible
from barnabas.core.raft.joining import VoterChange, due_change
from barnabas.core.raft.log_view import BOOTSTRAP_SNAPSHOT, EpochStart, LogView, SnapshotId
from barnabas.core.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from barnabas.core.raft.output import Output, QuorumState, Reply
from barnabas.core.raft.state import (
    Candidate,
    Dice,
    Follower,
    Leader,
    Prospective,
    RaftConfig,
    RaftState,
    Resigned,
    Role,
    Unattached,
)
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterEndpoint, VoterHistory, VotersAt, VoterSet


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What a disk holds when its node starts. `voters`: those of the newest snapshot, then of the log after it."""

    quorum: QuorumState | None = None
    start_offset: int = 0
    end_offset: int = 0
    epochs: tuple[EpochStart, ...] = ()
    snapshots: tuple[SnapshotId, ...] = ()
    voters: tuple[VotersAt, ...] = ()


class RaftNode:
    """The state machine of one node."""

    def __init__(
        self,
        key: ReplicaKey,
        cluster_id: str,
        restored: Restored,
        *,
        dice: Dice,
        config: RaftConfig | None = None,
        static_voters: VoterSet = NO_VOTERS,
        forms_quorum: bool = False,
    ) -> None:
        """`static_voters` vote until the log says who does. `forms_quorum`: they are this node alone, and not from a
        fixed list, so it writes itself to the log as the first voter.
        """
        log = LogView(
            start_offset=restored.start_offset,
            end_offset=restored.end_offset,
            epochs=restored.epochs,
            snapshots=restored.snapshots,
        )
        voters = VoterHistory(static_voters, restored.voters)
        self._state = RaftState(
            key, cluster_id, config or RaftConfig(), dice=dice, log=log, voters=voters, forms_quorum=forms_quorum
        )
        self._restored = restored

    # What the driver may look at

    @property
    def role(self) -> Role:
        """What the node is now."""
        return self._state.role

    @property
    def quorum(self) -> QuorumState:
        """Epoch, leader and vote."""
        return self._state.quorum

    @property
    def leadership(self) -> tuple[int | None, int]:
        """Who leads which epoch, as far as this node knows, which may be in a newer one, see `looking_on`."""
        return self._state.looking_on or (self.quorum.leader_id, self.quorum.epoch)

    @property
    def key(self) -> ReplicaKey:
        """Who this node is."""
        return self._state.key

    @property
    def cluster_id(self) -> str:
        """The cluster that it belongs to."""
        return self._state.cluster_id

    @property
    def config(self) -> RaftConfig:
        """The times of the quorum."""
        return self._state.config

    @property
    def log(self) -> LogView:
        """The log as Raft sees it: to look at."""
        return self._state.log

    @property
    def voters(self) -> VoterHistory:
        """The voters along the log: to look at."""
        return self._state.voters

    @property
    def is_voter(self) -> bool:
        """Whether this node is in the set that rules."""
        return self._state.is_voter

    @property
    def high_watermark(self) -> int:
        """Up to where records are known to be committed; -1: nothing is known."""
        return self._state.high_watermark

    def confirmed_ms(self, now_ms: int) -> int | None:
        """The latest time at which this node was certainly the only leader; None if it does not lead, or not yet."""
        role = self._state.role
        return leading.confirmed_ms(self._state, role, now_ms=now_ms) if isinstance(role, Leader) else None

    def former_leader(self, now_ms: int) -> tuple[int, int] | None:
        """Who led before this node, and how long ago it can last have been sure of that; None if this does not lead.

        Whoever is sure that it leads has heard that a majority follows it. Of any majority somebody has elected this
        node, and said when a leader last answered it: what a leader hears of it is from before that.
        """
        role = self._state.role
        if not isinstance(role, Leader) or role.former_id is None:
            return None
        return role.former_id, max(now_ms - role.heard_ms, 0)

    @property
    def deadline_ms(self) -> int | None:
        """When `tick` has something to do, if nothing else comes before."""
        times = [self._state.requests.deadline_ms, *self._role_deadlines_ms()]
        return min((time for time in times if time is not None), default=None)

    def _role_deadlines_ms(self) -> list[int]:
        role = self._state.role
        if isinstance(role, Leader):
            return leading.deadlines_ms(self._state, role)
        if isinstance(role, Resigned):
            return [] if role.is_final or not self._state.has_next_epoch else [role.deadline_ms]
        return [role.deadline_ms] if self._state.may_stand else []

    def describe(self) -> list[leading.ReplicaDescription]:
        """What a leader knows of the replicas, itself first; nothing elsewhere."""
        return leading.describe(self._state)

    # Time and the disk

    def listen_at(self, endpoints: Iterable[VoterEndpoint]) -> None:
        """The others find this node here; said before the first step."""
        self._state.endpoints = tuple(endpoints)

    def start(self, now_ms: int) -> Output:
        """The first step: where the node stands after what its disk says."""
        state, restored = self._state, self._restored
        self._repair_log()
        quorum = state.quorum = state.persisted = restored.quorum or QuorumState()
        deadline_ms = now_ms + state.random_election_timeout_ms()
        state.role = Unattached(deadline_ms=deadline_ms)
        if quorum.epoch < state.log.last_epoch:
            state.quorum = QuorumState(state.log.last_epoch)
        elif quorum.leader_id == state.node_id:
            # It may have lost records that it sent to others: under this epoch it must not write again.
            unaware = set(state.other_voters.node_ids)
            state.role = Resigned(deadline_ms=deadline_ms, successors=(), unaware=unaware)
        elif quorum.voted == state.key and quorum.leader_id is None and state.may_stand:
            transitions.resume_candidate(state, now_ms=now_ms)
        elif quorum.leader_id is not None:
            state.role = Follower(deadline_ms=now_ms + state.config.fetch_timeout_ms)
        if not state.has_next_epoch:
            state.note(f"epoch {state.epoch} is the last that there is: this node can be elected no more")
        if state.may_stand and leading.is_sole_voter(state) and not isinstance(state.role, Leader):
            transitions.become_prospective(state, now_ms=now_ms)
        return self._settle(now_ms)

    def _repair_log(self) -> None:
        """A snapshot that the log does not lead up to was fetched just before a crash: it replaces the log."""
        state, last = self._state, self._state.log.last_snapshot
        if last is None or last == BOOTSTRAP_SNAPSHOT:
            return
        if state.log.unreached_snapshot is not None:
            snapshots.install(state, last, state.voters.at(last.end_offset))
        state.high_watermark = last.end_offset

    def tick(self, now_ms: int) -> Output:
        """Time has passed."""
        return self._settle(now_ms)

    def appended(self, end_offset: int, *, epoch: int, now_ms: int) -> Output:
        """The driver has appended records to the log of the leader, up to `end_offset`, under its epoch."""
        self.check_leads(epoch)
        self._state.log.append(end_offset, epoch)
        if isinstance(self._state.role, Leader):
            leading.release_parked(self._state, self._state.role)
        return self._settle(now_ms)

    def check_leads(self, epoch: int) -> None:
        """Refuse an append unless this node leads this very epoch."""
        state = self._state
        if not isinstance(state.role, Leader) or state.epoch != epoch:
            raise NotController(f"node {state.node_id} does not lead epoch {epoch}")

    def flushed(self, end_offset: int, *, epoch: int, now_ms: int) -> Output:
        """The log is on disk up to `end_offset`, and the last record before it was of `epoch` when the sync began."""
        if self._state.log.flushed(end_offset, epoch) and isinstance(self._state.role, Leader):
            leading.advance(self._state, self._state.role)
        return self._settle(now_ms)

    def snapshots_kept(self, kept: Iterable[SnapshotId], *, log_start_offset: int, now_ms: int) -> Output:
        """The driver has taken a snapshot, or removed old ones and the log before them."""
        self._state.log.keep(kept, start_offset=log_start_offset)
        self._state.voters.forget_before(log_start_offset)
        if isinstance(self._state.role, Leader):
            leading.advance(self._state, self._state.role)
        return self._settle(now_ms)

    def snapshot_ready(self, snapshot: SnapshotId, voters: VoterSet, *, now_ms: int) -> Output:
        """A snapshot that was fetched is synced and sound, and holds these voters (none: they are fixed)."""
        snapshots.on_snapshot_ready(self._state, snapshot, voters)
        return self._settle(now_ms)

    def snapshot_failed(self, snapshot: SnapshotId, *, now_ms: int) -> Output:
        """A snapshot that was fetched is damaged."""
        snapshots.on_snapshot_failed(self._state, snapshot)
        return self._settle(now_ms)

    # Messages

    def receive(self, request: Request, token: object, *, now_ms: int, snapshot_size_bytes: int = 0) -> Output:
        """A request of a peer; the reply, now or later, has the same token.

        `snapshot_size_bytes`: how large the snapshot is that a `FetchSnapshotRequest` names, if there is one.
        """
        state = self._state
        state.has_heard_its_own |= request.cluster_id == state.cluster_id
        if isinstance(request, FetchRequest):
            leading.on_fetch_request(state, request, token, now_ms=now_ms)
        else:
            response: Response
            if isinstance(request, VoteRequest):
                response = voting.on_vote_request(state, request, now_ms=now_ms)
            elif isinstance(request, BeginQuorumEpochRequest):
                response = voting.on_begin_epoch(state, request, now_ms=now_ms)
            elif isinstance(request, EndQuorumEpochRequest):
                response = voting.on_end_epoch(state, request, now_ms=now_ms)
            else:
                response = snapshots.on_snapshot_request(state, request, size_bytes=snapshot_size_bytes, now_ms=now_ms)
            state.output.replies.append(Reply(token, response))
        return self._settle(now_ms)

    def receive_response(self, peer: int, request_id: int, response: Response, *, now_ms: int) -> Output:
        """A peer's answer to the request with this id. An answer that is no longer expected changes nothing."""
        request = self._state.requests.end(peer, request_id)
        is_look = request is not None and looking_on.take(self._state, peer, request, response, now_ms=now_ms)
        if request is not None and not is_look and self._learn(peer, response, now_ms=now_ms):
            self._dispatch(peer, request, response, now_ms=now_ms)
        return self._settle(now_ms)

    def request_failed(self, peer: int, request_id: int, *, now_ms: int) -> Output:
        """There will be no answer: the peer cannot be reached, or the connection is gone."""
        if self._state.requests.end(peer, request_id) is not None:
            self._state.requests.pause(peer, now_ms=now_ms)
        return self._settle(now_ms)

    def _learn(self, peer: int, response: Response, *, now_ms: int) -> bool:
        """Take from an answer what it says of the epoch and its leader; whether its own matter is of interest then."""
        state, refusal = self._state, response.refusal
        if refusal is InconsistentClusterId:
            strangers.note_stranger(state, peer)
            state.requests.pause(peer, now_ms=now_ms)
            return False
        strangers.note_own(state, peer)
        # A node that has lost what it must not forget may be told that it leads: it knows of no leader then.
        leader_id = response.leader_id
        if leader_id == state.node_id:
            leader_id = state.leader_id if response.epoch == state.epoch else None
        if not is_credible(state.epoch, response.epoch):
            state.note(f"node {peer} says that it is in epoch {response.epoch}: that is not believed in {state.epoch}")
            state.requests.pause(peer, now_ms=now_ms)
            return False
        if not transitions.is_consistent(state, response.epoch, leader_id):
            state.note(f"node {peer} says that node {leader_id} leads epoch {response.epoch}, which cannot be")
            state.requests.pause(peer, now_ms=now_ms)
            return False
        if response.epoch < state.epoch or refusal is UnknownLeaderEpoch:
            looking_on.begin_or_pause(state, peer, response, now_ms=now_ms)
            return False
        is_newer, before = response.epoch > state.epoch, state.quorum
        transitions.learn(state, response.epoch, leader_id, now_ms=now_ms)
        if refusal is not None:
            if state.quorum == before:
                state.requests.pause(peer, now_ms=now_ms)  # nothing was learned: the next answer will be the same
            return not isinstance(response, FetchResponse)
        return not is_newer

    def _dispatch(self, peer: int, request: Request, response: Response, *, now_ms: int) -> None:
        state = self._state
        if isinstance(request, VoteRequest) and isinstance(response, VoteResponse):
            voting.on_vote_response(state, peer, request, response, now_ms=now_ms)
        elif isinstance(request, FetchRequest) and isinstance(response, FetchResponse):
            following.on_fetch_response(state, peer, request, response, now_ms=now_ms)
        elif isinstance(request, FetchSnapshotRequest) and isinstance(response, FetchSnapshotResponse):
            snapshots.on_snapshot_response(state, peer, request, response, now_ms=now_ms)
        elif isinstance(request, EndQuorumEpochRequest) and isinstance(state.role, Resigned):
            state.role.unaware.discard(peer)

    def check_leader_request(self, epoch: int) -> None:
        """Refuse what a voter asks of the leader of an epoch, unless this node is that leader."""
        refusal = leading.check_for_leader(self._state, self._state.cluster_id, epoch)
        if refusal is not None:
            raise refusal(f"node {self._state.node_id} is in epoch {self._state.epoch}, led by {self._state.leader_id}")

    def due_change(self, *, joins: bool) -> VoterChange | None:
        """What this node has to ask of the leader for its place among the voters, see `joining`."""
        return due_change(self._state, joins=joins)

    # What administrators ask

    def resign(self, *, now_ms: int) -> Output:
        """The node is about to stop: if it leads, let others lead. It stays resigned."""
        if isinstance(self._state.role, Leader):
            transitions.resign(self._state, now_ms=now_ms, is_final=True)
        return self._settle(now_ms)

    def check_can_add(self, key: ReplicaKey) -> None:
        """Refuse what `add_voter` would refuse of this replica at any time."""
        membership.check_can_add(self._state, key)

    def add_voter(self, voter: Voter, token: object, *, now_ms: int) -> Output:
        """Have an observer vote, see `membership`. Refusals are raised; success comes as `Output.changes`."""
        membership.add_voter(self._state, voter, token, now_ms=now_ms)
        return self._settle(now_ms)

    def remove_voter(self, key: ReplicaKey, token: object, *, now_ms: int) -> Output:
        """Have a voter vote no more."""
        membership.remove_voter(self._state, key, token, now_ms=now_ms)
        return self._settle(now_ms)

    def update_voter(self, voter: Voter, token: object, *, now_ms: int) -> Output:
        """Note where a voter listens."""
        membership.update_voter(self._state, voter, token, now_ms=now_ms)
        return self._settle(now_ms)

    def make_dynamic(self, token: object, *, now_ms: int) -> Output:
        """Write a fixed list of voters to the log, so that it can change."""
        membership.make_dynamic(self._state, token, now_ms=now_ms)
        return self._settle(now_ms)

    # After every step

    def _settle(self, now_ms: int) -> Output:
        self._state.requests.expire(now_ms)
        while self._pass_deadline(now_ms):
            pass
        self._send_due(now_ms)
        return self._state.take_output()

    def _pass_deadline(self, now_ms: int) -> bool:
        """Change the role if its time is up; whether it was."""
        state, role = self._state, self._state.role
        if isinstance(role, Leader):
            leading.expire_change(state, role, now_ms=now_ms)
            leading.release_parked(state, role, now_ms=now_ms)
            leading.forget_observers(state, role, now_ms=now_ms)
            if leading.is_removed(state, role) or leading.is_quorum_lost(state, role, now_ms=now_ms):
                transitions.resign(state, now_ms=now_ms)
                return True
            return False
        if isinstance(role, Resigned):
            if role.is_final or not state.has_next_epoch or now_ms < role.deadline_ms:
                return False
            transitions.become_unattached(state, state.epoch + 1, now_ms=now_ms)
            return True
        if not state.may_stand or now_ms < role.deadline_ms:
            return False
        if isinstance(role, Prospective):
            transitions.follow_or_wait(state, now_ms=now_ms)
        else:
            transitions.become_prospective(state, now_ms=now_ms)
        return True

    def _send_due(self, now_ms: int) -> None:
        state, role = self._state, self._state.role
        if isinstance(role, Leader):
            leading.send_begin_epoch(state, role, now_ms=now_ms)
        elif isinstance(role, Prospective | Candidate):
            voting.send_votes(state, role, now_ms=now_ms)
        elif isinstance(role, Unattached):
            following.look_for_leader(state, now_ms=now_ms)
        elif isinstance(role, Resigned):
            voting.send_end_epoch(state, role, now_ms=now_ms)
        elif role.snapshot is not None:
            snapshots.send_fetch_snapshot(state, role.snapshot, now_ms=now_ms)
        else:
            following.send_fetch(state, now_ms=now_ms)
