"""The parts of `partition_world`: disks, nodes, messages, and what is said of actions."""

from typing import NamedTuple, TypeAlias

import msgspec

from barnabas.core.errors import OffsetOutOfRange
from barnabas.core.metadata.image import PartitionState
from barnabas.core.replica.follower import (
    Action,
    Append,
    AskOffsets,
    FetchAnswer,
    Follower,
    FollowerFetch,
    Reset,
    Retry,
    Truncate,
    Wait,
)
from barnabas.core.replica.leader import IsrProposal, Leader
from barnabas.core.replica.leader_epochs import EpochEnd, LeaderEpochs


class Entry(NamedTuple):
    """A record of the log."""

    epoch: int
    value: str


GONE = Entry(-1, "gone")


class Disk(msgspec.Struct):
    """The log of a node; entries are at their offsets, those below the start are gone."""

    entries: list[Entry] = []
    start: int = 0
    durable_end: int = 0
    high_watermark: int = 0
    """The checkpoint."""
    epochs: LeaderEpochs = msgspec.field(default_factory=LeaderEpochs)

    @property
    def end(self) -> int:
        return len(self.entries)

    def append(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.epochs.assign(entry.epoch, self.end)
            self.entries.append(entry)

    def truncate(self, end: int) -> None:
        del self.entries[end:]
        self.epochs.truncate_to(end)
        self.durable_end = min(self.durable_end, end)

    def reset(self, start: int) -> None:
        self.entries = [GONE] * start
        self.epochs.truncate_to(0)
        self.start = self.durable_end = start

    def lose_power(self) -> None:
        self.truncate(self.durable_end)
        self.high_watermark = min(self.high_watermark, self.end)


class Write(NamedTuple):
    """A write that waits for its acknowledgement."""

    end_offset: int
    epoch: int
    value: str


Role: TypeAlias = Leader | Follower | None


class Node(msgspec.Struct):
    """A node of the cluster."""

    node_id: int
    disk: Disk
    life: int = 1
    replaced: list[Disk] = []
    """Its disks before this one."""
    is_up: bool = True
    broker_epoch: int = 0
    known: int = 0
    """How many versions of the metadata it has heard of."""
    role: Role = None
    high_watermark: int = 0
    writes: list[Write] = []


class View(NamedTuple):
    """A version of the metadata: the partition, and the broker epochs of active nodes."""

    state: PartitionState
    active: dict[int, int]


class FetchMail(NamedTuple):
    """A fetch on its way to the leader."""

    sender: int
    life: int
    broker_epoch: int
    to: int
    fetch: FollowerFetch


class AnswerMail(NamedTuple):
    """An answer on its way back."""

    sender: int
    to: int
    life: int
    fetch: FollowerFetch
    answer: FetchAnswer
    entries: list[Entry]


class ProposalMail(NamedTuple):
    """An AlterPartition on its way to the controller."""

    sender: int
    life: int
    broker_epoch: int
    proposal: IsrProposal


Mail: TypeAlias = FetchMail | AnswerMail | ProposalMail


def holds(disk: Disk, offset: int, entry: Entry) -> bool:
    return offset < disk.start or (offset < disk.durable_end and disk.entries[offset] == entry)


def diverging_end(disk: Disk, fetch: FollowerFetch) -> EpochEnd | None:
    """As a leader answers: where the follower's last epoch ended here, if that is not where the follower is."""
    if fetch.last_fetched_epoch < 0:
        return None
    end = disk.epochs.end_offset_for(fetch.last_fetched_epoch, log_end_offset=disk.end)
    if end.epoch < 0:
        raise OffsetOutOfRange(f"epoch {fetch.last_fetched_epoch} is unknown")
    return end if end.epoch < fetch.last_fetched_epoch or end.end_offset < fetch.fetch_offset else None


def words(action: Action) -> str:
    """An action, to be read."""
    match action:
        case Append(base_offset, end_offset):
            return f"appends {base_offset}..{end_offset}"
        case Truncate(end_offset, loses_committed):
            return f"truncates to {end_offset}{', below its watermark!' if loses_committed else ''}"
        case Reset(start_offset, loses_committed):
            return f"begins again at {start_offset}{', below its watermark!' if loses_committed else ''}"
        case AskOffsets():
            return "asks where the leader's log starts and ends"
        case Retry(reason):
            return f"tries again later: {reason}"
        case Wait():
            return action.value
    raise AssertionError(action)
