"""A partition that this node follows, in one leader epoch: carries out what `core.replica.follower` decides.

Answers of the leader come in; what they lead to is done to the log at once, in the turn of the loop in which they come
in, so that nothing else is done to it in between. What is appended is flushed as any other append is, and the next
fetch tells how far that has come.

Must not know: how fetches are sent, which other partitions are fetched with them.
"""

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from barnabas.core.errors import BarnabasError, CorruptRecord, StorageExhausted
from barnabas.core.records.batch import Buffer, iter_whole_batches
from barnabas.core.replica.follower import (
    Action,
    Append,
    AskOffsets,
    FetchAnswer,
    FetchedBatch,
    Follower,
    FollowerFetch,
    Reset,
    Retry,
    Truncate,
    Wait,
)
from barnabas.core.replica.leader_epochs import EpochEnd, LeaderEpochs
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.logs import Logs
from barnabas.storage.truncate import delete_before, reset_to, truncate_to

if TYPE_CHECKING:
    from barnabas.runtime.replica import Replica

log = get_logger("barnabas.replicas")


class Next(Enum):
    """What whoever fetches does next about a partition."""

    FETCH = "fetch on"
    LATER = "fetch again after a pause"
    ASK = "ask the leader where its log starts and ends"
    STOP = "wait until the metadata name another leader epoch"


class Fetched(NamedTuple):
    """What a leader has answered for a partition."""

    records: Buffer
    high_watermark: int
    log_start_offset: int
    diverging: EpochEnd | None = None
    error: BarnabasError | None = None


class Following:
    """One partition in one leader epoch."""

    __slots__ = ("_follower", "_logs", "_partition", "leader_id", "on_flushed")

    def __init__(self, partition: "Replica", logs: Logs, *, leader_id: int) -> None:
        self._partition = partition
        self._logs = logs
        self.leader_id = leader_id
        self.on_flushed: Callable[[], None] | None = None
        """Called when more is on disk: the leader should hear of it."""
        held = partition.held_log
        self._follower = Follower(
            epoch=partition.leader_epoch,
            epochs=LeaderEpochs() if held is None else held.epochs,
            start_offset=0 if held is None else held.log_start_offset,
            end_offset=0 if held is None else held.end_offset,
            durable_end_offset=0 if held is None else held.flushed_offset,
            high_watermark=partition.high_watermark,
        )

    def __repr__(self) -> str:
        return f"Following({self._partition.name} of {self.leader_id} in epoch {self._follower.epoch})"

    @property
    def partition(self) -> "Replica":
        return self._partition

    @property
    def is_over(self) -> bool:
        """Whether another leader epoch has begun, or this node is no follower any more."""
        return self._partition.following is not self

    @property
    def is_unsynced(self) -> bool:
        """Whether the leader waits to hear that what it has sent is on disk."""
        return self._partition.is_synced and self._follower.durable_end_offset < self._follower.end_offset

    def next_fetch(self) -> FollowerFetch | None:
        """What to ask for next, in the place of what was asked for; None if there is nothing to ask now."""
        return self._follower.next_fetch() or self._follower.replace_fetch()

    def give_up(self, fetch: FollowerFetch) -> None:
        """There will be no answer to this fetch."""
        self._follower.give_up(fetch)

    def receive(self, fetch: FollowerFetch, fetched: Fetched) -> Next:
        """Do what an answer leads to."""
        batches, size = [], 0
        try:
            for position, header in iter_whole_batches(fetched.records):
                batches.append(FetchedBatch(header.base_offset, header.next_offset, header.leader_epoch))
                size = position + header.size
        except BarnabasError as error:
            self._follower.give_up(fetch)
            self._follower.note_damaged()
            log.warning("%s: the leader %s sent damaged records: %s", self._partition.name, self.leader_id, error)
            return Next.LATER
        answer = FetchAnswer(
            high_watermark=fetched.high_watermark,
            log_start_offset=fetched.log_start_offset,
            batches=batches,
            diverging=fetched.diverging,
            error=fetched.error,
        )
        return self._carry_out(self._follower.receive(fetch, answer), memoryview(fetched.records)[:size])

    def note_leader_offsets(self, *, start_offset: int, end_offset: int) -> Next:
        """Where the log of the leader starts and ends, as it was asked."""
        action = self._follower.note_leader_offsets(start_offset=start_offset, end_offset=end_offset)
        return self._carry_out(action, memoryview(b""))

    def fail(self) -> None:
        """What was to be asked could not be."""
        self._follower.note_failed()

    def note_flushed(self) -> None:
        """More of the log is on disk."""
        held = self._partition.held_log
        if held is not None:
            before = self._follower.durable_end_offset
            self._follower.note_flushed(held.flushed_offset, generation=self._follower.generation)
            is_news = self._partition.is_synced and self._follower.durable_end_offset > before
            if is_news and self.on_flushed is not None:
                self.on_flushed()

    # What is done

    def _carry_out(self, action: Action, records: memoryview) -> Next:
        if action is Wait.METADATA:
            return Next.STOP
        if isinstance(action, AskOffsets):
            return Next.ASK
        if isinstance(action, Retry):
            say = log.warning if action.is_wrong else log.info
            say("%s cannot be fetched from %s: %s", self._partition.name, self.leader_id, action.reason)
            return Next.LATER
        try:
            self._change(action, records)
            self._follow_leader()
        except BarnabasError as error:
            self._follower.note_failed()
            if isinstance(error, CorruptRecord):
                self._follower.note_damaged()
            if not isinstance(error, StorageExhausted):  # which is told where it is met
                log.error("%s cannot follow %s: %s", self._partition.name, self.leader_id, error)
            return Next.LATER
        return Next.FETCH

    def _change(self, action: Action, records: memoryview) -> None:
        if isinstance(action, Append):
            self._append(records)
        elif isinstance(action, Truncate | Reset):
            self._cut(action)

    def _append(self, records: memoryview) -> None:
        if not records:
            raise CorruptRecord("there is no whole batch in the answer")
        partition = self._partition
        is_new = partition.held_log is None
        held = partition.make_log()
        if is_new:
            self._follower.note_opened(held.epochs)
        held.append_as_follower(records)
        self._logs.flusher.note_append(held)
        self._follower.note_appended(held.end_offset)

    def _cut(self, action: Truncate | Reset) -> None:
        partition, follower = self._partition, self._follower
        held = partition.make_log()
        follower.note_opened(held.epochs)
        if action.loses_committed:
            log.error(
                "%s: the leader %s lacks committed records from offset %d on (the high watermark is %d); they are "
                "removed here, too",
                partition.name,
                self.leader_id,
                action.end_offset if isinstance(action, Truncate) else action.start_offset,
                partition.high_watermark,
            )
        if isinstance(action, Truncate):
            end_offset = truncate_to(held, action.end_offset)
            log.info("%s is truncated to %d, as its leader %s has it", partition.name, end_offset, self.leader_id)
            follower.note_truncated(end_offset)
        else:
            reset_to(held, action.start_offset)
            log.info("%s begins anew at %d, as its leader %s has it", partition.name, held.end_offset, self.leader_id)
            follower.note_reset()
        self._logs.flusher.flush_soon(held)

    def _follow_leader(self) -> None:
        """Take over the high watermark, and where the log starts."""
        partition, follower = self._partition, self._follower
        partition.note_followed(follower.high_watermark)
        held = partition.held_log
        if held is not None and follower.start_offset > held.log_start_offset:
            delete_before(held, follower.start_offset)
