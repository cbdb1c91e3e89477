"""Who votes: replicas, sets of voters, and the history of sets along the log.

A voter is a node with one data directory: a node whose disk was replaced is another one, which has forgotten its votes
and its log. A set that comes from configuration (kraft.version 0) knows no directories; there the node id alone counts.

A set that the log holds rules as soon as it is appended, and no longer when it is truncated.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

import msgspec

BOOTSTRAP_OFFSET = -1
"""Where a set of voters stands that this node was formatted with: before the log."""


class ReplicaKey(NamedTuple):
    """A node and its data directory; no directory where none is known."""

    node_id: int
    directory_id: UUID | None = None

    def matches(self, other: "ReplicaKey") -> bool:
        """Whether both are the same replica as far as one can tell."""
        if self.directory_id is None or other.directory_id is None:
            return self.node_id == other.node_id
        return self == other


class VoterEndpoint(NamedTuple):
    """Where a voter listens."""

    listener: str
    host: str
    port: int


class Voter(NamedTuple):
    """One voter and where it listens."""

    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()


class VoterSet(msgspec.Struct, frozen=True):
    """Voters, by node id; each node is one voter at most."""

    voters: tuple[Voter, ...]

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> "VoterSet":
        """A set of these voters, in order of their ids."""
        return cls(tuple(sorted(voters, key=lambda voter: voter.key.node_id)))

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The ids of all voters, in order."""
        return tuple(voter.key.node_id for voter in self.voters)

    @property
    def majority(self) -> int:
        """How many voters are more than half of them."""
        return len(self.voters) // 2 + 1

    def find(self, key: ReplicaKey) -> Voter | None:
        """The voter that `key` is, if it is one."""
        for voter in self.voters:
            if voter.key.matches(key):
                return voter
        return None

    def by_id(self, node_id: int) -> Voter | None:
        """The voter on a node, whatever its directory."""
        return self.find(ReplicaKey(node_id))

    def with_voter(self, added: Voter) -> "VoterSet":
        """The set with this voter, in place of one with the same node id."""
        others = [voter for voter in self.voters if voter.key.node_id != added.key.node_id]
        return VoterSet.of([*others, added])

    def without(self, key: ReplicaKey) -> "VoterSet":
        """The set without this voter."""
        return VoterSet.of(voter for voter in self.voters if not voter.key.matches(key))


NO_VOTERS = VoterSet(())


class VotersAt(NamedTuple):
    """A set of voters and the offset in the log that it was written at."""

    offset: int
    voters: VoterSet


class VoterHistory:
    """The sets of voters of one log, by offset. Before the first of them the set from configuration rules."""

    def __init__(self, static_voters: VoterSet = NO_VOTERS, entries: Iterable[VotersAt] = ()) -> None:
        self._static_voters = static_voters
        self._entries: list[VotersAt] = sorted(entries)

    @property
    def current(self) -> VoterSet:
        """The set that rules."""
        return self._entries[-1].voters if self._entries else self._static_voters

    @property
    def last_entry(self) -> VotersAt | None:
        """The set that rules and where it is in the log; None: it is from configuration and cannot change."""
        return self._entries[-1] if self._entries else None

    def at(self, end_offset: int) -> VoterSet:
        """The set that the log up to `end_offset` makes: what a snapshot that ends there has to hold."""
        index = bisect_right(self._entries, end_offset - 1, key=lambda entry: entry.offset)
        return self._entries[index - 1].voters if index else self._static_voters

    def recorded_at(self, end_offset: int) -> VoterSet:
        """The set that the log up to `end_offset` holds: none where the set is from configuration."""
        return self.at(end_offset) if self._entries and self._entries[0].offset < end_offset else NO_VOTERS

    def append(self, entry: VotersAt) -> None:
        """A set was appended to the log: it rules from now on."""
        assert not self._entries or self._entries[-1].offset < entry.offset
        self._entries.append(entry)

    def truncate_to(self, end_offset: int) -> None:
        """The log was truncated: sets that were in its end never ruled."""
        while self._entries and self._entries[-1].offset >= end_offset:
            self._entries.pop()

    def forget_before(self, start_offset: int) -> None:
        """The log begins at `start_offset` now: of the sets before it only the last is of interest."""
        index = bisect_right(self._entries, start_offset - 1, key=lambda entry: entry.offset)
        del self._entries[: max(index - 1, 0)]

    def reset(self, end_offset: int, voters: VoterSet) -> None:
        """The log was replaced by a snapshot that ends at `end_offset` and holds this set."""
        self._entries = [VotersAt(end_offset - 1, voters)] if voters.voters else []
