"""`ClusterMetadata` of a node that takes part in the quorum: decisions, and how they get into the log and the image.

Decide, append, commit, apply. Decisions are made one at a time, in the order of the calls; each sees all that were
decided before it, though they may still be on their way to the quorum, and many may be. A decision that changes
nothing, or is refused, is answered when all that it was made on is committed.

Invariants: the image is what a replay of the log up to `applied_offset` makes; a commit that returned is committed; one
that a crash interrupted is there whole or not at all. One whose node lost the leadership or its disk meanwhile is
answered as unknown.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar, cast
from uuid import UUID

from barnabas.core.errors import BarnabasError, ControllerBusy, NotController, StorageError, StorageExhausted
from barnabas.core.metadata.commits import encode_batches
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.levels import check_level
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.quorum import Quorum
from barnabas.core.metadata.records import MetadataRecord
from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.state import RaftConfig
from barnabas.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.runtime.applied_metadata import AppliedMetadata, Commit
from barnabas.runtime.clock import Clock, SystemClock
from barnabas.runtime.cluster_metadata import Decide, LeadershipListener, Subscriber
from barnabas.runtime.dice import Dice, SystemDice
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.offload import Offload
from barnabas.runtime.raft_driver import NoPeers, QuorumPeers, RaftDriver
from barnabas.runtime.raft_driver.describing import describe
from barnabas.runtime.snapshot_taking import SnapshotConfig, SnapshotTaking
from barnabas.runtime.turns import in_turns
from barnabas.storage.config import FOREVER, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.metadata_loading import LoadedMetadata, load_metadata
from barnabas.storage.metadata_snapshot import SnapshotId
from barnabas.storage.quorum_log import QuorumLog
from barnabas.storage.recovery_report import metadata_missing

T = TypeVar("T")

METADATA_LOG_CONFIG: Final = LogConfig(
    max_message_bytes=8 * 1024 * 1024, retention_ms=-1, retention_bytes=-1, segment_ms=FOREVER
)
"""Only snapshots decide what of this log may be deleted."""


class MetadataLogConfig(SnapshotConfig, frozen=True, kw_only=True):
    """The settings of the metadata log."""

    max_waiting_commits: int = 1000
    """Commits that are not done, decided or not; one more is refused."""


class _Decided(NamedTuple):
    """What to wait for, and what to answer then."""

    awaited: Commit | None
    reply: object = None
    refusal: BarnabasError | None = None


class MetadataLog:
    """The metadata of a node, and its part in the quorum. Made by `open`; `start` before anything is committed."""

    def __init__(
        self,
        log: QuorumLog,
        loaded: LoadedMetadata,
        node: RaftNode,
        *,
        offload: Offload,
        clock: Clock,
        config: MetadataLogConfig,
    ) -> None:
        self._log = log
        self._clock = clock
        self._config = config
        self._applied = AppliedMetadata(log, loaded, offload)
        self._driver = RaftDriver(node, log, self._applied, NoPeers(), offload=offload, clock=clock)
        self._turn = asyncio.Lock()
        self._under_way = 0
        self._assumed: list[MetadataRecord] = []  # applied, and not written yet: see `assume`
        self._is_closed = False
        self._commits = 0
        self._snapshots = SnapshotTaking(log, self._applied, self._driver, offload=offload, config=config)
        self._snapshots.newest = loaded.snapshot
        self._place_task: asyncio.Task[None] | None = None
        self.notes = tuple(loaded.notes)
        """Findings of opening the log, for the operator."""

    @classmethod
    def open(
        cls,
        data_dir: DataDir,
        *,
        offload: Offload,
        clock: Clock | None = None,
        dice: Dice | None = None,
        node_id: int = 0,
        replica: ReplicaKey | None = None,
        cluster_id: str | None = None,
        static_voters: VoterSet | None = None,
        raft: RaftConfig | None = None,
        config: MetadataLogConfig | None = None,
    ) -> "MetadataLog":
        """Load the newest snapshot and the log after it; a missing log is created.

        `static_voters` vote as long as the log names none: a fixed list, or nobody, for a node that joins others. Left
        out, this node votes alone, and writes itself to the log once it knows its directory id.

        Blocks: for the start, before the loop serves. Damage that no snapshot makes up for is `CorruptLog`.
        """
        directory, has_others = f"{data_dir.path}/{METADATA_PARTITION}", data_dir.has_others(METADATA_PARTITION)
        if has_others and not data_dir.disk.exists(directory):
            raise metadata_missing(directory, "is missing")
        log = data_dir.create_log(METADATA_PARTITION, METADATA_LOG_CONFIG)
        log.config = METADATA_LOG_CONFIG  # whoever opened it may not have known what it is
        replica = replica or ReplicaKey(node_id)
        voters = VoterSet.of([Voter(replica)]) if static_voters is None else static_voters
        with data_dir.health.guarded():
            loaded = load_metadata(log, replica=replica, static_voters=voters)
            if loaded.reader.unfinished_at is not None:
                # Nobody was told that it is there, and the epoch that this node is about to lead ends it.
                loaded.notes.append(f"an interrupted commit at offset {loaded.reader.unfinished_at} is passed over")
            if has_others and log.end_offset == 0:
                raise metadata_missing(directory, "is empty")
            quorum_log = QuorumLog(log, loaded.snapshots)
            restored = quorum_log.restored(loaded.voters)
        node = RaftNode(
            replica,
            cluster_id if cluster_id is not None else loaded.image.cluster_id or "",
            restored,
            dice=dice or SystemDice(),
            config=raft,
            static_voters=voters,
            forms_quorum=static_voters is None,
        )
        return cls(
            quorum_log,
            loaded,
            node,
            offload=offload,
            clock=clock or SystemClock(),
            config=config or MetadataLogConfig(),
        )

    async def start(
        self,
        tasks: asyncio.TaskGroup,
        peers: QuorumPeers | None = None,
        *,
        endpoints: Sequence[VoterEndpoint] = (),
        joins: bool = False,
    ) -> None:
        """Take part in the quorum; a sole voter leads when this returns, unless there is no room on the disk.

        `endpoints`: where other nodes of the quorum find this one. `joins`: it becomes a voter by itself.
        """
        self._driver.node.listen_at(endpoints)
        if peers is not None:
            self._driver.use_peers(peers)
        self._applied.begin = tasks.create_task
        self._applied.on_applied = lambda: self._snapshots.take_if_due(tasks)
        tasks.create_task(self._driver.run(), name="quorum")
        await self._driver.wait_started()
        if peers is None:
            return
        from barnabas.runtime.raft_driver.joining import keep_place  # noqa: PLC0415 - a node that is alone has its place
        from barnabas.runtime.raft_driver.peers import WirePeers  # noqa: PLC0415

        if isinstance(peers, WirePeers):
            self._place_task = tasks.create_task(keep_place(self._driver.node, peers, joins=joins))

    @property
    def image(self) -> Image:
        """The state now."""
        return self._applied.image

    @property
    def end_offset(self) -> int:
        """The end of the log, what is not committed yet included."""
        return self._log.end_offset

    @property
    def log_start_offset(self) -> int:
        """Where the log begins; what came before is in a snapshot."""
        return self._log.start_offset

    @property
    def applied_offset(self) -> int:
        """The offset up to which the image has the log."""
        return self._applied.applied_offset

    @property
    def high_watermark(self) -> int:
        """The offset up to which the log is committed."""
        return self._applied.high_watermark

    @property
    def epoch(self) -> int:
        """The epoch that the quorum is in, as far as this node knows."""
        return self._driver.node.quorum.epoch

    @property
    def quorum(self) -> Quorum:
        """Who commits changes, as far as this node knows."""
        return describe(
            self._driver.node,
            high_watermark=self.high_watermark,
            now_ms=self._driver.time_ms,
            wall_ms=self._clock.now_ms(),
        )

    @property
    def cluster_id(self) -> str | None:
        """The cluster that this node takes part in; None if it has none yet."""
        return self._driver.node.cluster_id or self.image.cluster_id

    @property
    def directory_id(self) -> UUID | None:
        """The id of the data directory, as the quorum knows it."""
        return self._driver.node.key.directory_id

    @property
    def driver(self) -> RaftDriver:
        """This node's part in the quorum, for those who take its requests."""
        return self._driver

    @property
    def voters(self) -> VoterSet:
        """Who votes, and where they listen, as far as this node knows."""
        return self._driver.node.voters.current

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call with the records of every commit from now on, once they are applied.

        The callback runs on the loop, must not wait and must not raise; if one does, the others are still called.
        """
        self._applied.subscribe(subscriber)

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._applied.is_active and not self._is_closed

    @property
    def unconfirmed_ms(self) -> int | None:
        """How long ago it was certain that no other node leads the quorum; None: it never was, or this one does not."""
        now_ms = self._driver.time_ms
        confirmed_ms = self._driver.node.confirmed_ms(now_ms)
        return None if confirmed_ms is None else now_ms - confirmed_ms

    @property
    def former_leader(self) -> tuple[int, int] | None:
        """Who led the quorum before this node, and how many milliseconds ago it can last have been sure of that."""
        return self._driver.node.former_leader(self._driver.time_ms)

    async def wait_applied(self, end_offset: int) -> None:
        """Return when the log up to `end_offset` is applied here."""
        await self._applied.wait_applied(end_offset)

    def follow_leadership(self, listener: LeadershipListener) -> None:
        """Call when this node becomes the active controller, and when it is no more."""
        self._applied.follow_leadership(listener)

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.counter("metadata_commits_total", "Metadata changes that were written.", lambda: self._commits)
        metrics.gauge("metadata_commits_waiting", "Metadata changes that wait.", lambda: self._under_way)
        metrics.counter(
            "metadata_snapshots_total", "Metadata snapshots that were taken.", lambda: self._snapshots.taken
        )
        metrics.counter(
            "metadata_snapshots_received_total",
            "Metadata snapshots that another node sent, and that replaced the log.",
            lambda: self.snapshots_received,
        )

    # Committing

    async def commit(self, decide: Decide[T]) -> T:
        """Decide on all that is decided, have it committed, apply it, tell the subscribers, and give the reply.

        What `decide` refuses passes through, and nothing is changed. Once something is written the commit goes on even
        if the caller gives up. For other refusals see `ClusterMetadata`.
        """
        if self._under_way >= self._config.max_waiting_commits:
            raise ControllerBusy(f"{self._under_way} metadata changes are already in progress; try again")
        self._under_way += 1
        decided: _Decided | None = None
        try:
            async with self._turn:
                decided = await self._decide(decide)
            if decided.awaited is not None:
                await asyncio.shield(decided.awaited.done)
            if decided.refusal is not None:
                raise decided.refusal
            return cast("T", decided.reply)
        finally:
            self._under_way -= 1
            decided = None  # or a refusal would hold itself, by its traceback

    async def _decide(self, decide: Decide[T]) -> "_Decided":
        """Decide; what is decided, a refusal too, may rest on something that is still on its way."""
        epoch = self._check_leads()
        if self._driver.no_room is not None and self.applied_offset == self._log.end_offset:
            # Its epoch has not begun in the log, and cannot for now: what needs no writing is answered all the same.
            decision = decide(self.image)
            if decision.records:
                raise self._driver.no_room
            return _Decided(None, decision.reply)
        before = self._applied.last_commit
        try:
            image = self._applied.image_to_decide_on(epoch)
            decision = decide(image)
            check_level(image, decision.records)
        except BarnabasError as refusal:
            return _Decided(before, refusal=refusal)
        if not decision.records:
            return _Decided(before, decision.reply)
        return _Decided(await self._write(epoch, decision.records), decision.reply)

    async def _write(self, epoch: int, records: Sequence[MetadataRecord]) -> Commit:
        """Append a decision, and what was assumed before it. What is decided stands meanwhile: nothing else is."""
        written = [*self._assumed, *records]
        timestamp_ms = self._clock.now_ms()
        batches = [batch async for batch in in_turns(encode_batches(written, timestamp_ms=timestamp_ms), per_turn=1)]
        commit = Commit(bytearray().join(batches), epoch, records)
        self._driver.propose(commit)
        await _settled(commit.appended)
        self._assumed.clear()
        self._commits += 1
        return commit

    def _check_leads(self) -> int:
        """The epoch to decide in."""
        if self._is_closed:
            raise NotController("this node is shutting down")
        if self._applied.failure is not None:
            raise StorageError(f"the metadata log has failed and accepts no more changes: {self._applied.failure}")
        self._log.health.check()
        epoch = self._driver.leading_epoch
        if epoch is None:
            raise NotController("this node does not lead the quorum")
        return epoch

    def assume(self, decide: Decide[T]) -> T:
        """Decide and apply without writing, since there is no space: for the start, before the loop serves.

        What is assumed is written with the next commit, or by `write_assumed`.
        """
        decision = decide(self.image)
        for record in decision.records:
            self.image.apply(record)
        self._assumed += decision.records
        self._applied.tell(decision.records)
        return decision.reply

    async def write_assumed(self) -> bool:
        """Write what was assumed, if there is space by now; returns whether nothing is left to write."""
        if self._assumed and not self._turn.locked():  # else the commit under way writes it, or the next call
            async with self._turn:
                with suppress(StorageExhausted, NotController):
                    commit = await self._write(self._check_leads(), [])
                    await asyncio.shield(commit.done)
        return not self._assumed

    async def close(self) -> None:
        """Let the commits in progress finish and refuse all others. The log is closed with its data directory."""
        self._is_closed = True
        if self._place_task is not None:
            self._place_task.cancel()
        async with self._turn:
            last = self._applied.last_commit
        if last is not None:
            await asyncio.wait([last.done])
        await self.wait_snapshot()
        await self._driver.close()

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot that this node has taken or started from."""
        return self._snapshots.newest

    @property
    def snapshots_received(self) -> int:
        """How many snapshots of other nodes have replaced the log since the start."""
        return self._applied.snapshots_received

    async def wait_snapshot(self) -> None:
        """Until the snapshot that is being taken, if there is one, is there."""
        await self._snapshots.wait()


async def _settled(appended: "asyncio.Future[None]") -> None:
    """Wait for what cannot be taken back; whoever cancels hears of it, but only then."""
    cancellation: asyncio.CancelledError | None = None
    while not appended.done():
        try:
            await asyncio.wait([appended])
        except asyncio.CancelledError as error:
            cancellation = error
    refusal = appended.exception()
    if cancellation is not None:
        raise cancellation  # also if it was refused: whoever is cancelled must not take that for an answer and go on
    if refusal is not None:
        raise refusal
