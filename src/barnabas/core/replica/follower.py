"""A follower of a partition in one leader epoch: decides what to fetch next, and what to do with an answer.

In: answers of the leader, and what has become of the log. Out: the next fetch, an action on the log, the high
watermark.

Between our nodes the end of the log and its durable end are two numbers: a follower fetches on while it syncs, and each
fetch tells both. The leader counts what is durable.

**Truncation** goes by the history of leader epochs alone (KIP-101): a fetch names the epoch of the last record, and a
leader that knows that epoch to end elsewhere says where. It may take several rounds (KIP-279). The watermark is no
guide: a restarted follower's may lag, and truncating to it would discard acknowledged records. A truncation below the
watermark is never wanted by a leader that was elected cleanly; it is done, and said loudly.

**What counts.** One fetch is under way at a time. An answer to another one (given up, replaced, or of another leader
epoch) is ignored: it may be about records that are no longer there (KAFKA-18991). Nothing but the divergence is taken
from a diverging answer: its watermark is about other records than ours (KAFKA-14704).

All of this is of one leader epoch. When another begins, this object goes, as soon as an action under way is done; the
log and the watermark are handed on.

Invariants: at most one action is under way, and no fetch meanwhile; start <= high watermark <= end, durable end <= end;
the watermark goes back only with a truncation below it.

Must not know: how it is sent and awaited, what is in a batch, files. The history of epochs is the log's own and changes
with the log, before this hears of it; here it is only read.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

from barnabas.core.errors import BarnabasError, FencedLeaderEpoch, OffsetOutOfRange
from barnabas.core.model import NO_OFFSET
from barnabas.core.replica.leader_epochs import EpochEnd, LeaderEpochs


class FollowerFetch(NamedTuple):
    """What to ask the leader for. Each is another one, by its number."""

    number: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    durable_end_offset: int
    damaged_offset: int = NO_OFFSET
    """From where on the leader has sent damaged records, if it has: it is to look at its own log."""


class FetchedBatch(NamedTuple):
    """A batch in an answer: its offsets and its leader epoch."""

    base_offset: int
    end_offset: int
    leader_epoch: int


class FetchAnswer(NamedTuple):
    """What the leader answers. With an error, offsets are -1 unless it knows better."""

    high_watermark: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    batches: Sequence[FetchedBatch] = ()
    diverging: EpochEnd | None = None
    error: BarnabasError | None = None


# Actions: what the driver does next. Those on the log are reported with `note_...` when they are done.


class Append(NamedTuple):
    """Append the batches of the answer from this offset on, as they are: offsets and leader epochs are the leader's.

    The history of epochs, the states of producers and the index of transactions follow from their headers, unchecked:
    the leader has checked them. Then `note_appended`.
    """

    base_offset: int
    end_offset: int


class Truncate(NamedTuple):
    """Remove everything from this offset on, down to a whole batch, and all that was made of it: epochs that start
    there (even if no record goes: an epoch may have none), producer states, aborted transactions. Then
    `note_truncated`.
    """

    end_offset: int
    loses_committed: bool
    """Whether this goes below the high watermark: records that were acknowledged are lost. To be reported as an
    error."""


class Reset(NamedTuple):
    """Remove the whole log, with epochs, producer states and aborted transactions, and begin again at this offset. Then
    `note_reset`.
    """

    start_offset: int
    loses_committed: bool
    """As for `Truncate`."""


class AskOffsets(NamedTuple):
    """Ask the leader where its log starts and ends (ListOffsets, in this leader epoch). Then `note_leader_offsets`."""


class Retry(NamedTuple):
    """Nothing can be done with this answer: fetch again, after a pause."""

    reason: str
    is_wrong: bool = False
    """Whether the leader answered what it must not: to be reported."""


class Wait(Enum):
    """Nothing to do on the log."""

    FETCH = "fetch on"
    METADATA = "another leader epoch has begun: wait until the metadata name it"
    IGNORED = "this is not the answer that is awaited"


Action: TypeAlias = Append | Truncate | Reset | AskOffsets | Retry | Wait


class Follower:
    """The state and decisions of a follower in one leader epoch."""

    __slots__ = (
        "_answer",
        "_durable_end",
        "_end_offset",
        "_epochs",
        "_fetch",
        "_is_fenced",
        "_is_sent_damage",
        "_number",
        "_pending",
        "epoch",
        "generation",
        "high_watermark",
        "start_offset",
    )

    def __init__(
        self,
        *,
        epoch: int,
        epochs: LeaderEpochs,
        start_offset: int,
        end_offset: int,
        durable_end_offset: int,
        high_watermark: int,
    ) -> None:
        """`epochs` is the history of this log; `high_watermark` the one that was known before, or checkpointed."""
        self.epoch = epoch
        self.start_offset = start_offset
        self.high_watermark = min(max(high_watermark, start_offset), end_offset)
        self._epochs = epochs
        self._end_offset = end_offset
        self._durable_end = durable_end_offset
        self._number = 0
        self._fetch: FollowerFetch | None = None  # that is under way
        self._pending: Action | None = None  # that is under way
        self._answer = FetchAnswer()  # that the pending action came from
        self._is_fenced = False
        self._is_sent_damage = False
        self.generation = 0  # of the log: another one after each truncation

    # What goes out

    def next_fetch(self) -> FollowerFetch | None:
        """The next fetch; None while one is under way, or an action is, or the leader epoch is known to be over."""
        if self._fetch is not None or self._pending is not None or self._is_fenced:
            return None
        return self._ask()

    def replace_fetch(self) -> FollowerFetch | None:
        """A fetch in the place of the one that is under way: the leader may hold that one for a while, and is to know
        now what is durable. The answer to the one before is ignored.
        """
        return self._ask() if self._fetch is not None else None

    @property
    def owes_durable_end(self) -> bool:
        """Whether the fetch under way told an older durable end than there is now: the leader does not know it yet, and
        somebody may wait for an acknowledgement.
        """
        return self._fetch is not None and self._fetch.durable_end_offset < self._durable_end

    @property
    def end_offset(self) -> int:
        return self._end_offset

    @property
    def durable_end_offset(self) -> int:
        return self._durable_end

    # What comes in

    def note_opened(self, epochs: LeaderEpochs) -> None:
        """The log was made, with this history, which is empty yet: before, there was none."""
        self._epochs = epochs

    def receive(self, fetch: FollowerFetch, answer: FetchAnswer) -> Action:
        """The leader has answered a fetch: what to do."""
        if fetch != self._fetch:
            return Wait.IGNORED
        self._fetch = None
        if answer.error is not None:
            action = self._refused(answer, answer.error)
        elif answer.diverging is not None:
            action = self._diverged(answer.diverging)
        else:
            action = self._fetched(answer)
        if isinstance(action, Append | Truncate | Reset | AskOffsets):
            self._pending, self._answer = action, answer
        return action

    def give_up(self, fetch: FollowerFetch) -> None:
        """There will be no answer to this fetch, or nobody waits for it any more."""
        if fetch == self._fetch:
            self._fetch = None

    def note_damaged(self) -> None:
        """What the leader has sent for the end of this log is damaged: the next fetches say so, until it is not."""
        self._is_sent_damage = True

    def note_appended(self, end_offset: int) -> int:
        """The batches of an answer are in the log, which ends here now; returns the high watermark."""
        self._is_sent_damage = False
        assert isinstance(self._pending, Append)
        assert self._end_offset <= end_offset <= self._pending.end_offset
        self._end_offset = end_offset
        self._pending = None
        self._follow(self._answer)
        return self.high_watermark

    def note_truncated(self, end_offset: int) -> int:
        """The log ends here now; returns the high watermark."""
        assert isinstance(self._pending, Truncate)
        assert end_offset <= self._pending.end_offset
        self._pending = None
        self.generation += 1
        self._end_offset = end_offset
        self._durable_end = min(self._durable_end, end_offset)
        self.start_offset = min(self.start_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        return self.high_watermark

    def note_reset(self) -> int:
        """The log is empty and begins where it had to; returns the high watermark."""
        assert isinstance(self._pending, Reset)
        start = self._pending.start_offset
        self._pending = None
        self.generation += 1
        self._end_offset = self._durable_end = self.start_offset = self.high_watermark = start
        return start

    def note_failed(self) -> None:
        """An action was not done and the log is as it was: fetch again."""
        self._pending = None

    def note_flushed(self, durable_end_offset: int, *, generation: int) -> None:
        """The log is on disk up to here, as of a flush that began in this generation of the log.

        One that began before a truncation says nothing: other records may be at those offsets by now.
        """
        if generation == self.generation:
            self._durable_end = max(self._durable_end, min(durable_end_offset, self._end_offset))

    def note_leader_offsets(self, *, start_offset: int, end_offset: int) -> Action:
        """Where the log of the leader starts and ends, as `AskOffsets` wanted to know: what to do."""
        assert isinstance(self._pending, AskOffsets)
        action = self._out_of_range(start_offset, end_offset)
        self._pending = action if isinstance(action, Truncate | Reset) else None
        return action

    # Inside

    def _ask(self) -> FollowerFetch:
        self._number += 1
        self._fetch = FollowerFetch(
            self._number,
            self.epoch,
            self._end_offset,
            self._epochs.latest,
            self.start_offset,
            self._durable_end,
            self._end_offset if self._is_sent_damage else NO_OFFSET,
        )
        return self._fetch

    def _refused(self, answer: FetchAnswer, error: BarnabasError) -> Action:
        if isinstance(error, FencedLeaderEpoch):
            self._is_fenced = True
            return Wait.METADATA
        if isinstance(error, OffsetOutOfRange):
            # A leader of ours says where its log starts; one that does not is asked.
            if answer.log_start_offset > self._end_offset:
                return self._out_of_range(answer.log_start_offset, NO_OFFSET)
            return AskOffsets()
        return Retry(f"{type(error).__name__}: {error}")

    def _out_of_range(self, leader_start: int, leader_end: int) -> Action:
        if leader_start > self._end_offset:
            return Reset(leader_start, loses_committed=False)  # what it skips the leader has deleted
        if 0 <= leader_end < self._end_offset:
            return self._truncation(max(leader_end, self.start_offset))
        return Wait.FETCH  # meanwhile it is in range

    def _diverged(self, theirs: EpochEnd) -> Action:
        """Truncate to the last offset up to which this log and the leader's may be equal, by what both know."""
        if theirs.epoch > self._epochs.latest or theirs.end_offset < 0:
            return Retry(
                f"the leader says that epoch {theirs.epoch} diverges, which this log does not have", is_wrong=True
            )
        ours = self._epochs.end_offset_for(theirs.epoch, log_end_offset=self._end_offset)
        # An epoch of the leader's that this log does not have: what came before it here may still agree.
        end_offset = min(ours.end_offset, theirs.end_offset) if ours.epoch == theirs.epoch else ours.end_offset
        if end_offset >= self._end_offset and theirs.epoch == self._epochs.latest:
            return Retry(f"the leader says that {theirs} diverges, and it does not", is_wrong=True)
        return self._truncation(min(end_offset, self._end_offset))

    def _truncation(self, end_offset: int) -> Action:
        if end_offset < self.start_offset:
            return Reset(end_offset, loses_committed=end_offset < self.high_watermark)
        return Truncate(end_offset, loses_committed=end_offset < self.high_watermark)

    def _fetched(self, answer: FetchAnswer) -> Action:
        if not answer.batches:
            self._follow(answer)
            return Wait.FETCH
        expected, epoch = self._end_offset, self._epochs.latest
        for batch in answer.batches:
            if batch.base_offset < expected or not epoch <= batch.leader_epoch <= self.epoch:
                return Retry(f"{batch} cannot follow offset {expected} of epoch {epoch}", is_wrong=True)
            expected, epoch = batch.end_offset, batch.leader_epoch
        return Append(answer.batches[0].base_offset, expected)

    def _follow(self, answer: FetchAnswer) -> None:
        """Take watermark and start from the leader, as far as this log goes."""
        # A new leader may know a lower watermark for a while. What was committed stays so.
        self.high_watermark = max(self.high_watermark, min(answer.high_watermark, self._end_offset))
        self.start_offset = max(self.start_offset, min(answer.log_start_offset, self.high_watermark))
