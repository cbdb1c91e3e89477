"""The image that a node's metadata log makes, as far as the log is committed; and the one to decide on.

Follows the log for the driver of Raft. What this node has written as the leader is applied from memory when it is
committed; what others wrote is read from the log. A commit is applied whole, and then everybody who follows the image
hears of it.

Decisions are made on what is decided, committed or not: on a fork of the image, which is there only while something is
on its way, and gone with the leadership.

Invariants: the image is what a replay of the log up to `applied_offset` makes, and of what was assumed for want of
room; it is one object for as long as the node runs.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from barnabas.core.errors import BarnabasError, NotController, RequestTimedOut, StorageError, StorageExhausted
from barnabas.core.metadata.difference import difference
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import MetadataRecord, decode_record
from barnabas.core.raft.log_view import SnapshotId
from barnabas.core.records.batch import iter_batches
from barnabas.runtime.cluster_metadata import LeadershipListener, Subscriber
from barnabas.runtime.offload import Offload
from barnabas.runtime.raft_driver import Proposal
from barnabas.runtime.turns import next_turn
from barnabas.storage.metadata_loading import LoadedMetadata
from barnabas.storage.metadata_snapshot import SnapshotContents
from barnabas.storage.quorum_log import QuorumLog

_READ_BYTES: Final = 1024 * 1024
_RETRY_S: Final = 0.1


class Commit(Proposal):
    """A decision on its way: `done` says what became of it."""

    def __init__(self, data: bytearray, epoch: int, records: Sequence[MetadataRecord]) -> None:
        super().__init__(data, epoch)
        self.records = records
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_hear)

    def end(self, error: Exception | None) -> None:
        """It is applied, or nobody knows what will become of it."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class _Written(NamedTuple):
    """What this node has written as the leader; without a commit it is Raft's own."""

    base_offset: int
    end_offset: int
    epoch: int
    commit: Commit | None


class AppliedMetadata:
    """The image of one node. Follows its log (`raft_driver.LogFollower`)."""

    def __init__(self, log: QuorumLog, loaded: LoadedMetadata, offload: Offload) -> None:
        self._log = log
        self._offload = offload
        self._reader = loaded.reader
        self.image = loaded.image
        self._position = loaded.applied_offset  # up to where the log is read
        self.high_watermark = loaded.applied_offset
        """Up to where the log is known to be committed."""
        self._written: deque[_Written] = deque()
        self._fork: Image | None = None
        self._led: tuple[int, int] | None = None
        self._active_epoch: int | None = None  # that the listeners of leadership were told of
        self._leadership_listeners: list[LeadershipListener] = []
        self._subscribers: list[Subscriber] = []
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._is_reading = False
        self.failure: str | None = None
        """Why nothing is applied any more, if that is so."""
        self.bytes_applied, self.records_applied = loaded.replayed_bytes, loaded.replayed_records
        """Since the last snapshot."""
        self.snapshots_received = 0
        self.on_applied: Callable[[], None] = lambda: None
        self.begin: Callable[[Coroutine[Any, Any, None]], object] = _nobody_runs
        """Runs what takes longer."""

    @property
    def applied_offset(self) -> int:
        """The offset up to which the image has the log."""
        unfinished_at = self._reader.unfinished_at
        return self._position if unfinished_at is None else unfinished_at

    @property
    def is_between_commits(self) -> bool:
        """Whether the log up to `applied_offset` is all that was read of it."""
        return self._reader.unfinished_at is None

    @property
    def last_commit(self) -> Commit | None:
        """The last decision that is on its way."""
        return next((each.commit for each in reversed(self._written) if each.commit is not None), None)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Have the records of every commit from now on, once they are applied."""
        self._subscribers.append(subscriber)

    def follow_leadership(self, listener: LeadershipListener) -> None:
        """Have the epochs in which this node can decide, from now on."""
        self._leadership_listeners.append(listener)
        if self._active_epoch is not None:
            listener(self._active_epoch)

    @property
    def is_active(self) -> bool:
        """Whether this node leads, and has applied all that was decided before."""
        return self._led is not None and self._position >= self._led[1]

    async def wait_applied(self, end_offset: int) -> None:
        """Until the log is applied up to here."""
        if self.applied_offset < end_offset:
            waiter = (end_offset, asyncio.get_running_loop().create_future())
            self._waiters.append(waiter)
            try:
                await waiter[1]
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def _note_progress(self) -> None:
        """The position or the leadership has changed: tell those who wait for that."""
        if self._waiters:
            applied = self.applied_offset
            for end_offset, future in self._waiters:
                if end_offset <= applied and not future.done():
                    future.set_result(None)
        epoch = self._led[0] if self._led is not None and self.is_active else None
        if epoch != self._active_epoch:
            self._active_epoch = epoch
            for listener in self._leadership_listeners:
                listener(epoch)

    def image_to_decide_on(self, epoch: int) -> Image:
        """The state after all that is decided; refused unless this node leads the epoch and knows all before it."""
        if self._led is None or self._led[0] != epoch or not self.is_active:
            raise NotController("this node has not yet applied all that was decided before it led; try again")
        if self.last_commit is None:
            return self.image
        if self._fork is None:
            self._fork = self.image.fork()
            for each in self._written:
                _apply_all(self._fork, each.commit.records if each.commit is not None else ())
        return self._fork

    # What the driver says

    def lead(self, epoch: int, start_offset: int) -> None:
        self._led = (epoch, start_offset)
        self._note_progress()

    def lead_no_more(self) -> None:
        self._give_up(RequestTimedOut("the leadership went before this was committed; it may take effect, or not"))

    def fail(self, error: StorageError) -> None:
        self.failure = str(error)
        self._give_up(error)

    def _give_up(self, error: BarnabasError) -> None:
        """What is on its way is not awaited any more; what becomes of it the log will say."""
        written, self._written = self._written, deque()
        self._fork = self._led = None
        for each in written:
            if each.commit is not None:
                each.commit.end(error)
        self._note_progress()

    def note_proposal(self, proposal: Proposal) -> None:
        assert isinstance(proposal, Commit)
        self._written.append(_Written(proposal.base_offset, proposal.end_offset, proposal.epoch, proposal))
        if self._fork is not None:
            _apply_all(self._fork, proposal.records)

    def note_control(self, base_offset: int, end_offset: int, epoch: int) -> None:
        self._written.append(_Written(base_offset, end_offset, epoch, None))

    def commit_to(self, end_offset: int) -> None:
        self.high_watermark = max(self.high_watermark, end_offset)
        self._advance()

    def begin_anew(self, snapshot: SnapshotId, contents: SnapshotContents | None) -> None:
        self._reader.forget()
        self._position = snapshot.end_offset
        self.high_watermark = max(self.high_watermark, snapshot.end_offset)
        self.bytes_applied = self.records_applied = 0
        if contents is not None:
            self.snapshots_received += 1
            new = Image()
            _apply_all(new, [decode_record(record) for record in contents.records])
            changes = difference(self.image, new)
            _apply_all(self.image, changes)
            self.tell(changes)
        self._note_progress()

    # Applying

    def _advance(self) -> None:
        """Apply what is committed, and tell those who wait for that."""
        self._apply_committed()
        self._note_progress()

    def _apply_committed(self) -> None:
        """Apply from memory what this node wrote, else from the log."""
        while self.failure is None and self._position < self.high_watermark:
            if not self._written or self._written[0].base_offset > self._position:
                if not self._is_reading:
                    self._is_reading = True
                    self.begin(self._read_log())
                return
            if self._written[0].end_offset > self.high_watermark:
                return
            self._apply_written(self._written.popleft())
        if not self._written:
            self._fork = None

    def _apply_written(self, written: _Written) -> None:
        self._reader.pass_over(written.epoch)
        self._position = written.end_offset
        commit = written.commit
        if commit is None:
            return
        error = None
        self.bytes_applied += len(commit.data)
        try:
            self._apply(commit.records)
        except Exception as problem:
            error = problem
        commit.end(error)

    def _apply(self, records: Sequence[MetadataRecord]) -> None:
        """Apply and tell; one who cannot bear it is no reason to pass over the others."""
        try:
            _apply_all(self.image, records)
        except BaseException as error:
            self.failure = str(error) or type(error).__name__
            raise
        self.records_applied += len(records)
        self.tell(records)
        self.on_applied()

    def tell(self, records: Sequence[MetadataRecord]) -> None:
        """Have all who follow the image hear of records that are in it now."""
        errors = []
        for subscriber in self._subscribers:
            try:
                subscriber(records)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _read_log(self) -> None:
        """Read what is committed and was written by others, up to where memory goes on."""
        try:
            while self._position < self.high_watermark and self.failure is None:
                if self._written and self._written[0].base_offset <= self._position:
                    break
                start = self._position
                try:
                    data = await self._read_at(start)
                except StorageExhausted:
                    await asyncio.sleep(_RETRY_S)
                    continue
                except StorageError as error:
                    self.fail(error)
                    return
                if self._position != start:
                    continue  # a snapshot took the place of the log
                await self._apply_read(data)
                if self._position == start:
                    await asyncio.sleep(_RETRY_S)  # a snapshot is about to: there is no room for a new log yet
        finally:
            self._is_reading = False
        self._advance()

    async def _read_at(self, offset: int) -> bytes:
        with self._log.health.reading():
            read = self._log.begin_read(offset, max_bytes=_READ_BYTES, end_offset=self.high_watermark)
            return await self._offload.run(read)

    async def _apply_read(self, data: bytes) -> None:
        view = memoryview(data)
        for position, header in iter_batches(data):
            if header.base_offset != self._position:
                return
            commits = list(self._reader.read(view[position : position + header.size], header))
            self.bytes_applied += header.size
            self._position = header.next_offset  # first: whoever hears of a commit may ask how far the image is
            for records in commits:
                self._apply(records)
            await next_turn()


def _apply_all(image: Image, records: Sequence[MetadataRecord]) -> None:
    for record in records:
        image.apply(record)


def _hear(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()  # whoever gave up does not ask


def _nobody_runs(work: Coroutine[Any, Any, None]) -> None:
    work.close()
    raise AssertionError("the metadata log is not started")
