"""The leader of a partition in one leader epoch: takes the progress of its replicas, and decides what follows.

In: how far each replica is, which of them are in sync (ISR) by the metadata, which nodes are active. Out: the high
watermark, proposals to shrink or grow the ISR, and whether records are acknowledged.

The high watermark is the end of what all of these have: the leader, every replica that is or may by now be in sync (the
committed ISR and the proposed one), and every replica that has caught up and is about to be proposed, or it would never
catch up. It does not move while fewer are in sync than `min.insync.replicas`, or than there are replicas if those are
fewer. What a replica *has* is what is on its disk, or, where the topic leaves flushing to the operating system, what is
in its log.

All of this is of one leader epoch. When another begins, this object goes, and with it all that was asked of it: an
offset may mean other records then.

Invariants: the watermark never goes back; at most one proposal is in flight; the leader is always in its own ISR.

Must not know: how replicas fetch, where proposals go, what waits for an acknowledgement.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.core.errors import FencedLeaderEpoch, NotEnoughReplicas, NotLeaderOrFollower, UnknownLeaderEpoch
from barnabas.core.model import NO_OFFSET

NO_BROKER_EPOCH: Final = -1
"""The broker epoch of a node whose registration is not checked."""

DEFAULT_MAX_LAG_MS: Final = 30_000

_NEVER_MS: Final = -(1 << 62)


class IsrProposal(NamedTuple):
    """A proposal to the controller: this ISR, each replica with its broker epoch, if nothing changed meanwhile."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]  # node ids and broker epochs


def _are_enough(in_sync: int, replicas: int, min_insync_replicas: int) -> bool:
    """Whether so many in-sync replicas are enough: `min.insync.replicas`, or all replicas if those are fewer."""
    return in_sync >= min(min_insync_replicas, replicas)


def check_in_sync(in_sync: int, *, of: int, min_insync_replicas: int) -> None:
    """Refuse acks=all while only so many `of` the replicas are in sync, and that is too few."""
    if not _are_enough(in_sync, of, min_insync_replicas):
        noun = "replica is" if in_sync == 1 else "replicas are"
        raise NotEnoughReplicas(f"{in_sync} {noun} in sync, min.insync.replicas={min_insync_replicas}")


class Visits:
    """When a follower fetched last in a fetch session: shared by the partitions that rest in that session."""

    __slots__ = ("last_ms",)

    def __init__(self, *, last_ms: int = _NEVER_MS) -> None:
        self.last_ms = last_ms


class Progress:
    """The progress of one follower, by its fetches in this leader epoch. Ends are -1 before the first.

    While the partition rests in the follower's fetch session the follower has everything, and `visits` says when it
    fetched last.
    """

    __slots__ = (
        "broker_epoch",
        "durable_end_offset",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leader_end_then",
        "log_end_offset",
        "log_start_offset",
        "visits",
    )

    def __init__(self, *, last_caught_up_ms: int) -> None:
        self.broker_epoch = NO_BROKER_EPOCH
        self.log_start_offset = NO_OFFSET
        self.log_end_offset = NO_OFFSET
        self.durable_end_offset = NO_OFFSET
        self.last_caught_up_ms = last_caught_up_ms
        self.last_fetch_ms = _NEVER_MS
        self.leader_end_then = 0  # the end of the leader's log at that fetch
        self.visits: Visits | None = None

    def note_visits(self) -> None:
        """While it rested, each fetch of its session found it caught up."""
        if self.visits is not None:
            self.last_fetch_ms = max(self.last_fetch_ms, self.visits.last_ms)
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.visits.last_ms)

    def was_heard(self, *, since_ms: int) -> bool:
        """Whether it has fetched since then, or the epoch has begun since, with it in sync."""
        self.note_visits()
        return max(self.last_fetch_ms, self.last_caught_up_ms) > since_ms

    def end_rest(self) -> None:
        """From now on only fetches that name this partition count."""
        self.note_visits()
        self.visits = None


class Leader:
    """The state and decisions of the leader of a partition in one leader epoch."""

    __slots__ = (
        "_active",
        "_end_offset",
        "_followers",
        "_max_lag_ms",
        "_maximal",
        "_node_id",
        "_now_ms",
        "_own_end",
        "_proposal",
        "counts_durable",
        "epoch",
        "high_watermark",
        "is_alone",
        "isr",
        "min_insync_replicas",
        "partition_epoch",
        "start_offset",
    )

    def __init__(  # noqa: PLR0913 - all of it is of one moment: that at which the epoch begins
        self,
        node_id: int,
        *,
        epoch: int,
        start_offset: int,
        high_watermark: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        partition_epoch: int,
        min_insync_replicas: int = 1,
        counts_durable: bool = True,
        max_lag_ms: int = DEFAULT_MAX_LAG_MS,
        now_ms: int = 0,
    ) -> None:
        """`start_offset` is the end of the log as the epoch begins; of followers nothing is known from before it."""
        self._max_lag_ms = max_lag_ms
        self._now_ms = now_ms
        self._node_id = node_id
        self.epoch = epoch
        self.start_offset = start_offset
        self.high_watermark = high_watermark
        self.min_insync_replicas = min_insync_replicas
        self.counts_durable = counts_durable
        self.isr = tuple(isr)
        self.partition_epoch = partition_epoch
        self._end_offset = start_offset  # of this log, durable or not
        self._own_end = high_watermark  # what counts of it
        self._active: Mapping[int, int] = {}
        self._proposal: IsrProposal | None = None
        # Those in sync have as long as anybody who has just caught up: they may not have heard of this leader yet.
        self._followers = {
            each: Progress(last_caught_up_ms=now_ms if each in self.isr else _NEVER_MS)
            for each in replicas
            if each != node_id
        }
        self.is_alone = not self._followers
        self._maximal: frozenset[int] = frozenset(self.isr)

    # What comes in

    def note_own(self, *, end_offset: int, durable_end_offset: int) -> int:
        """The leader's own log has grown, or more of it is durable; returns the high watermark."""
        if end_offset != self._end_offset:
            for progress in self._followers.values():
                if progress.visits is not None:
                    progress.end_rest()
            self._end_offset = end_offset
        self._own_end = durable_end_offset if self.counts_durable else end_offset
        if not self.is_alone:
            self._advance()
        elif self._own_end > self.high_watermark:
            self.high_watermark = self._own_end
        return self.high_watermark

    def note_fetch(
        self,
        replica: int,
        *,
        leader_epoch: int,
        log_end_offset: int,
        durable_end_offset: int,
        broker_epoch: int,
        now_ms: int,
        log_start_offset: int = NO_OFFSET,
    ) -> int:
        """A follower fetches: its log ends here, and is on disk up to there. Returns the high watermark.

        Not for a fetch that is answered with a diverging epoch: that end is of other records. A fetch with an older
        broker epoch is ignored.
        """
        progress = self._followers.get(replica)
        if progress is None:
            raise NotLeaderOrFollower(f"node {replica} does not follow this partition")
        self.check_epoch(leader_epoch)
        if broker_epoch < progress.broker_epoch:
            return self.high_watermark
        progress.end_rest()
        if broker_epoch != progress.broker_epoch:
            progress.broker_epoch = broker_epoch
            progress.last_fetch_ms = _NEVER_MS  # what the last life had seen proves nothing for this one
        progress.log_start_offset, progress.log_end_offset = log_start_offset, log_end_offset
        progress.durable_end_offset = durable_end_offset
        has = self._end_of(progress)
        if has >= self._end_offset:
            progress.last_caught_up_ms = max(progress.last_caught_up_ms, now_ms)
        elif progress.last_fetch_ms != _NEVER_MS and has >= progress.leader_end_then:
            progress.last_caught_up_ms = max(progress.last_caught_up_ms, progress.last_fetch_ms)
        progress.last_fetch_ms, progress.leader_end_then = now_ms, self._end_offset
        self._now_ms = now_ms
        self._advance()
        return self.high_watermark

    def rest(self, replica: int, *, broker_epoch: int, visits: Visits) -> bool:
        """Whether nothing is to be learned from more fetches of a follower until the log grows: it is in sync, and its
        last fetch said that it has everything. `visits` says from now on when it fetches.
        """
        progress = self._followers.get(replica)
        if progress is None or replica not in self.isr or progress.broker_epoch != broker_epoch:
            return False
        if self._end_of(progress) < self._end_offset or progress.log_end_offset < self._end_offset:
            return False
        progress.end_rest()
        progress.visits = visits
        return True

    def end_rest(self, replica: int) -> None:
        """A follower fetches this partition no longer."""
        progress = self._followers.get(replica)
        if progress is not None:
            progress.end_rest()

    def note_active(self, active: Mapping[int, int]) -> None:
        """These nodes are registered, not fenced and not shutting down: their broker epochs by their ids."""
        self._active = active

    def note_isr(self, *, isr: Sequence[int], replicas: Sequence[int], partition_epoch: int, now_ms: int) -> int:
        """The metadata has a new ISR, in this leader epoch; returns the high watermark. An older one is ignored."""
        if partition_epoch < self.partition_epoch:
            return self.high_watermark
        self.partition_epoch, self._now_ms = partition_epoch, now_ms
        if self._proposal is not None and partition_epoch > self._proposal.partition_epoch:
            self._proposal = None  # this is what came of it, or it comes too late
        for replica in replicas:
            if replica != self._node_id and replica not in self._followers:
                self._followers[replica] = Progress(last_caught_up_ms=now_ms if replica in isr else _NEVER_MS)
        for replica in [each for each in self._followers if each not in replicas]:
            del self._followers[replica]
        self.isr = tuple(isr)
        self.is_alone = not self._followers
        self._settle_maximal()
        self._advance()
        return self.high_watermark

    # What goes out

    def check_epoch(self, leader_epoch: int) -> None:
        """Refuse a request for another leader epoch."""
        if leader_epoch < self.epoch:
            raise FencedLeaderEpoch(f"the leader epoch is {self.epoch}; {leader_epoch} is stale")
        if leader_epoch > self.epoch:
            raise UnknownLeaderEpoch(f"the leader epoch is {self.epoch}; {leader_epoch} is unknown")

    def check_in_sync(self) -> None:
        """Refuse acks=all while too few replicas are in sync."""
        check_in_sync(len(self.isr), of=len(self._followers) + 1, min_insync_replicas=self.min_insync_replicas)

    def is_acked(self, end_offset: int, *, leader_epoch: int) -> bool:
        """Whether everything below an offset of this epoch is acknowledged; another epoch is refused."""
        if leader_epoch != self.epoch:
            raise NotLeaderOrFollower(f"written in leader epoch {leader_epoch}; it is {self.epoch} now")
        return end_offset <= self.high_watermark

    def hears_too_few(self, *, now_ms: int, silence_ms: int) -> bool:
        """Whether so few replicas have fetched for that long that the others can do without this leader: fewer than a
        record must be on to be acknowledged, or half of the ISR at most. A leader that is its own ISR, where that is
        enough, needs nobody.

        The leader counts itself. Those in sync are taken for heard as the epoch begins.
        """
        heard = 1 + sum(progress.was_heard(since_ms=now_ms - silence_ms) for progress in self._followers.values())
        are_enough = _are_enough(heard, len(self._followers) + 1, self.min_insync_replicas)
        return not are_enough or 2 * heard <= len(self.isr)

    @property
    def knows_its_watermark(self) -> bool:
        """Whether everything acknowledged before this epoch is certainly below the high watermark."""
        return self.high_watermark >= self.start_offset

    def most_caught_up(self, nodes: Collection[int], offset: int) -> int | None:
        """Of these nodes the follower to read from at `offset` (KIP-392), if one is active, in sync and has it.

        It serves up to its own high watermark, which may be lower than this one's for a moment.
        """
        best: tuple[int, int, int] | None = None
        for replica in nodes:
            progress = self._followers.get(replica)
            if progress is None or replica not in self.isr or replica not in self._active:
                continue
            if progress.log_start_offset <= offset <= progress.log_end_offset:
                progress.note_visits()
                rank = (progress.log_end_offset, progress.last_caught_up_ms, replica)
                best = rank if best is None else max(best, rank)
        return None if best is None else best[2]

    def propose(self, *, now_ms: int) -> IsrProposal | None:
        """The ISR to propose to the controller, if it should change; counted until it is settled.

        Replicas that were behind for too long are removed. Replicas that have everything acknowledged, and everything
        from before this epoch, with the broker epoch that the cluster knows, are added. To be called regularly: time
        alone may move the high watermark, too.
        """
        if self.is_alone:
            return None
        self._now_ms = now_ms
        self._advance()
        if self._proposal is not None:
            return None
        wanted = [
            replica
            for replica in (self._node_id, *self._followers)
            if replica == self._node_id or (self._may_stay(replica) if replica in self.isr else self._may_join(replica))
        ]
        if set(wanted) == set(self.isr):
            return None
        epochs = tuple((replica, self._active.get(replica, NO_BROKER_EPOCH)) for replica in sorted(wanted))
        self._proposal = IsrProposal(self.epoch, self.partition_epoch, epochs)
        self._settle_maximal()
        return self._proposal

    @property
    def proposal(self) -> IsrProposal | None:
        """The proposal that the controller has not settled: to be repeated if its answer is unknown."""
        return self._proposal

    def refuse(self, proposal: IsrProposal) -> int:
        """The controller has certainly refused a proposal: it no longer counts. Returns the high watermark."""
        if proposal == self._proposal:
            self._proposal = None
            self._settle_maximal()
            self._advance()
        return self.high_watermark

    # Inside

    def _end_of(self, progress: Progress) -> int:
        return progress.durable_end_offset if self.counts_durable else progress.log_end_offset

    def _settle_maximal(self) -> None:
        proposed = () if self._proposal is None else (node for node, _ in self._proposal.isr)
        self._maximal = frozenset((*self.isr, *proposed))

    def _may_stay(self, replica: int) -> bool:
        progress = self._followers[replica]
        return self._end_of(progress) >= self._end_offset or self._is_close(progress)

    def _is_close(self, progress: Progress) -> bool:
        """Whether it was caught up recently."""
        progress.note_visits()
        return self._now_ms - progress.last_caught_up_ms <= self._max_lag_ms

    def _may_join(self, replica: int) -> bool:
        progress = self._followers[replica]
        return self._end_of(progress) >= max(
            self.high_watermark, self.start_offset
        ) and progress.broker_epoch == self._active.get(replica)

    def _advance(self) -> None:
        """Raise the high watermark to what all that count have, if enough are in sync."""
        if not _are_enough(len(self.isr), len(self._followers) + 1, self.min_insync_replicas):
            return
        end = self._own_end
        for replica, progress in self._followers.items():
            if replica in self._maximal or (self._is_close(progress) and self._may_join(replica)):
                end = min(end, self._end_of(progress))
        self.high_watermark = max(self.high_watermark, end)
