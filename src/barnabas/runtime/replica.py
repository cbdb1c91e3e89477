"""The replica of a partition that this node has: its log, and its role.

A partition is led here, or followed, or neither, as the metadata says. One that is not led takes nothing from clients
and tells them nothing, but for consumers that read from followers; one that is followed takes what its leader has
(`following`). What is asked of a leader is of
its leader epoch: when another begins, or somebody else leads, whoever waits hears so, for the same offset may mean
other records then. What the watermark is and who is in sync `core.replica.leader` decides.

A partition has no files until something is appended to it. Reading makes none: `find_log` says that there is no log,
and the partition is empty from 0 to 0.
"""

from collections.abc import Collection
from typing import Final, NamedTuple
from uuid import UUID

from barnabas.core.errors import BarnabasError, CutOff, NotLeaderOrFollower, UnknownTopicOrPartition
from barnabas.core.fetched import FetchPartition
from barnabas.core.model import TopicPartition
from barnabas.core.replica.leader import IsrProposal, Leader, Visits, check_in_sync
from barnabas.core.replica.throttle import NOT_THROTTLED
from barnabas.runtime.following import Following
from barnabas.runtime.logs import Logs
from barnabas.runtime.traffic import UNCOUNTED
from barnabas.runtime.watermark import Watermark
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.log import Log


class Replication(NamedTuple):
    """Where a partition is, as this node sees it: who it is itself, and what the metadata says."""

    node_id: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    min_insync_replicas: int


_ALONE: Final = Replication(0, (0,), (0,), 0, 1)


class Replica(Watermark):
    """One partition on this node. It is led here, alone, until the metadata says something else."""

    __slots__ = (
        "_held",
        "_is_synced",
        "_leader",
        "_log",
        "_log_config",
        "_logs",
        "_replication",
        "_topic_id",
        "following",
        "is_alone",
        "is_cut_off",
        "is_deleted",
        "is_led",
        "leader_epoch",
        "name",
        "throttle",
        "traffic",
    )

    def __init__(
        self,
        name: TopicPartition,
        logs: Logs,
        log_config: LogConfig,
        *,
        leader_epoch: int,
        replication: Replication | None = None,
        topic_id: UUID | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self._topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.is_deleted = False
        self.is_led = True
        self.is_cut_off = False
        self._logs = logs
        self._held: Log | None = None  # whoever leads
        self._log: Log | None = None  # the same while it is led here: so nobody else needs to look
        self._leader: Leader | None = None  # once there is a log, or another replica
        self.following: Following | None = None
        self._replication = replication or _ALONE
        self.is_alone = len(self._replication.replicas) == 1
        self.throttle = NOT_THROTTLED
        self.traffic = UNCOUNTED
        self._log_config = log_config
        self._is_synced = log_config.flush_policy is FlushPolicy.FSYNC

    def __repr__(self) -> str:
        return f"Partition({self.name})"

    @property
    def log(self) -> Log:
        """The log of a partition that has one; refused once it is deleted."""
        if self._log is not None:
            return self._log
        self._check_present()
        raise AssertionError(f"{self.name} has no log; ask for it with find_log")

    @property
    def has_log(self) -> bool:
        return self._log is not None

    @property
    def data_dir_path(self) -> str:
        """The data directory that its files are in."""
        return self._logs.data_dir.path

    @property
    def topic_id(self) -> UUID | None:
        return self._topic_id

    @property
    def is_here(self) -> bool:
        """Whether this node has a replica."""
        return self._replication.node_id in self._replication.replicas

    @property
    def in_sync(self) -> tuple[int, ...]:
        """The ISR, as the metadata say."""
        return self._replication.isr

    @property
    def replicas(self) -> tuple[int, ...]:
        """The nodes that have it, as the metadata say."""
        return self._replication.replicas

    @property
    def min_insync_replicas(self) -> int:
        """How many of them must be in sync for records to be taken with acks=all."""
        return self._replication.min_insync_replicas

    @property
    def is_in_sync(self) -> bool:
        """Whether this node is in the ISR."""
        return self._replication.node_id in self._replication.isr

    @property
    def is_synced(self) -> bool:
        """Whether records count once they are on disk, not before."""
        return self._is_synced

    def find_log(self) -> Log | None:
        """The log to read from; None while nothing was ever written. Refused where there is one that cannot be read."""
        if self._log is not None:
            return self._log
        self._check_present()
        unreadable = self._logs.data_dir.unreadable.get(self.name)
        if unreadable is not None:
            raise unreadable
        return None

    def find_log_at_any(self) -> Log | None:
        """As `find_log`, for a consumer that reads from followers, too: up to their own high watermark."""
        if self.following is None or self.is_deleted or self.name in self._logs.data_dir.unreadable:
            return self.find_log()
        return self._held

    def open_log(self) -> Log:
        """The log, made if there is none: for whoever is about to append, and for the start of a node."""
        return self._log if self._log is not None else self._open()

    def _open(self) -> Log:
        self._check_present()
        return self._hold()

    def _check_present(self) -> None:
        if self.is_deleted:
            raise UnknownTopicOrPartition(f"{self.name} was deleted")
        if not self.is_led:
            raise self._not_led()

    def _not_led(self) -> NotLeaderOrFollower:
        return NotLeaderOrFollower(f"{self.name} is not led here in leader epoch {self.leader_epoch}")

    def hold_log(self) -> None:
        """Take the log that is on disk, whoever leads: for the start of a node."""
        if self._held is None:
            self._leader = None  # that it leads may be known since before this: of a partition that was empty
            self._hold()
            if self.following is not None:
                self.following = Following(self, self._logs, leader_id=self.following.leader_id)

    def _hold(self) -> Log:
        log = self._logs.data_dir.create_log(self.name, self._log_config, topic_id=self._topic_id)
        self._held = log
        self._logs.partitions[log] = self
        self.high_watermark = log.flushed_offset if self.is_alone else self._known_watermark(log)
        if self.is_led and self._leader is None:
            self._begin_to_lead()
        elif self.is_led:
            self._log = log
            log.note_leader_epoch(self.leader_epoch)
        if log.flushed_offset != log.end_offset:
            self._logs.flusher.flush_soon(log)  # it was recovered without room for all that belongs to it
        return log

    def _known_watermark(self, log: Log) -> int:
        """The high watermark as it was known last; the replicas raise it again."""
        noted = max(self.high_watermark, log.context.checkpoints.high_watermark(self.name), log.log_start_offset)
        return min(noted, log.end_offset)

    def note_watermark(self) -> None:
        """Note the high watermark, to be checkpointed. That of a partition with one replica follows from its log."""
        if self._held is not None and not self.is_alone:
            self._held.context.checkpoints.set_high_watermark(self.name, self.high_watermark)

    # Leading

    def lead(self, leader_epoch: int, replication: Replication | None = None) -> None:
        """Lead under this epoch, with these replicas. What was asked in another epoch is over."""
        self._set_replication(replication)
        if self.is_led and leader_epoch == self.leader_epoch:
            self._note_replication()
            return
        self.is_led, self.leader_epoch = True, leader_epoch
        self._leader = self.following = None
        self._end_cut()
        self._begin_to_lead()
        self.fail_waiters(NotLeaderOrFollower(f"{self.name} is led in leader epoch {leader_epoch} now; try again"))

    def resign(self, leader_epoch: int) -> None:
        """Somebody else leads, or nobody: nothing is taken and nothing told here until `lead`."""
        was_led, self.is_led, self.leader_epoch = self.is_led, False, leader_epoch
        self._log = self._leader = self.following = None
        self._end_cut()
        self._logs.replicas.discard(self)
        if was_led:
            self.fail_waiters(self._not_led())
        else:
            self._wake()  # who reads from a follower hears of the new leader epoch, too

    def _set_replication(self, replication: Replication | None) -> None:
        self._replication = replication or _ALONE
        self.is_alone = len(self._replication.replicas) == 1

    def _begin_to_lead(self) -> None:
        log = self._log = self._held
        if log is not None:
            log.note_leader_epoch(self.leader_epoch)
        elif self.is_alone:
            return  # there is nobody to lead, and nothing
        replicas = self._logs.replicas
        self._leader = self._new_leader(0 if log is None else log.end_offset)
        if not self.is_alone:
            self._leader.note_active(replicas.active)
            replicas.add(self)
        if log is not None:
            self._note_own(log)

    def _new_leader(self, start_offset: int) -> Leader:
        node_id, replicas, isr, partition_epoch, min_insync_replicas = self._replication
        return Leader(
            node_id,
            epoch=self.leader_epoch,
            start_offset=start_offset,
            high_watermark=self.high_watermark,
            replicas=replicas,
            isr=isr,
            partition_epoch=partition_epoch,
            min_insync_replicas=min_insync_replicas,
            counts_durable=self._is_synced,
            max_lag_ms=self._logs.replicas.max_lag_ms,
            now_ms=0 if self.is_alone else self._logs.replicas.now_ms(),
        )

    def _note_replication(self) -> None:
        """The same leadership, with other replicas or others in sync."""
        leader = self._leader
        if leader is None:
            self._begin_to_lead()
            return
        was_alone = leader.is_alone
        _, replicas, isr, partition_epoch, leader.min_insync_replicas = self._replication
        if self._log is not None:
            self._note_own(self._log)  # while it was alone it was not told
        now_ms = 0 if was_alone and self.is_alone else self._logs.replicas.now_ms()
        self._advance(leader.note_isr(isr=isr, replicas=replicas, partition_epoch=partition_epoch, now_ms=now_ms))
        if self.is_alone:
            self._end_cut()
            self._logs.replicas.discard(self)
        else:
            leader.note_active(self._logs.replicas.active)
            self._logs.replicas.add(self)
        self._wake_replicas()  # one that is no longer in sync, or no replica, is to be heard at its next fetch

    def _note_own(self, log: Log) -> None:
        """This node's own log has grown, or more of it is durable."""
        leader = self._leader
        if leader is not None:
            self._advance(leader.note_own(end_offset=log.end_offset, durable_end_offset=log.flushed_offset))

    def note_flushed(self) -> None:
        if self._log is None:
            if self.following is not None:
                self.following.note_flushed()
        elif self._is_synced:
            if self.is_alone:
                self._advance(self._log.flushed_offset)
            else:
                self._note_own(self._log)

    def note_fetch(self, replica_id: int, wanted: FetchPartition, *, broker_epoch: int) -> None:
        """A follower fetches: it has everything before that offset, and says how much of it is on disk."""
        leader = self._leader
        if leader is None or replica_id not in self._replication.replicas:
            raise NotLeaderOrFollower(f"node {replica_id} is not a replica of {self.name}")
        end_offset, flushed_offset = wanted.fetch_offset, wanted.flushed_offset
        high_watermark = leader.note_fetch(
            replica_id,
            leader_epoch=wanted.current_leader_epoch,
            log_end_offset=end_offset,
            # Another implementation does not tell: what it has fetched is on disk, as far as anybody knows.
            durable_end_offset=end_offset if flushed_offset < 0 else min(flushed_offset, end_offset),
            broker_epoch=broker_epoch,
            now_ms=self._logs.replicas.now_ms(),
            log_start_offset=wanted.log_start_offset,
        )
        self._advance(high_watermark)
        if len(leader.isr) < len(self._replication.replicas):
            self._logs.replicas.doubt(self)

    def rest(self, replica_id: int, broker_epoch: int, visits: Visits) -> bool:
        """Whether a follower has everything, and need not be heard again until something changes here: then whoever
        waits for something appended is called. `visits` says from now on when the follower fetches.
        """
        return self._leader is not None and self._leader.rest(replica_id, broker_epoch=broker_epoch, visits=visits)

    def end_rest(self, replica_id: int) -> None:
        """A follower fetches no longer."""
        if self._leader is not None:
            self._leader.end_rest(replica_id)

    def note_start(self) -> None:
        """The log starts at another offset: followers are to be told."""
        self._wake_replicas()

    def find_follower(self, nodes: Collection[int], offset: int) -> int | None:
        """Of these nodes the one that a consumer at `offset` may read from, in the place of this one, which leads."""
        return None if self._leader is None else self._leader.most_caught_up(nodes, offset)

    def propose(self, *, now_ms: int) -> IsrProposal | None:
        """The ISR to ask the controller for, if it should change or its answer is not known; time counts, too."""
        leader = self._leader
        if leader is None:
            return None
        proposal = leader.propose(now_ms=now_ms) or leader.proposal
        self._advance(leader.high_watermark)
        return proposal

    def refuse(self, proposal: IsrProposal) -> None:
        """The controller has certainly refused to change the ISR."""
        if self._leader is not None:
            self._advance(self._leader.refuse(proposal))

    @property
    def may_answer(self) -> bool:
        """Whether nobody else leads it, as far as it is led here: what is read now is the newest. True of this moment.

        The only replica needs no lease: nobody else can lead.
        """
        lease = self._logs.replicas.lease
        return self.is_alone or lease is None or lease.holds()

    def check_in_sync(self) -> None:
        """Refuse records that all in sync are to have while those are fewer than `min.insync.replicas`, and any records
        while it is cut off. With one replica there is nothing to refuse: `is_alone` says so without a call.
        """
        if self.is_cut_off:
            raise self._cut_off()
        if self._leader is not None:
            self._leader.check_in_sync()
        else:  # of a partition without a log, which nothing makes that is refused
            _, replicas, isr, _, min_insync_replicas = self._replication
            check_in_sync(len(isr), of=len(replicas), min_insync_replicas=min_insync_replicas)

    def look_for_cut(self, *, has_lease: bool, now_ms: int, silence_ms: int) -> bool:
        """See whether it is led by a node that is cut off from the others, and act on it: while it is, no records are
        taken, and whoever waits for an acknowledgement hears that at once, to find out who leads. What is committed can
        be read all the same.
        """
        leader = self._leader
        is_cut_off = leader is not None and not has_lease and leader.hears_too_few(now_ms=now_ms, silence_ms=silence_ms)
        if not is_cut_off:
            self._end_cut()
        elif not self.is_cut_off:
            self.is_cut_off = True
            self._logs.replicas.cut_off[self.name] = None
            if self._acks is not None:
                self._acks.fail(self._cut_off())
        return is_cut_off

    def _end_cut(self) -> None:
        if self.is_cut_off:
            self.is_cut_off = False
            self._logs.replicas.cut_off.pop(self.name, None)

    def _cut_off(self) -> CutOff:
        return CutOff(
            f"another node may lead {self.name}: no controller has confirmed this one, and too few replicas fetch here"
        )

    @property
    def knows_its_watermark(self) -> bool:
        """Whether everything that was acknowledged by an earlier leader is below the high watermark."""
        return self._leader is None or self._leader.is_alone or self._leader.knows_its_watermark

    # Following

    def follow(self, leader_epoch: int, leader_id: int, replication: Replication) -> None:
        """Follow another node, which leads under this epoch."""
        self._set_replication(replication)
        following = self.following
        if following is None or (leader_epoch, leader_id) != (self.leader_epoch, following.leader_id):
            self.resign(leader_epoch)
            self.following = Following(self, self._logs, leader_id=leader_id)

    @property
    def others_in_sync(self) -> list[int]:
        """The other nodes that have everything that is committed, the leader first."""
        leader_id = None if self.following is None else self.following.leader_id
        nodes = [node for node in self._replication.isr if node not in (self._replication.node_id, leader_id)]
        return nodes if leader_id is None else [leader_id, *nodes]

    def note_damage(self, offset: int) -> None:
        """The log here cannot be read at an offset."""
        if self._held is not None:
            self._logs.note_damage(self._held, min(max(offset, self._held.log_start_offset), self._held.end_offset))

    @property
    def held_log(self) -> Log | None:
        """The log that is here, whoever leads."""
        return self._held

    def make_log(self) -> Log:
        """The log that is here, made if there is none: for what a leader sends."""
        return self._held if self._held is not None else self._hold()

    def note_followed(self, high_watermark: int) -> None:
        """What the leader says of the high watermark, as far as this log goes; lower only after a truncation."""
        if high_watermark < self.high_watermark:
            self.high_watermark = high_watermark
        else:
            self._advance(high_watermark)

    # Letting go

    def delete(self) -> None:
        """The topic was deleted: waiters hear it; the files are removed by whoever deletes the topic."""
        self.is_deleted = True
        self._let_go(UnknownTopicOrPartition(f"{self.name} was deleted"))

    def be_without_leader(self, leader_epoch: int, replication: Replication) -> None:
        """Nobody leads. Who the replicas are counts all the same: whether this node has one, and must keep its log."""
        self._set_replication(replication)
        self.resign(leader_epoch)

    def leave(self, leader_epoch: int, replication: Replication) -> bool:
        """This node is no replica any more: it lets go of the log, whose files are to be removed if there is one."""
        self._set_replication(replication)
        self.resign(leader_epoch)
        had_log = self._held is not None
        self._let_go(self._not_led())
        self.high_watermark = 0
        return had_log

    def _let_go(self, error: BarnabasError) -> None:
        self._leader = self.following = None
        self._logs.replicas.discard(self)
        if self._held is not None:
            self._logs.partitions.pop(self._held, None)
            self._logs.flusher.forget(self._held, error)
            self._held = self._log = None
        self.fail_waiters(error)
