"""The states of share partitions, as one partition of `__share_group_state` has them, and the decisions about them.

Owns them; only `apply` changes them. A snapshot is a whole state, an update what has changed since: the log holds both,
in order, and is not compacted by key. It is cut once there are snapshots of all (`decide_snapshots`).

A state has two fences: the leader epoch of the partition that is read, so that a leader that was replaced writes
nothing more, and its own state epoch, which rises when it is initialised anew. Within both a write may come late, or
twice: its leader has sent it again, and others after it. So no write takes anything back: not the start offset, not
what is finished, not a delivery that was counted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from barnabas.core.coordination import Decision
from barnabas.core.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest
from barnabas.core.groups.share.partition import StateBatch
from barnabas.core.groups.share.window import Persisted
from barnabas.core.uuids import id_text

NO_OFFSET: Final = -1  # the start offset is for the partition's leader to choose
NO_EPOCH: Final = -1
UNKNOWN_COUNT: Final = -1
UPDATES_PER_SNAPSHOT: Final = 500


class ShareKey(NamedTuple):
    """A partition of a group."""

    group: str
    topic_id: UUID
    partition: int

    @property
    def coordinator_key(self) -> str:
        """What says which partition of `__share_group_state` it belongs to, as in FindCoordinator."""
        return f"{self.group}:{id_text(self.topic_id)}:{self.partition}"


class SnapshotRecord(NamedTuple):
    """A whole state."""

    key: ShareKey
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    create_time_ms: int
    write_time_ms: int
    batches: tuple[StateBatch, ...]


class UpdateRecord(NamedTuple):
    """What has changed of a state since its last snapshot."""

    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: tuple[StateBatch, ...]


class StateTombstone(NamedTuple):
    """A state is deleted."""

    key: ShareKey


StateEntry: TypeAlias = SnapshotRecord | UpdateRecord | StateTombstone
StateDecision: TypeAlias = Decision[StateEntry, SnapshotRecord]


@dataclass(slots=True)
class Kept:
    """A state, and how many updates there are since its snapshot."""

    state: SnapshotRecord
    updates: int = 0


@dataclass(slots=True)
class ShareStates:
    """The states of one partition of the log."""

    by_key: dict[ShareKey, Kept] = field(default_factory=dict)

    def find(self, key: ShareKey) -> SnapshotRecord | None:
        kept = self.by_key.get(key)
        return None if kept is None else kept.state

    def apply(self, entry: StateEntry) -> None:
        """Apply one entry of the log. An update without its snapshot changes nothing: the log was cut between them,
        which is done only once a later snapshot is there.
        """
        if isinstance(entry, StateTombstone):
            self.by_key.pop(entry.key, None)
        elif isinstance(entry, SnapshotRecord):
            self.by_key[entry.key] = Kept(entry)
        else:
            kept = self.by_key.get(entry.key)
            if kept is not None:
                kept.state = updated(kept.state, entry)
                kept.updates += 1

    def to_records(self) -> Iterator[SnapshotRecord]:
        """Snapshots of all."""
        for key in sorted(self.by_key):
            yield self.by_key[key].state


def updated(state: SnapshotRecord, update: UpdateRecord) -> SnapshotRecord:
    """A state after an update."""
    start_offset = max(state.start_offset, update.start_offset)
    return state._replace(
        leader_epoch=max(state.leader_epoch, update.leader_epoch),
        start_offset=start_offset,
        complete_count=_complete_count(state, update),
        batches=merge_batches((*state.batches, *update.batches), start_offset),
    )


def _complete_count(state: SnapshotRecord, update: UpdateRecord) -> int:
    """How many offsets from the start offset on are finished, after an update that says it for its own start offset."""
    if update.complete_count == UNKNOWN_COUNT or NO_OFFSET < update.start_offset < state.start_offset:
        return state.complete_count
    if update.start_offset > state.start_offset:
        return update.complete_count
    return max(state.complete_count, update.complete_count)


def merge_batches(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Batches in order and without an overlap: of several, the one counts that is further, in whatever order they come.
    Alike ones are one, and so are all that are finished, however they were: nobody asks how.

    Takes a state and what has changed of it in one pass over both, since each is in order by itself.
    """
    known: list[StateBatch] = []
    for run in _runs(_from(batches, start_offset)):
        known = list(_join(known, run))
    merged: list[StateBatch] = []
    for batch in known:
        if merged and merged[-1].last + 1 == batch.first and _are_alike(merged[-1], batch):
            merged[-1] = merged[-1]._replace(last=batch.last)
        else:
            merged.append(batch)
    return tuple(merged)


def _from(batches: Iterable[StateBatch], start_offset: int) -> Iterator[StateBatch]:
    for batch in batches:
        if batch.last >= start_offset:
            yield batch if batch.first >= start_offset else batch._replace(first=start_offset)


def _runs(batches: Iterable[StateBatch]) -> Iterator[list[StateBatch]]:
    """Batches that follow each other in order."""
    run: list[StateBatch] = []
    for batch in batches:
        if run and batch.first <= run[-1].last:
            yield run
            run = []
        run.append(batch)
    if run:
        yield run


def _join(left: Iterable[StateBatch], right: Iterable[StateBatch]) -> Iterator[StateBatch]:
    """Two sequences in order as one; where both have an offset, what is further counts."""
    lefts, rights = iter(left), iter(right)
    one, other = next(lefts, None), next(rights, None)
    while one is not None and other is not None:
        if one.first > other.first:
            one, other, lefts, rights = other, one, rights, lefts
        if one.first < other.first:
            last = min(one.last, other.first - 1)
            yield one if last == one.last else one._replace(last=last)
            one = one._replace(first=last + 1) if last < one.last else next(lefts, None)
        else:
            last = min(one.last, other.last)
            yield max(one, other, key=_how_far)._replace(last=last)
            one = one._replace(first=last + 1) if last < one.last else next(lefts, None)
            other = other._replace(first=last + 1) if last < other.last else next(rights, None)
    for rest, more in ((one, lefts), (other, rights)):
        if rest is not None:
            yield rest
            yield from more


def _how_far(batch: StateBatch) -> tuple[bool, bool, int]:
    """Nothing that is finished comes back, nothing that gets a dead letter is delivered, no delivery is uncounted."""
    return batch.state.is_done, batch.state is not Persisted.AVAILABLE, batch.delivery_count


def _are_alike(left: StateBatch, right: StateBatch) -> bool:
    if left.state.is_done and right.state.is_done:
        return True
    return (left.state, left.delivery_count) == (right.state, right.delivery_count)


# Decisions


def decide_initialize(
    states: ShareStates, key: ShareKey, *, state_epoch: int, start_offset: int, now_ms: int
) -> StateDecision:
    """A state is made, or made anew, at another offset: then nothing of the old one counts. Without an offset, one that
    is there stays: the request was repeated.
    """
    known = states.find(key)
    _check_key(key)
    if known is not None and state_epoch != NO_EPOCH and known.state_epoch > state_epoch:
        raise FencedStateEpoch(f"the state of {key} is in epoch {known.state_epoch}, not {state_epoch}")
    if known is not None and start_offset == NO_OFFSET:
        return Decision([], known)
    epoch = 0 if known is None else known.snapshot_epoch + 1
    # Of a state that is made anew the leader may go on: it is told to load it again by the state epoch.
    leader_epoch = NO_EPOCH if known is None else known.leader_epoch
    made = SnapshotRecord(key, epoch, max(state_epoch, 0), leader_epoch, start_offset, 0, now_ms, now_ms, ())
    if start_offset == NO_OFFSET:
        made = made._replace(complete_count=UNKNOWN_COUNT)
    return Decision([made], made)


def decide_read(states: ShareStates, key: ShareKey, *, leader_epoch: int, now_ms: int) -> StateDecision:
    """A leader reads a state, and no leader before it writes it from then on."""
    known = _find(states, key)
    if leader_epoch in (NO_EPOCH, known.leader_epoch):
        return Decision([], known)
    _check_leader(known, leader_epoch)
    return _write(
        states, known, UpdateRecord(key, known.snapshot_epoch, leader_epoch, NO_OFFSET, UNKNOWN_COUNT, ()), now_ms
    )


def decide_write(
    states: ShareStates,
    key: ShareKey,
    *,
    state_epoch: int,
    leader_epoch: int,
    start_offset: int,
    complete_count: int,
    batches: Iterable[StateBatch],
    now_ms: int,
) -> StateDecision:
    """A leader writes what has changed."""
    known = _find(states, key)
    _check_leader(known, leader_epoch)
    # Nor is a higher epoch right: it is of a state that was deleted, and of a group that was made anew since.
    if state_epoch not in (NO_EPOCH, known.state_epoch):
        raise FencedStateEpoch(f"the state of {key} is in epoch {known.state_epoch}, not {state_epoch}")
    new = tuple(batches)
    if any(batch.first < 0 or batch.last < batch.first or batch.delivery_count < 0 for batch in new):
        raise InvalidRequest(f"a batch of the state of {key} is not a range")
    update = UpdateRecord(
        key,
        known.snapshot_epoch,
        max(leader_epoch, known.leader_epoch),
        start_offset,
        complete_count,
        merge_batches(new, start_offset),
    )
    return _write(states, known, update, now_ms)


def decide_delete(states: ShareStates, key: ShareKey) -> Decision[StateEntry, None]:
    """A state is deleted; that there is none is as good."""
    _check_key(key)
    return Decision([] if states.find(key) is None else [StateTombstone(key)], None)


def decide_snapshots(states: ShareStates, keys: Iterable[ShareKey], *, now_ms: int) -> Decision[StateEntry, None]:
    """Snapshots of these, if they are there: with one of every state, the log before the first of them can be cut."""
    found = (states.find(key) for key in keys)
    return Decision([_snapshot(state, now_ms) for state in found if state is not None], None)


def summarize(states: ShareStates, key: ShareKey) -> SnapshotRecord | None:
    """What a group coordinator tells of a state; None if there is none."""
    _check_key(key)
    return states.find(key)


def _write(states: ShareStates, known: SnapshotRecord, update: UpdateRecord, now_ms: int) -> StateDecision:
    after = updated(known, update)
    if states.by_key[known.key].updates < UPDATES_PER_SNAPSHOT:
        return Decision([update], after)
    after = _snapshot(after, now_ms)
    return Decision([after], after)


def _snapshot(state: SnapshotRecord, now_ms: int) -> SnapshotRecord:
    return state._replace(snapshot_epoch=state.snapshot_epoch + 1, write_time_ms=now_ms)


def _check_key(key: ShareKey) -> None:
    if key.partition < 0:
        raise InvalidRequest(f"partition {key.partition} does not exist")
    if not key.group:
        raise InvalidRequest("the group id must not be empty")


def _find(states: ShareStates, key: ShareKey) -> SnapshotRecord:
    _check_key(key)
    known = states.find(key)
    if known is None:
        raise UninitializedState(f"the state of {key} was not initialised")
    return known


class UninitializedState(InvalidRequest):
    """A state that nobody has initialised, or that was deleted."""


def _check_leader(known: SnapshotRecord, leader_epoch: int) -> None:
    if leader_epoch != NO_EPOCH and known.leader_epoch > leader_epoch:
        raise FencedLeaderEpoch(
            f"a leader in epoch {known.leader_epoch} has read the state since; {leader_epoch} is stale"
        )
