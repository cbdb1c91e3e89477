"""What members of groups were told, and whether it fits together: the checker of the simulation of groups.

Everything is noted as clients see it, from answers alone. Moments are ticks, which only grow. A commit is *firm* from
when it was acknowledged or fetched on: from then on nothing older may be fetched, and nothing lower, for whoever owns a
partition goes on from what is committed, and whoever does not own it any more must be refused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.simulation.node_history import Violation

SESSION_S: Final = 3.0  # of every member
NEVER: Final = 1 << 62
NO_OFFSET: Final = -1


class At(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Author(NamedTuple):
    """Who commits: a member in a generation or an epoch."""

    member_id: str
    epoch: int


@dataclass(slots=True, eq=False)
class Commit:
    """An offset that somebody tried to commit. Its tag, which is its metadata, tells it from all others."""

    at: At
    offset: int
    tag: str
    author: Author
    sent: int
    firm: int = NEVER
    is_refused: bool = False


class OffsetHistory:
    """All that was committed for one partition by one group."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.commits: dict[str, Commit] = {}
        self._firm: list[Commit] = []

    def note_sent(self, commit: Commit) -> None:
        self.commits[commit.tag] = commit

    def note_acked(self, commit: Commit, now: int) -> None:
        self._make_firm(commit, now)

    def note_fetched(self, offset: int, tag: str, *, asked: int, now: int) -> None:
        """An answer to a fetch that was sent at `asked`."""
        found = self.commits.get(tag) if offset != NO_OFFSET else None
        if offset != NO_OFFSET and (found is None or found.offset != offset or found.is_refused):
            raise Violation(f"{self.name}: {offset} ({tag!r}) is committed, but not by anybody")
        known_at = NO_OFFSET if found is None else found.firm
        for firm in self._firm:
            if firm.firm <= asked and firm.sent > known_at:
                raise Violation(f"{self.name}: {firm.offset} ({firm.tag}) is lost, {offset} ({tag}) came")
        if found is not None:
            self._make_firm(found, now)

    def _make_firm(self, commit: Commit, now: int) -> None:
        if commit.firm != NEVER:
            return
        for other in self._firm:
            # A request of one member that was given up may be overtaken by its next one on another connection.
            is_by_another = other.author.member_id != commit.author.member_id
            if other.firm < now and other.offset > commit.offset and is_by_another:
                raise Violation(f"{self.name}: went back from {other.offset} ({other.tag}) to {commit.tag}")
        commit.firm = now
        self._firm.append(commit)


class Owner:
    """A member of a consumer group, and what it holds: from when it is told until it says that it does not."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.member_id = ""
        self.holds: set[At] = set()
        self.heard_s = -1e9  # when the last heartbeat was sent that was answered

    def is_live(self, now_s: float, session_s: float) -> bool:
        """Whether the coordinator cannot have given up on it yet."""
        return now_s < self.heard_s + session_s


@dataclass(slots=True, eq=False)
class GroupHistory:
    """What is known of one group."""

    name: str
    topics: tuple[str, ...]
    is_mixed: bool = False  # members of both protocols: then each has an epoch, whatever it calls it
    offsets: dict[At, OffsetHistory] = field(default_factory=dict)
    generation: int = -1  # the newest that somebody has its assignment of
    generations: dict[int, dict[str, frozenset[At]]] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)  # of members of a consumer group
    owners: list[Owner] = field(default_factory=list)
    # Members that are out; for how long that is certain: while the node runs for which it was said, or for good (None).
    gone: dict[str, int | None] = field(default_factory=dict)

    def of(self, at: At) -> OffsetHistory:
        return self.offsets.setdefault(at, OffsetHistory(f"{self.name}, {at.topic}-{at.partition}"))

    # Classic members.

    def note_synced(self, generation: int, member_id: str, who: str, partitions: Iterable[At]) -> None:
        """A member has its assignment of a generation."""
        if self.is_mixed:
            self.note_epoch(member_id, generation)
            return
        mine = frozenset(partitions)
        owners = self.generations.setdefault(generation, {})
        for other, theirs in owners.items():
            if other != who and mine & theirs:
                raise Violation(f"{self.name}: in generation {generation} {who} and {other} own {mine & theirs}")
        owners[who] = mine
        self.generation = max(self.generation, generation)

    # Members of consumer groups.

    def note_epoch(self, member_id: str, epoch: int) -> None:
        # A group that is empty, and then converted, begins anew, as Kafka's does.
        if epoch < self.epochs.get(member_id, 0) and not self.is_mixed:
            raise Violation(f"{self.name}: {member_id} went back from epoch {self.epochs[member_id]} to {epoch}")
        self.epochs[member_id] = epoch

    def check_owner(self, owner: Owner, *, now_s: float, session_s: float) -> None:
        """What a member holds, it holds alone; who has lost something to it is out."""
        if not owner.is_live(now_s, session_s):
            return
        for other in self.owners:
            both = owner.holds & other.holds if other is not owner else None
            if not both:
                continue
            if other.is_live(now_s, session_s):
                raise Violation(f"{self.name}: {owner.name} and {other.name} hold {sorted(both)}")
            self.gone[other.member_id] = None

    # All members.

    def is_fenced(self, author: Author, *, incarnation: int) -> bool:
        """Whether this author is over, as far as that is known now; incarnation 0: whatever becomes of the node."""
        return self._is_out(author, incarnation) or author.epoch < self.epochs.get(author.member_id, -1)

    def must_refuse(self, author: Author, partitions: Iterable[At], *, incarnation: int, now_s: float) -> bool:
        """Whether a commit that is sent now by this author must be refused. In an older epoch of a consumer group it
        may be for what the member has had ever since (KIP-1251), and must not be for what is another's.
        """
        if self._is_out(author, incarnation):
            return True
        is_old = author.epoch < self.epochs.get(author.member_id, -1)
        return is_old and any(self.is_held_by_another(at, author.member_id, now_s=now_s) for at in partitions)

    def is_held_by_another(self, at: At, member_id: str, *, now_s: float) -> bool:
        """Whether a member has a partition that is not this one, and cannot have lost it."""
        others = (owner for owner in self.owners if at in owner.holds and owner.member_id != member_id)
        return any(owner.is_live(now_s, SESSION_S) for owner in others)

    def _is_out(self, author: Author, incarnation: int) -> bool:
        return self.gone.get(author.member_id, -1) in (None, incarnation) or author.epoch < self.generation

    def check_all_owned(self, owned: Iterable[Iterable[At]], counts: Mapping[str, int], topics: Iterable[str]) -> str:
        """What is wrong with these being all members' partitions; nothing if they are all there, each once."""
        every = [at for each in owned for at in each]
        wanted = {At(topic, number) for topic in topics for number in range(counts[topic])}
        if len(every) != len(set(every)):
            return f"owned twice: {sorted(at for at in set(every) if every.count(at) > 1)}"
        return "" if set(every) == wanted else f"not owned: {sorted(wanted - set(every))}"
