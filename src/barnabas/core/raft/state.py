"""The state of one node: what all parts of the machine read and change.

What is in `QuorumState` is durable, the rest is gone after a restart. A role holds what only makes sense in it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

import msgspec

from barnabas.core.model import NO_OFFSET
from barnabas.core.raft.epochs import LAST_EPOCH
from barnabas.core.raft.log_view import BatchInfo, LogView, SnapshotId
from barnabas.core.raft.messages import FetchRequest, Request
from barnabas.core.raft.output import (
    AppendControl,
    ControlRecord,
    OutgoingRequest,
    Output,
    QuorumState,
    Voters,
)
from barnabas.core.raft.requests import Requests
from barnabas.core.raft.voters import ReplicaKey, VoterEndpoint, VoterHistory, VotersAt, VoterSet

CHECK_QUORUM_FACTOR: Final = 1.5


class BrokenQuorum(Exception):
    """What a leader asks for would undo what is committed: data or votes were lost. The node must stop."""


class Dice(Protocol):
    """Where randomness comes from."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 up to but not including `stop`, all equally likely."""
        ...


FIRST_BOOTSTRAP_ID: Final = -2


def bootstrap_ids(count: int) -> tuple[int, ...]:
    """The ids of so many bootstrap servers, of which only the address is known, for `RaftConfig`."""
    return tuple(FIRST_BOOTSTRAP_ID - index for index in range(count))


class RaftConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a quorum, Kafka's by default."""

    election_timeout_ms: int = 1000
    """Elections time out after one to two times this."""
    fetch_timeout_ms: int = 2000
    """A follower that cannot fetch for so long looks for another leader."""
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    """How long a leader may hold a fetch that finds nothing."""
    election_backoff_max_ms: int = 1000
    """What the last of the named successors of a leader waits."""
    bootstrap_ids: tuple[int, ...] = ()
    """Whom to ask for the leader besides the voters: ids that the driver has given to addresses."""


class Unattached(msgspec.Struct, kw_only=True):
    """Knows of no leader to fetch from. An observer has no deadline."""

    deadline_ms: int


class Prospective(msgspec.Struct, kw_only=True):
    """Asks whether it would be elected, in the epoch that it is in."""

    deadline_ms: int
    granting: set[int]
    refusing: set[int] = msgspec.field(default_factory=set)


class Candidate(msgspec.Struct, kw_only=True):
    """Asks to be elected in a new epoch."""

    deadline_ms: int
    granting: set[int]
    heard_ms: int
    """The latest time at which those who vote for it may have heard from a leader before it."""
    refusing: set[int] = msgspec.field(default_factory=set)


class SnapshotFetch(msgspec.Struct, kw_only=True):
    """A snapshot that is being fetched; `is_finishing` while the driver syncs it."""

    snapshot: SnapshotId
    position: int = 0
    is_finishing: bool = False


class Follower(msgspec.Struct, kw_only=True):
    """Fetches from the leader. A voter gives it up at the deadline."""

    deadline_ms: int
    has_fetched: bool = False
    is_leader_leaving: bool = False
    """The leader has said that it leads no more; what it still answers is no sign of life."""
    snapshot: SnapshotFetch | None = None
    leader_ms: int = 0
    """The latest time of the leader that is known from its answers."""

    def note_contact(self, deadline_ms: int) -> None:
        """The leader has answered."""
        if not self.is_leader_leaving:
            self.has_fetched = True
            self.deadline_ms = deadline_ms


class Progress(msgspec.Struct, kw_only=True):
    """What a leader knows of a replica in its epoch."""

    durable_end: int = NO_OFFSET
    last_fetch_ms: int | None = None
    followed_ms: int | None = None
    """The latest time at which this replica certainly followed the leader."""
    last_fetch_end: int = NO_OFFSET
    """Where the leader's log ended at that time."""
    last_caught_up_ms: int | None = None
    """The latest time of which this replica has all that the log held then."""
    directory_id: UUID | None = None
    """What the replica says that its data directory is."""
    begin_due_ms: int
    """When to tell this voter who leads, unless it fetches before."""


class ParkedFetch(msgspec.Struct, kw_only=True):
    """A fetch that found nothing new, and waits for something."""

    token: object
    request: FetchRequest
    deadline_ms: int
    received_ms: int


class PendingChange(msgspec.Struct, kw_only=True):
    """A change of the voters that is in the log at `offset` and not committed."""

    token: object
    offset: int
    deadline_ms: int


class Leader(msgspec.Struct, kw_only=True):
    """Leads an epoch. Its high watermark is unknown until a record of the epoch is committed."""

    epoch_start_offset: int
    progress: dict[ReplicaKey, Progress]
    fetched: set[int]
    """Voters that have fetched since the quorum was last seen whole."""
    quorum_deadline_ms: int
    heard_ms: int
    """The latest time at which those who elected it may have heard from a leader before it."""
    former_id: int | None
    """Who led last, as far as this node knew."""
    high_watermark: int = NO_OFFSET
    parked: dict[ReplicaKey, ParkedFetch] = msgspec.field(default_factory=dict)
    change: PendingChange | None = None


class Resigned(msgspec.Struct, kw_only=True):
    """Led this epoch and does no more; tells the others so. `is_final`: until the node is gone."""

    deadline_ms: int
    successors: tuple[ReplicaKey, ...]
    unaware: set[int]
    is_final: bool = False


Role: TypeAlias = Unattached | Prospective | Candidate | Follower | Leader | Resigned


class LookingOn(NamedTuple):
    """A leader whose log a node reads that is no voter, and in a newer epoch itself, see `looking_on`."""

    leader_id: int
    epoch: int


class RaftState:
    """One node's state and what it asks of its driver in the current step."""

    def __init__(
        self,
        key: ReplicaKey,
        cluster_id: str,
        config: RaftConfig,
        *,
        dice: Dice,
        log: LogView,
        voters: VoterHistory,
        forms_quorum: bool = False,
    ) -> None:
        self.key = key
        self.cluster_id = cluster_id
        self.config = config
        self.dice = dice
        self.log = log
        self.voters = voters
        self.forms_quorum = forms_quorum
        self.endpoints: tuple[VoterEndpoint, ...] = ()
        """Where this node listens for the others."""
        self.quorum = QuorumState()
        self.persisted: QuorumState | None = None
        self.high_watermark = NO_OFFSET
        """What this node knows to be committed. It outlives changes of role: committed is committed."""
        self.role: Role = Unattached(deadline_ms=0)
        self.heard_ms: int | None = None
        """The latest time at which a leader has answered this node, or it has led itself; None: not since its start."""
        self.former_id: int | None = None
        """Who led last, as far as this node knows."""
        self.looking_on: LookingOn | None = None
        self.ahead_in: int | None = None
        """The last epoch of this node that the quorum was found to be behind: said once."""
        self.strangers: set[int] = set()
        """Peers that answered last that they belong to another cluster."""
        self.has_heard_its_own = False
        """Whether anybody of this cluster was heard since the start."""
        self.requests = Requests(timeout_ms=config.request_timeout_ms, backoff_ms=config.retry_backoff_ms)
        self.output = Output()

    @property
    def node_id(self) -> int:
        return self.key.node_id

    @property
    def epoch(self) -> int:
        return self.quorum.epoch

    @property
    def leader_id(self) -> int | None:
        return self.quorum.leader_id

    @property
    def is_voter(self) -> bool:
        """Whether this node is in the set that rules."""
        return self.voters.current.find(self.key) is not None

    @property
    def may_stand(self) -> bool:
        """Whether this node may be elected: as a voter, or as one that a change removes that may not be committed.

        The others may not have that change. They get no vote from this node, whose log is longer, and may need it.
        """
        change = self.voters.last_entry
        if not self.has_next_epoch:
            return False
        if self.is_voter or change is None:
            return self.is_voter
        return change.offset >= self.high_watermark and self.voters.at(change.offset).find(self.key) is not None

    @property
    def has_next_epoch(self) -> bool:
        """Whether there is an epoch left for another election."""
        return self.epoch < LAST_EPOCH

    @property
    def is_own_vote_enough(self) -> bool:
        return self.is_voter and self.voters.current.majority == 1

    @property
    def other_voters(self) -> VoterSet:
        return self.voters.current.without(self.key)

    def random_election_timeout_ms(self) -> int:
        """From one election timeout to two."""
        return self.config.election_timeout_ms + self.dice.randrange(self.config.election_timeout_ms)

    def send(self, to: int, request: Request, *, now_ms: int) -> None:
        """Have a request sent to a peer that none is under way to."""
        request_id = self.requests.begin(to, request, now_ms=now_ms)
        self.output.requests.append(OutgoingRequest(to, request_id, request))

    def append_control(self, records: Sequence[ControlRecord]) -> int:
        """Append control records as the leader; the offset of the last one."""
        base_offset = self.log.end_offset
        self.output.operations.append(AppendControl(base_offset, self.epoch, tuple(records)))
        voters = [
            VotersAt(base_offset + i, record.voters) for i, record in enumerate(records) if isinstance(record, Voters)
        ]
        self.note_batch(BatchInfo(base_offset, base_offset + len(records), self.epoch, voters[-1] if voters else None))
        return base_offset + len(records) - 1

    def note_batch(self, batch: BatchInfo) -> None:
        """A batch is appended to the log."""
        self.log.append(batch.end_offset, batch.epoch)
        if batch.voters is not None:
            self.voters.append(batch.voters)

    def raise_high_watermark(self, offset: int) -> None:
        """Records below `offset` are committed."""
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.output.high_watermark = offset

    def note(self, text: str) -> None:
        """Have a line written to the node's log."""
        self.output.notes.append(text)

    def take_output(self) -> Output:
        """What this step asks for; the next begins with nothing."""
        if self.quorum != self.persisted:
            self.output.persist = self.persisted = self.quorum
        output, self.output = self.output, Output()
        return output
