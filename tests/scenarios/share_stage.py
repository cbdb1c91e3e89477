"""The stage for scenarios of share partitions: one partition of one group, its log, and the share coordinator's state.

Records are in the log once they are appended (`log`); members fetch and acknowledge them. What is to be written is
written when told to (`write`), or fails. Offsets in a row are written as ``FIRST-LAST``. The clock moves when told to.
"""

from collections.abc import Iterator, Sequence

from barnabas.core.groups.backoff import Backoff
from barnabas.core.groups.records import NO_TOPIC_ID
from barnabas.core.groups.settings import ShareLimits
from barnabas.core.groups.share import persisted
from barnabas.core.groups.share.acknowledging import AckType, check_acks
from barnabas.core.groups.share.partition import LogBatch, SharePartition, StateWrite, Wanted
from barnabas.core.groups.share.persisted import ShareKey, ShareStates
from barnabas.core.groups.share.window import State
from tests.scenarios.transcript import Stage

KEY = ShareKey("g", NO_TOPIC_ID, 0)


class ShareStage(Stage):
    """A partition that members share."""

    def __init__(self) -> None:
        self._limits = ShareLimits(lock_duration_ms=30_000)
        self._log: list[LogBatch] = []
        self._now_ms = 0
        self._leader_epoch = 0
        self._states = ShareStates()
        self._writing: StateWrite | None = None
        made = persisted.decide_initialize(self._states, KEY, state_epoch=0, start_offset=0, now_ms=0)
        self._apply(made.records)
        self._load()

    def _apply(self, records: Sequence[persisted.StateEntry]) -> None:
        for record in records:
            self._states.apply(record)

    def _load(self) -> None:
        read = persisted.decide_read(self._states, KEY, leader_epoch=self._leader_epoch, now_ms=self._now_ms)
        self._apply(read.records)
        state = read.reply
        self._partition = SharePartition(state.start_offset, state.batches, state_epoch=state.state_epoch)
        self._partition.wait_anew(limits=self._limits, now_ms=self._now_ms)
        self._writing = None

    # The world

    def limits(
        self,
        *,
        deliveries: int = 5,
        locks: int = 2000,
        waiting: int = 10_000,
        backoff: int = 0,
        longest: int = 60,
        letters: bool = False,
    ) -> None:
        """``limits [deliveries=N] [locks=N] [waiting=N] [backoff=S] [longest=S] [letters=yes]``: what the group allows
        from now on; backoff in seconds.
        """
        self._limits = self._limits._replace(
            delivery_limit=deliveries,
            max_locks=locks,
            max_waiting=waiting,
            backoff=Backoff(backoff * 1000, longest * 1000),
            has_letters=letters,
        )

    def log(self, *batches: str) -> None:
        """``log FIRST-LAST... [FIRST-LAST!]``: batches are appended; one with ``!`` is a marker, or aborted."""
        for text in batches:
            first, last = _range(text.rstrip("!"))
            self._log.append(LogBatch(first, last, not text.endswith("!")))

    def delete_records(self, offset: int) -> None:
        """``delete-records OFFSET``: the log starts there."""
        self._log = [each for each in self._log if each.last >= offset]
        self._partition.follow_log_start(offset)

    def wait(self, seconds: int) -> str | None:
        """``wait SECONDS``: the clock moves, and locks run out."""
        self._now_ms += seconds * 1000
        locked, waited = self._partition.window.acquired, self._partition.window.waiting
        is_expired = self._partition.expire(limits=self._limits, now_ms=self._now_ms)
        if self._partition.window.acquired < locked:
            return "locks run out"
        assert is_expired == (self._partition.window.waiting < waited)
        return "records have waited long enough" if is_expired else None

    def fail_over(self) -> None:
        """``fail-over``: another node leads, and has what was written."""
        self._leader_epoch += 1
        self._load()

    # Members

    def fetch(self, member: str, records: int, *, strict: bool = False) -> Iterator[str]:
        """``fetch MEMBER RECORDS [strict=yes]``"""
        if not self._partition.can_acquire(self._limits):
            yield "all locks are out"
            return
        at = self._partition.next_fetch_offset()
        found = self._partition.acquire(
            Wanted(member, records, is_strict=strict),
            at,
            [each for each in self._log if each.last >= at],
            limits=self._limits,
            now_ms=self._now_ms,
        )
        for each in found:
            yield f"{member} has {each.first}-{each.last}, delivery {each.delivery_count}"
        if not found:
            yield "nothing"

    def ack(self, member: str, *said: str) -> Iterator[str]:
        """``ack MEMBER FIRST-LAST:TYPE...``"""
        batches = []
        for text in said:
            offsets, _, kind = text.partition(":")
            batches.append((*_range(offsets), [AckType[kind.upper()]]))
        acks = check_acks(batches, is_renewal=any(text.endswith(":renew") for text in said))
        number = self._partition.acknowledge(member, acks, limits=self._limits, now_ms=self._now_ms)
        yield "nothing to write" if number is None else f"waits for write {number}"

    def leave(self, member: str) -> None:
        """``leave MEMBER``: its session ends."""
        self._partition.release(member, limits=self._limits, now_ms=self._now_ms)

    # Dead letters

    def letter(self, *, records: int = 500, fails: bool = False) -> Iterator[str]:
        """``letter [records=N] [fails=yes]``: the next letters are written, or cannot be."""
        wanted = self._partition.next_letters(limits=self._limits, max_records=records)
        if wanted is None:
            yield "no letters"
            return
        yield f"{wanted.first}-{wanted.last}, delivered {wanted.delivery_count}: {wanted.cause.value}"
        if fails:
            yield "failed"
        else:
            self._partition.end_letters(wanted.first, wanted.last)

    # Writing

    def write(self, *, fails: bool = False) -> Iterator[str]:
        """``write [fails=yes]``: what is to be written is, or is not."""
        yield from self.begin_write()
        yield from self.end_write(fails=fails)

    def begin_write(self) -> Iterator[str]:
        """``begin-write``: what is to be written is on its way."""
        write = self._writing = self._partition.begin_write()
        yield f"write {write.number}: start {write.start_offset}, {write.complete_count} done after it"
        for batch in write.batches:
            yield f"  {batch.first}-{batch.last} {batch.state.name.lower()}, delivered {batch.delivery_count}"

    def end_write(self, *, fails: bool = False) -> Iterator[str]:
        """``end-write [fails=yes]``"""
        write, self._writing = self._writing, None
        assert write is not None
        if not fails:
            written = persisted.decide_write(
                self._states,
                KEY,
                state_epoch=0,
                leader_epoch=self._leader_epoch,
                start_offset=write.start_offset,
                complete_count=write.complete_count,
                batches=write.batches,
                now_ms=self._now_ms,
            )
            self._apply(written.records)
        self._partition.end_write(write.number, is_written=not fails, limits=self._limits, now_ms=self._now_ms)
        yield from ["failed"] if fails else []

    def write_as(self, epoch: int) -> Iterator[str]:
        """``write-as LEADER-EPOCH``: a leader of that epoch writes."""
        persisted.decide_write(
            self._states,
            KEY,
            state_epoch=0,
            leader_epoch=epoch,
            start_offset=0,
            complete_count=0,
            batches=(),
            now_ms=self._now_ms,
        )
        yield "accepted"

    def show(self) -> Iterator[str]:
        """``show``"""
        yield f"start {self._partition.start_offset}, end {self._partition.end_offset}"
        for span in self._partition.window:
            text = f"  {span.first}-{span.last} {span.state.name.lower()}"
            if span.state is State.ACQUIRED:
                text += f" by {span.member}"
            if span.state is not State.FINISHED:
                text += f", delivered {span.count}"
            if span.state is State.WAITING:
                text += f", for {(span.deadline_ms - self._now_ms) / 1000:g} s"
            yield text

    def state(self) -> Iterator[str]:
        """``state``: what the share coordinator has."""
        found = self._states.find(KEY)
        assert found is not None
        yield f"start {found.start_offset}, {found.complete_count} done after it"
        for batch in found.batches:
            text = "done" if batch.state.is_done else batch.state.name.lower()
            yield f"  {batch.first}-{batch.last} {text}, delivered {batch.delivery_count}"


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)
