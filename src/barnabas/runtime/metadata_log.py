"""The metadata of the cluster on this node: the log ``__cluster_metadata-0``, and the image that it makes.

Decide, append, sync, apply: `commit` does these one commit at a time, in the order of the calls, so a decision sees all
that was decided before it. Services use `ClusterMetadata` and nothing else of it: the image, `commit` and
`subscribe`. Today a single node commits by its own disk; Raft takes its place behind the same three.

Invariants: the image is what a replay of the log up to `high_watermark` makes; a commit that returned is durable; one
that a crash interrupted is there whole or not at all. A commit that failed on disk leaves the image as it was and
takes the data directory offline: whether it is in the log is known after the next start.

A snapshot spares the replay, and the log before it. The one before the newest is kept, and the log from there on, so
that damage to one file costs nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from barnabas.core.errors import ControllerBusy, NotController, StorageError, StorageExhausted
from barnabas.core.metadata.commits import encode_batches, encode_commit
from barnabas.core.metadata.decision import Decision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.names import METADATA_TOPIC
from barnabas.core.metadata.records import MetadataRecord, encode_record
from barnabas.core.model import TopicPartition
from barnabas.runtime.clock import Clock, SystemClock
from barnabas.runtime.offload import Offload
from barnabas.runtime.turns import in_turns
from barnabas.storage.config import FOREVER, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.storage.metadata_loading import LoadedMetadata, load_metadata
from barnabas.storage.metadata_snapshot import SnapshotId
from barnabas.storage.recovery import metadata_missing
from barnabas.storage.truncate import delete_before

T = TypeVar("T")
Decide: TypeAlias = Callable[[Image], Decision[T]]
Subscriber: TypeAlias = Callable[[Sequence[MetadataRecord]], None]

METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)
METADATA_LOG_CONFIG: Final = LogConfig(
    max_message_bytes=8 * 1024 * 1024, retention_ms=-1, retention_bytes=-1, segment_ms=FOREVER
)
"""Snapshots alone say what of this log may go."""

RETRY_S: Final = 0.1
_SNAPSHOTS_KEPT: Final = 2


class ClusterMetadata(Protocol):
    """All that services may know of where the metadata comes from, and how it is changed."""

    @property
    def image(self) -> Image:
        """The state now. It changes with every commit: keep nothing of it over an await."""
        ...

    async def commit(self, decide: Decide[T]) -> T:
        """Decide on the state as it is then; the reply comes when the decision is durable and applied."""
        ...

    def subscribe(self, subscriber: Subscriber) -> None:
        """Have the records of every commit from now on, once they are applied."""
        ...


class MetadataLogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the metadata log."""

    max_record_bytes_between_snapshots: int = 20 * 1024 * 1024
    """A snapshot is taken after so many bytes of log."""
    max_records_between_snapshots: int = 200_000
    """A snapshot is taken after so many records."""
    max_waiting_commits: int = 1000
    """Commits that wait for their turn; one more is refused."""


class MetadataLog:
    """`ClusterMetadata` on the disk of one node, which is its only controller. Made by `open`."""

    def __init__(
        self,
        log: Log,
        loaded: LoadedMetadata,
        *,
        offload: Offload,
        clock: Clock,
        node_id: int,
        config: MetadataLogConfig,
    ) -> None:
        self._log = log
        self._image = loaded.image
        self._snapshots = loaded.snapshots
        self._offload = offload
        self._clock = clock
        self._config = config
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._assumed: list[MetadataRecord] = []  # applied, and not written yet: see `assume`
        self._subscribers: list[Subscriber] = []
        self._failure: str | None = None
        self._is_closed = False
        self._bytes_since_snapshot = loaded.replayed_bytes
        self._records_since_snapshot = loaded.replayed_records
        self.snapshot: SnapshotId | None = loaded.snapshot
        """The newest snapshot."""
        self.leader_id = node_id
        self.epoch = max(log.epochs.latest, loaded.snapshot.epoch if loaded.snapshot else 0, 0) + 1
        """The epoch that this start of the node leads in."""
        self.high_watermark = log.end_offset
        """The offset up to which the log is committed and applied."""
        self.notes = tuple(loaded.notes)
        """What opening found that somebody should read."""

    @classmethod
    def open(
        cls,
        data_dir: DataDir,
        *,
        offload: Offload,
        clock: Clock | None = None,
        node_id: int = 0,
        config: MetadataLogConfig | None = None,
    ) -> "MetadataLog":
        """Load the newest snapshot and what the log has after it; a log that is not there is made.

        Blocks: for the start, before the loop serves. Damage that no snapshot makes up for is `CorruptLog`.
        """
        directory, has_others = f"{data_dir.path}/{METADATA_PARTITION}", data_dir.has_others(METADATA_PARTITION)
        if has_others and not data_dir.disk.exists(directory):
            raise metadata_missing(directory, "is missing")
        log = data_dir.create_log(METADATA_PARTITION, METADATA_LOG_CONFIG)
        log.config = METADATA_LOG_CONFIG  # whoever opened it may not have known what it is
        with data_dir.health.guarded():
            loaded = load_metadata(log)
        if has_others and log.end_offset == 0:
            raise metadata_missing(directory, "is empty")
        return cls(
            log,
            loaded,
            offload=offload,
            clock=clock or SystemClock(),
            node_id=node_id,
            config=config or MetadataLogConfig(),
        )

    @property
    def image(self) -> Image:
        """The state now."""
        return self._image

    @property
    def end_offset(self) -> int:
        """The end of the log, a commit under way included."""
        return self._log.end_offset

    @property
    def log_start_offset(self) -> int:
        """Where the log begins; what came before is in a snapshot."""
        return self._log.log_start_offset

    @property
    def leader_epoch(self) -> int:
        """Another word for `epoch`."""
        return self.epoch

    def subscribe(self, subscriber: Subscriber) -> None:
        """Have the records of every commit from now on, once they are applied.

        It is called on the loop, must not wait and must not raise; one that does is no reason to pass over the others.
        """
        self._subscribers.append(subscriber)

    # Committing

    async def commit(self, decide: Decide[T]) -> T:
        """Decide on the current image, write that down, apply it, tell the subscribers, and give the reply.

        What `decide` refuses passes through, and nothing is changed. `StorageError`: the image is as it was. Once
        something is written the commit is brought to its end even if the caller gives up.
        """
        if self._waiting >= self._config.max_waiting_commits:
            raise ControllerBusy(f"{self._waiting} changes of the metadata wait already; try again")
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        try:
            self._check_open()
            decision = decide(self._image)
            if decision.records:
                await self._encode_and_append([*self._assumed, *decision.records])
                await _finish(self._settle(decision.records))
            return decision.reply
        finally:
            self._turn.release()

    def commit_now(self, decide: Decide[T]) -> T:
        """The same, here and now: for the start, before the loop serves."""
        assert not self._turn.locked(), "a commit is under way; use commit"
        self._check_open()
        decision = decide(self._image)
        if decision.records:
            self._commit_now(decision.records)
        return decision.reply

    def _commit_now(self, records: Sequence[MetadataRecord]) -> None:
        now_ms, written = self._clock.now_ms(), [*self._assumed, *records]
        self._append(written, encode_commit(written, timestamp_ms=now_ms), now_ms=now_ms)
        with self._failing():
            self._log.flush()
            self._apply(records)
        self._notify(records)
        if self._is_snapshot_due:
            self._take_snapshot_now()

    def assume(self, decide: Decide[T]) -> T:
        """Decide and apply, but write nothing down, for there is no room: for the start, before the loop serves.

        What is assumed is written with the next commit, or by `write_assumed`.
        """
        decision = decide(self._image)
        for record in decision.records:
            self._image.apply(record)
        self._assumed += decision.records
        self._notify(decision.records)
        return decision.reply

    def write_assumed(self) -> bool:
        """Write down what was assumed, here and now; whether nothing is left of that."""
        if self._assumed and not self._turn.locked():
            with suppress(StorageExhausted):
                self._commit_now([])
        return not self._assumed

    async def close(self) -> None:
        """Let the commit under way finish and refuse all others. The log is closed with its data directory."""
        self._is_closed = True
        async with self._turn:
            pass

    def _check_open(self) -> None:
        if self._is_closed:
            raise NotController("this node is shutting down")
        if self._failure is not None:
            raise StorageError(f"the metadata log failed before and takes no more: {self._failure}")
        self._log.context.health.check()

    async def _encode_and_append(self, records: Sequence[MetadataRecord]) -> None:
        """What is decided stands while it is encoded: nothing else is committed meanwhile."""
        now_ms = self._clock.now_ms()
        batches = [batch async for batch in in_turns(encode_batches(records, timestamp_ms=now_ms), per_turn=1)]
        self._check_open()
        self._append(records, bytearray().join(batches), now_ms=now_ms)

    def _append(self, records: Sequence[MetadataRecord], data: bytearray, *, now_ms: int) -> None:
        self._log.append(data, leader_epoch=self.epoch, now_ms=now_ms)
        self._assumed.clear()
        self._bytes_since_snapshot += len(data)
        self._records_since_snapshot += len(records)

    async def _settle(self, records: Sequence[MetadataRecord]) -> None:
        """All that is left to do once a commit is in the log."""
        with self._failing():
            await self._sync()
            self._apply(records)
        self._notify(records)
        if self._is_snapshot_due:
            await self._take_snapshot()

    async def _sync(self) -> None:
        """Make what is appended durable, however long there may be no room or no descriptor for that."""
        while True:
            try:
                plan = self._log.begin_flush()
                if plan is not None:
                    await self._offload.run(plan.run)
                    self._log.end_flush(plan)
                return
            except OSError as error:
                refusal = self._log.context.health.fail(error)
                if not isinstance(refusal, StorageExhausted):
                    raise refusal from error
            except StorageExhausted:
                pass
            await asyncio.sleep(RETRY_S)

    def _apply(self, records: Sequence[MetadataRecord]) -> None:
        assert self._log.flushed_offset == self._log.end_offset
        for record in records:
            self._image.apply(record)
        self.high_watermark = self._log.end_offset

    def _notify(self, records: Sequence[MetadataRecord]) -> None:
        errors = []
        for subscriber in self._subscribers:
            try:
                subscriber(records)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Around what must not fail half way: the log and the image may differ then, and no commit may follow."""
        try:
            yield
        except BaseException as error:
            self._failure = str(error) or type(error).__name__
            raise

    # Snapshots. A commit that brings one about stands, whatever becomes of it.

    @property
    def _is_snapshot_due(self) -> bool:
        return (
            self._bytes_since_snapshot >= self._config.max_record_bytes_between_snapshots
            or self._records_since_snapshot >= self._config.max_records_between_snapshots
        )

    async def _take_snapshot(self) -> None:
        """Nothing is committed meanwhile: so the image stays as it is while it is gone over, in turns."""
        snapshot = self._next_snapshot
        records = [encode_record(record) async for record in in_turns(self._image.to_records())]
        try:
            await self._offload.run(lambda: self._snapshots.write(snapshot, records))
        except OSError as error:
            self._log.context.health.fail(error)
            return
        self._end_snapshot(snapshot)

    def _take_snapshot_now(self) -> None:
        snapshot = self._next_snapshot
        try:
            self._snapshots.write(snapshot, [encode_record(record) for record in self._image.to_records()])
        except OSError as error:
            self._log.context.health.fail(error)
            return
        self._end_snapshot(snapshot)

    @property
    def _next_snapshot(self) -> SnapshotId:
        return SnapshotId(self.high_watermark, self._log.epochs.latest)

    def _end_snapshot(self, snapshot: SnapshotId) -> None:
        """The snapshot is durable: what came before the one before it may go.

        On the loop, though it syncs a few small files: the checkpoints that it writes are those of every log here.
        """
        self.snapshot = snapshot
        self._bytes_since_snapshot = self._records_since_snapshot = 0
        try:
            with self._log.context.health.guarded():
                self._log.roll()  # so that whole segments end where a snapshot does
                self._forget_before(self._snapshots.ids()[-_SNAPSHOTS_KEPT:])
        except StorageError:
            return  # the directory is offline, and says so to whoever comes next

    def _forget_before(self, kept: Sequence[SnapshotId]) -> None:
        if len(kept) < _SNAPSHOTS_KEPT:
            return
        delete_before(self._log, kept[0].end_offset)
        for snapshot in self._snapshots.ids():
            if snapshot < kept[0]:
                self._snapshots.remove(snapshot)


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Do `work` to its end; whoever cancels hears of it, but only then."""
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    task.result()
    if cancellation is not None:
        raise cancellation
