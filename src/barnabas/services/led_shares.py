"""The share partitions that this node leads: loaded from their share coordinator, written to it, and dropped when
somebody else leads.

One `LedShare` is one group's view of one partition. It has one write out at a time, which has all that came up
meanwhile; an acknowledgement is answered when its write is. A write that fails for a while is repeated; one that is
fenced ends it, and the next request loads it anew. Its timer is that of the first lock that runs out, or of the first
record that has waited long enough. While it has dead letters to write (`share_letters`) it stays in memory, used or
not.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from barnabas.core.errors import (
    BarnabasError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    LeaderNotAvailable,
    NotCoordinator,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    PeerError,
    UnknownTopicOrPartition,
)
from barnabas.core.groups.settings import BY_DURATION, EARLIEST, ShareConfig
from barnabas.core.metadata.records import MetadataRecord, PartitionRecord, RemoveTopicRecord
from barnabas.runtime.clock import Clock
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Partition
from barnabas.services import offsets
from barnabas.services.served import ServedTopics
from barnabas.services.share_letters import LetterCounts, ShareLetters, Writing
from barnabas.storage.lookup import TimedOffset

if TYPE_CHECKING:  # loaded with the first share group
    from barnabas.core.groups.share.acknowledging import AckBatch
    from barnabas.core.groups.share.partition import SharePartition, StateWrite
    from barnabas.core.groups.share.persisted import ShareKey, SnapshotRecord

log = get_logger("barnabas.shares")

RETRY_S: Final = 0.2
RETRIES_FOR_S: Final = 15.0  # how long a coordinator may take to be found again; less than a client waits

_FOR_A_WHILE: Final = (
    CoordinatorNotAvailable,
    CoordinatorLoadInProgress,
    NotCoordinator,
    LeaderNotAvailable,
    OffsetNotAvailable,
    PeerError,
)
_FENCED: Final = (FencedLeaderEpoch, FencedStateEpoch, InvalidRequest)
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


class States(Protocol):
    """Where the states are."""

    async def read(self, key: ShareKey, *, leader_epoch: int) -> SnapshotRecord: ...

    async def write(self, key: ShareKey, write: StateWrite, *, state_epoch: int, leader_epoch: int) -> None: ...


class ShareWaiter(Protocol):
    """Somebody who waits for records to be available."""

    def note_available(self) -> None: ...


def for_client(error: BarnabasError) -> BarnabasError:
    """The refusal of a share coordinator, as a client hears it."""
    if isinstance(error, FencedLeaderEpoch | FencedStateEpoch):
        return NotLeaderOrFollower(str(error))
    if isinstance(error, InvalidRequest):
        return UnknownTopicOrPartition(str(error))
    if isinstance(error, _FOR_A_WHILE):
        return CoordinatorNotAvailable(str(error))
    return error


class LedShare:
    """A group's view of a partition that is led here."""

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        *,
        states: States,
        config_of: Callable[[str], ShareConfig],
        offload: Offload,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        letters: Letters,
    ) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.is_reading = False  # one fetch at a time reads from the log for this group
        self.is_wanted = False  # another one came meanwhile
        self.is_short = False  # a fetch found no room for anything new
        self.end: BarnabasError | None = None  # why it is no longer used
        self._share: SharePartition | None = None
        self._states = states
        self._config_of = config_of
        self._offload = offload
        self._clock = clock
        self._tasks = tasks
        self._waiters: dict[ShareWaiter, None] = {}
        self._acks: dict[int, list[asyncio.Future[None]]] = {}  # by the write that they wait for
        self._writing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._letters = letters
        self._writer = ShareLetters(self, letters.writing, letters.counts)
        self._lettering: asyncio.Task[None] | None = None
        self._is_full_said = False
        self.loading = tasks.create_task(self._load())

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{self.partition.name} of share group '{self.key.group}'"

    @property
    def config(self) -> ShareConfig:
        """The settings of the group, as of now."""
        return self._config_of(self.key.group)

    @property
    def is_current(self) -> bool:
        """Whether this node leads under the same leader epoch."""
        partition = self.partition
        is_led = partition.is_led and partition.leader_epoch == self.leader_epoch and not partition.is_deleted
        return self.end is None and is_led

    @property
    def share(self) -> SharePartition:
        """The state; refused unless it is loaded, and this node leads."""
        self.check()
        assert self._share is not None
        return self._share

    def check(self) -> None:
        """Refuse when it is no longer used, or somebody else may lead."""
        if self.end is not None:
            raise type(self.end)(*self.end.args)
        if not self.is_current or not self.partition.may_answer:
            raise NotLeaderOrFollower(f"{self.partition.name} is not led by this node any more")

    @property
    def in_flight(self) -> int:
        """Records that are with members."""
        return 0 if self._share is None else self._share.window.acquired

    @property
    def waiting(self) -> int:
        """Records that wait for their backoff to end."""
        return 0 if self._share is None else self._share.window.waiting

    @property
    def archiving(self) -> int:
        """Records whose dead letter is yet to be written."""
        return 0 if self._share is None else self._share.window.archiving

    @property
    def is_full_of_waiting(self) -> bool:
        """Whether so many records wait that nothing new is delivered."""
        return self._share is not None and self._share.is_full_of_waiting(self.config.limits)

    # Loading

    async def _load(self) -> None:
        try:
            self._share = await self._read()
            self.changed()
            if self._share.must_write:  # where it begins: whoever leads next must begin there, too
                await self.wait_written()
                if self._share.must_write:
                    raise CoordinatorNotAvailable(f"the start offset of {self.key} cannot be written")
            self.wake()
        except BarnabasError as error:
            self.close(for_client(error))

    async def _read(self) -> SharePartition:
        from barnabas.core.groups.share.partition import SharePartition  # noqa: PLC0415 - loaded with the first group
        from barnabas.core.groups.share.persisted import NO_OFFSET  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        deadline = loop.time() + RETRIES_FOR_S
        while True:
            try:
                state = await self._states.read(self.key, leader_epoch=self.leader_epoch)
                start_offset = state.start_offset
                if start_offset == NO_OFFSET:
                    start_offset = await self._find_start()
                share = SharePartition(
                    min(start_offset, self.partition.end_offset),
                    state.batches,
                    state_epoch=state.state_epoch,
                    seed=zlib.crc32(self.key.coordinator_key.encode()),
                )
                share.follow_log_start(self.partition.log_start_offset)
                share.wait_anew(limits=self.config.limits, now_ms=self.now_ms)
                if state.start_offset == NO_OFFSET:
                    share.note_start()
                return share
            except _FOR_A_WHILE:
                if loop.time() >= deadline or not self.is_current:
                    raise
            await asyncio.sleep(RETRY_S)

    async def _find_start(self) -> int:
        config = self.config
        reset = config.auto_offset_reset
        if reset == EARLIEST:
            return self.partition.log_start_offset
        timestamp = offsets.LATEST
        if reset.startswith(BY_DURATION):
            timestamp = max(self._clock.now_ms() - duration_ms(reset.removeprefix(BY_DURATION)), 0)
        found = offsets.find_offset(self.partition, timestamp, is_committed=config.is_committed)
        if not isinstance(found, TimedOffset):
            found = await self._offload.run(found)
        if found.offset >= 0:
            return found.offset
        return self.partition.high_watermark  # nothing is as young

    # Acknowledging

    def acknowledge(self, member: str, acks: Sequence[AckBatch]) -> asyncio.Future[None] | None:
        """Take what a member says; the future is done when it is written. None: there is nothing to be written."""
        number = self.share.acknowledge(member, acks, limits=self.config.limits, now_ms=self.now_ms)
        if number is None:
            self.changed()
            return None
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._acks.setdefault(number, []).append(waiting)
        self.changed()
        return waiting

    def release(self, member: str) -> None:
        """A member's session has ended."""
        share = self._share
        if share is None or self.end is not None:
            return
        if share.release(member, limits=self.config.limits, now_ms=self.now_ms):
            self.changed()

    # The log, and what is not to be lost of it

    def follow_log_start(self) -> None:
        """Records may have been deleted from the log; that some had yet to get their dead letters is told."""
        share = self.share
        before = share.window.archiving
        share.follow_log_start(self.partition.log_start_offset)
        lost = before - share.window.archiving
        if lost:
            self._letters.counts.deleted += lost
            log.error("%s: %d records were deleted before their dead letters could be written", self.title, lost)

    async def _write_letters(self) -> None:
        try:
            await self._writer.run()
        finally:
            self._lettering = None
            self._letters.on_end(self)

    def _say_when_full(self) -> None:
        is_full = self.is_full_of_waiting
        if is_full and not self._is_full_said:
            log.warning(
                "%s: %d records wait to be delivered again, as many as may (share.partition.max.waiting.records); "
                "nothing new is delivered until some have been",
                self.title,
                self.waiting,
            )
        self._is_full_said = is_full

    # Writing

    def changed(self) -> None:
        """Something has changed: set the timer, write what must be, and have those look again who wait for records."""
        share = self._share
        if share is None or self.end is not None:
            return
        self._set_timer(share)
        if share.must_write and self._writing is None:
            self._writing = begin_task(self._tasks, self._write_all(share))
        if share.window.archiving and self._lettering is None:
            self._lettering = begin_task(self._tasks, self._write_letters())
        if share.window.waiting:
            self._say_when_full()
        if self._waiters and (share.next_fetch_offset() <= share.end_offset or self._has_room_again(share)):
            self.wake()

    def _has_room_again(self, share: SharePartition) -> bool:
        if not self.is_short or not share.has_room(self.config.limits):
            return False
        self.is_short = False
        return True

    async def wait_written(self) -> None:
        """Return when nothing is being written."""
        while self._writing is not None:
            await asyncio.wait([self._writing])
        self.check()

    async def _write_all(self, share: SharePartition) -> None:
        try:
            is_written = True
            while is_written and share.must_write and self.end is None:
                is_written = await self._write(share)
        finally:
            self._writing = None

    async def _write(self, share: SharePartition) -> bool:
        write = share.begin_write()
        refusal: BarnabasError | None = None
        try:
            await self._write_with_retries(share, write)
        except BarnabasError as error:
            refusal = error.with_traceback(None)
        except asyncio.CancelledError:
            self._answer(write.number, NotLeaderOrFollower("the node stops"))
            raise
        if self.end is not None:
            self._answer(write.number, self.end)
            return False
        share.end_write(write.number, is_written=refusal is None, limits=self.config.limits, now_ms=self.now_ms)
        self._answer(write.number, None if refusal is None else for_client(refusal))
        if isinstance(refusal, _FENCED):
            self.close(for_client(refusal))
            return False
        self.changed()
        return refusal is None

    async def _write_with_retries(self, share: SharePartition, write: StateWrite) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + RETRIES_FOR_S
        while True:
            try:
                await self._states.write(self.key, write, state_epoch=share.state_epoch, leader_epoch=self.leader_epoch)
                return
            except _FOR_A_WHILE:
                if loop.time() >= deadline or not self.is_current:
                    raise
            await asyncio.sleep(RETRY_S)

    def _answer(self, number: int, error: BarnabasError | None) -> None:
        for waiting in self._acks.pop(number, ()):
            if waiting.done():
                continue
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(type(error)(*error.args))

    # Time

    @property
    def now_ms(self) -> int:
        """The time of locks, on a clock that does not jump."""
        return int(asyncio.get_running_loop().time() * 1000)

    def _set_timer(self, share: SharePartition) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = share.next_deadline_ms()
        if deadline_ms is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(deadline_ms / 1000 + 0.001, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._share is not None and self.end is None:
            self._share.expire(limits=self.config.limits, now_ms=self.now_ms)
            self.changed()

    # Waiting

    def wait(self, waiter: ShareWaiter) -> None:
        """Call when records are available again, or this has ended."""
        self._waiters[waiter] = None

    def stop_waiting(self, waiter: ShareWaiter) -> None:
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Have those look again who wait."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.note_available()

    def close(self, reason: BarnabasError | None = None) -> None:
        """Be used no more: what is not written is lost, and whoever leads next delivers it again."""
        if self.end is not None:
            return
        self.end = reason or NotLeaderOrFollower(f"{self.partition.name} is not led by this node any more")
        if self._timer is not None:
            self._timer.cancel()
        if self._lettering is not None:
            self._lettering.cancel()
        for number in list(self._acks):  # what is being written may still be
            self._answer(number, self.end)
        self.wake()


class Letters(NamedTuple):
    """What a share partition needs for its dead letters."""

    writing: Writing
    counts: LetterCounts
    on_end: Callable[[LedShare], None]  # there are none left


class LedShares:
    """All of a node."""

    def __init__(
        self,
        *,
        served: ServedTopics,
        states: States,
        config_of: Callable[[str], ShareConfig],
        offload: Offload,
        clock: Clock,
        letters: Writing,
    ) -> None:
        self.is_used: Callable[[str], bool] = lambda _group: True  # whether a group has members here
        self.letter_counts = LetterCounts()
        self._letters = Letters(letters, self.letter_counts, self._on_letters_end)
        self._served = served
        self._states = states
        self.config_of = config_of
        self._offload = offload
        self._clock = clock
        self._by_key: dict[ShareKey, LedShare] = {}
        self._by_group: dict[str, dict[ShareKey, LedShare]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def close(self) -> None:
        """Serve nothing more."""
        self._tasks = None
        for led in list(self._by_key.values()):
            self._drop(led)

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.gauge("share_partitions", "Share partitions in memory.", lambda: len(self._by_key))
        metrics.gauge("share_records_in_flight", "Records that are with members of share groups.", self._count)
        metrics.gauge(
            "share_records_waiting",
            "Records of share groups that wait for their backoff to end.",
            lambda: sum(led.waiting for led in self._by_key.values()),
        )
        metrics.gauge(
            "share_partitions_full",
            "Share partitions in which so many records wait that nothing new is delivered.",
            lambda: sum(led.is_full_of_waiting for led in self._by_key.values()),
        )
        metrics.gauge(
            "share_records_archiving",
            "Records of share groups whose dead letter is yet to be written.",
            lambda: sum(led.archiving for led in self._by_key.values()),
        )
        counts = self.letter_counts
        metrics.counter("share_dead_letters_total", "Dead letters that were written.", lambda: counts.written)
        metrics.counter(
            "share_dead_letter_failures_total", "Attempts to write dead letters that failed.", lambda: counts.failures
        )
        metrics.counter(
            "share_dead_letters_lost_total",
            "Records that were deleted from the log before their dead letters could be written.",
            lambda: counts.deleted,
        )

    def _count(self) -> int:
        return sum(led.in_flight for led in self._by_key.values())

    def find(self, key: ShareKey) -> LedShare:
        """The share partition of this key, which may still be loading; refused if it is not led here."""
        topic = self._served.get_by_id(key.topic_id)
        partition = topic.get(key.partition)
        led = self._by_key.get(key)
        if led is not None and not led.is_current:
            self._drop(led)
            led = None
        if led is None:
            if not partition.is_led or not partition.may_answer or self._tasks is None:
                raise NotLeaderOrFollower(f"{partition.name} is not led by this node")
            led = LedShare(
                key,
                partition,
                states=self._states,
                config_of=self.config_of,
                offload=self._offload,
                clock=self._clock,
                tasks=self._tasks,
                letters=self._letters,
            )
            self._by_key[key] = led
            self._by_group.setdefault(key.group, {})[key] = led
        return led

    def of_group(self, group: str) -> list[LedShare]:
        """Those of a group."""
        return list(self._by_group.get(group, {}).values())

    def release(self, group: str, member: str) -> None:
        """A member's session has ended."""
        for led in self.of_group(group):
            led.release(member)

    def let_go(self, group: str) -> None:
        """Drop those of a group that nobody uses, once they are written, with all their dead letters."""
        if self._tasks is not None and self._by_group.get(group):
            begin_task(self._tasks, self._let_go(group))

    async def _let_go(self, group: str) -> None:
        for led in self.of_group(group):
            with suppress(BarnabasError):  # it has ended by itself
                await led.wait_written()
            if self.is_used(group):
                return
            if led.is_current and led.archiving:
                continue
            self._drop(led)

    def _on_letters_end(self, led: LedShare) -> None:
        if led.end is None and not self.is_used(led.key.group):
            self.let_go(led.key.group)

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Leaders may have changed, and topics may have been deleted."""
        if self._by_key and any(isinstance(record, PartitionRecord | RemoveTopicRecord) for record in records):
            for led in list(self._by_key.values()):
                if not led.is_current or led.key.topic_id not in self._served.by_id:
                    self._drop(led)

    def _drop(self, led: LedShare) -> None:
        if self._by_key.get(led.key) is led:
            del self._by_key[led.key]
            of_group = self._by_group[led.key.group]
            del of_group[led.key]
            if not of_group:
                del self._by_group[led.key.group]
        led.loading.cancel()
        led.close()


def begin_task(tasks: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """A task for this; None if the node is stopping, or gone."""
    try:
        return tasks.create_task(work)
    except RuntimeError:
        work.close()
        return None


def duration_ms(text: str) -> int:
    """The milliseconds of an ISO 8601 duration, as far as days, hours, minutes and seconds."""
    found = _DURATION.fullmatch(text)
    assert found is not None, "settings are checked when they are made"
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
