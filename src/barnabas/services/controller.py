"""The controller's side of membership: registrations, heartbeats, fencing, leaving, and blocks of producer ids. What it
decides on partitions is in `controller_partitions`.

Only the active controller answers; any other node refuses with `NotController`. What it knows of brokers beyond the
metadata are their sessions: soft state, made anew each time this node becomes active, and gone when it is no more.

Invariants: an answer is given by a node that was the active controller throughout, or says what is committed. A
heartbeat that changes nothing is answered from the image: it neither writes nor waits for the quorum, so that brokers
are not fenced because the log is busy.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from barnabas.core.errors import BarnabasError, BrokerIdNotRegistered, NotController, StorageExhausted
from barnabas.core.metadata.brokers import (
    Heartbeat,
    HeartbeatReply,
    Registration,
    fence,
    heartbeat,
    is_older_copy,
    left_without_records,
    register,
    take_producer_ids,
    unregister,
)
from barnabas.core.metadata.cluster import start_cluster
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.isr import IsrChange
from barnabas.core.metadata.records import ScramCredentialRecord
from barnabas.core.metadata.sessions import Sessions
from barnabas.runtime.cluster_metadata import ClusterMetadata, Decide
from barnabas.runtime.log_lines import get_logger
from barnabas.services.controller_partitions import ControlledPartitions, Outcome, PartitionRules
from barnabas.services.features import highest_levels
from barnabas.services.settings import TopicConfig

log = get_logger("barnabas.controller")

PRODUCER_IDS_BLOCK: Final = 1000
RETRY_S: Final = 0.5
MAX_NAMED: Final = 10
LATE_MS: Final = 500
"""A timer that is later than this says that this process stood still."""


class ControllerCalls(Protocol):
    """The controller as brokers reach it: in the same process, or over the network."""

    async def register(self, registration: Registration) -> int:
        """Register a broker; returns its epoch."""
        ...

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatReply:
        """Keep a broker's session, and hear what it should do."""
        ...

    async def allocate_producer_ids(self, node_id: int, epoch: int) -> range:
        """A block of producer ids for a broker."""
        ...

    async def alter_partitions(
        self, node_id: int, *, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> Sequence[object]:
        """Change the ISRs of partitions that a broker leads; a `BarnabasError` for each that is refused."""
        ...


class Formation(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster begins with, for the controller that is the first one to be active."""

    cluster_id: str
    min_insync_replicas: str | None = None
    """As it is given; None for the default."""
    credentials: tuple[ScramCredentialRecord, ...] = ()
    """Of the first users."""


class Controller:
    """The controller of one node; `run` is its task. `ControllerCalls` for the broker in this process."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        *,
        node_id: int,
        session_timeout_ms: int,
        max_lag_ms: int | None = None,
        formation: Formation,
        partitions: PartitionRules | None = None,
        assume: Callable[[Decide[Any]], Any] | None = None,
    ) -> None:
        """`assume` applies what a disk without room cannot take: for the registration of this node itself.

        `max_lag_ms`: how long leaders keep a replica in the ISR that does not fetch.
        """
        self._metadata = metadata
        self._node_id = node_id
        self._timeout_ms = session_timeout_ms
        self._lease_ms = session_timeout_ms if max_lag_ms is None else min(session_timeout_ms, max_lag_ms)
        self._fencing: Counter[int] = Counter()  # nodes whose fencing may be decided, and not in the log yet
        self._formation = formation
        self._assume = assume
        self.partitions = ControlledPartitions(metadata, partitions or PartitionRules())
        self._sessions: Sessions | None = None
        self._is_formed = False
        self._changed = asyncio.Event()  # whether the next session to end, or the leadership, is another
        metadata.follow_leadership(self._lead)

    def _lead(self, epoch: int | None) -> None:
        self._sessions = None
        self._is_formed = False
        if epoch is not None:
            self._sessions = Sessions(self._metadata.image, timeout_ms=self._timeout_ms, now_ms=_now_ms())
            former = self._metadata.former_leader
            if former is not None:
                self._sessions.note_silence(*former)
        self._changed.set()

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._metadata.is_active

    def _leading(self) -> Sessions:
        if self._sessions is None or not self._metadata.is_active:
            raise NotController("this node is not the active controller")
        return self._sessions

    def _check_leads(self, sessions: Sessions) -> None:
        """After an await: these sessions are still those of the active controller."""
        if self._leading() is not sessions:
            raise NotController("the leadership has changed meanwhile; try again")

    # What brokers ask

    async def _form(self) -> None:
        """Write what a cluster begins with, unless it is there."""
        if self._is_formed:
            return
        given = self._formation.min_insync_replicas
        kept = await self._metadata.commit(
            lambda image: start_cluster(
                image,
                cluster_id=self._formation.cluster_id,
                min_insync_replicas=given or str(TopicConfig().min_insync_replicas),
                features=highest_levels(),
                credentials=self._formation.credentials,
            )
        )
        self._is_formed = True
        if given not in (None, kept):
            log.warning(
                "min.insync.replicas=%s is not used: the cluster has had %s since it was made; "
                "alter it for all brokers, not where one starts",
                given,
                kept,
            )

    async def register(self, registration: Registration, *, is_local: bool = False) -> int:
        """Register a broker; returns its epoch, which is higher than those of all registrations before it.

        One that `is_local`, in this process, is let in at once, and also on a disk without room.
        """
        sessions = self._sessions if is_local else self._leading()
        try:
            await self._form()
        except StorageExhausted:
            if self._metadata.image.cluster_id is None:
                raise
        if sessions is not None:
            self._check_leads(sessions)
            self._note_own(sessions)
        node_id, epoch = registration.node_id, -1
        lost: list[str] = []
        older: list[int] = []

        def decide(image: Image) -> MetadataDecision[int]:
            # Decisions are made one at a time, and the one before is in the log: this one is written at its end, or
            # behind what Raft writes itself meanwhile. So the next registration gets a higher epoch in any case.
            nonlocal epoch
            has_session = sessions is not None and sessions.has(node_id, now_ms=_now_ms())
            offset = self._metadata.end_offset
            decision = register(
                image,
                registration,
                epoch=offset,
                has_session=has_session,
                is_local=is_local,
                rules=self.partitions.rules,
            )
            epoch = decision.reply
            lost[:] = left_without_records(image, decision.records)
            older[:] = [node_id] if is_older_copy(image, registration) else []
            if sessions is not None:
                # From now on, not from when it is committed: whoever registers under the same id next is refused.
                sessions.begin(node_id, epoch=epoch, now_ms=_now_ms())
                self._changed.set()
            return decision

        try:
            committed = await self._metadata.commit(decide)
            if older:
                log.warning(
                    "the data directory of node %d is an older copy of the one that it was last registered with: the "
                    "node is in sync with nothing until it has fetched what it lacks",
                    node_id,
                )
            _tell_lost(node_id, lost)
            return committed
        except BarnabasError as error:
            if is_local and self._assume is not None and isinstance(error, StorageExhausted):
                return int(self._assume(decide))
            if sessions is not None and epoch >= 0:
                sessions.end(node_id)  # it was decided, and is not known to be committed
            raise

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatReply:
        """Keep a broker's session; let it in, fence it or have it leave as it asks for."""
        sessions = self._leading()

        def decide(image: Image) -> MetadataDecision[HeartbeatReply]:
            active = [node_id for node_id, node in sorted(image.nodes.items()) if node.is_active]
            is_known = sessions.is_known_to_leave(beat.node_id, active)
            return heartbeat(image, beat, is_known_to_leave=is_known, rules=self.partitions.rules)

        self._note_own(sessions)
        decision = decide(self._metadata.image)
        if not sessions.has(beat.node_id, now_ms=_now_ms()):
            self._changed.set()
        sessions.note_heartbeat(beat.node_id, epoch=beat.epoch, known_offset=beat.metadata_offset, now_ms=_now_ms())
        reply = decision.reply
        if decision.records:
            reply = await self._metadata.commit(decide)
            self._check_leads(sessions)
        if reply.should_shut_down:
            sessions.end(beat.node_id)
        elif beat.wants_shutdown:
            # Everything by which it leaves is applied here: others have it once they have applied as much.
            sessions.note_leaving(beat.node_id, offset=self._metadata.applied_offset - 1)
        return msgspec.structs.replace(
            reply, lease_ms=self._lease_of(beat.node_id), decided_offset=self._metadata.end_offset
        )

    def _lease_of(self, node_id: int) -> int:
        """For how long a heartbeat of now keeps others from leading, who may be elected by another controller, too."""
        unconfirmed_ms = self._metadata.unconfirmed_ms
        if unconfirmed_ms is None or self._fencing[node_id]:
            return 0
        return max(self._lease_ms - unconfirmed_ms, 0)

    async def allocate_producer_ids(self, node_id: int, epoch: int) -> range:
        """A block of producer ids, for a broker that is registered with this epoch; no two blocks overlap."""
        return await self._metadata.commit(
            lambda image: take_producer_ids(image, node_id, epoch=epoch, count=PRODUCER_IDS_BLOCK)
        )

    async def unregister(self, node_id: int) -> None:
        """Remove a broker that is gone from the cluster."""
        sessions = self._leading()
        self._note_own(sessions)
        await self._metadata.commit(
            lambda image: unregister(
                image, node_id, has_session=sessions.has(node_id, now_ms=_now_ms()), rules=self.partitions.rules
            )
        )
        sessions.end(node_id)

    async def alter_partitions(self, node_id: int, *, broker_epoch: int, changes: Sequence[IsrChange]) -> list[Outcome]:
        """Change the ISRs of partitions that a broker leads; what became of each, in their order."""
        self._leading()
        return await self.partitions.alter_isrs(node_id, broker_epoch=broker_epoch, changes=changes)

    def _note_own(self, sessions: Sessions) -> None:
        """The broker in this process is as alive as the controller, and has applied what is applied."""
        own = self._metadata.image.nodes.get(self._node_id)
        if own is not None and not own.is_fenced:
            known_offset = self._metadata.applied_offset - 1
            sessions.note_heartbeat(self._node_id, epoch=own.epoch, known_offset=known_offset, now_ms=_now_ms())

    # Fencing

    async def run(self) -> None:
        """Form the cluster, fence brokers that are silent, and have the right replicas lead, whenever this node is the
        active controller.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._run_sessions())
            tasks.create_task(self.partitions.run())

    async def _run_sessions(self) -> None:
        while True:
            self._changed.clear()
            sessions = self._sessions
            try:
                if sessions is not None:
                    await self._form()
                due_ms = None if sessions is None else self._next_due_ms(sessions)
                if due_ms is None or due_ms > _now_ms():
                    await self._wait(due_ms)
                    if sessions is not None and due_ms is not None and (late_ms := _now_ms() - due_ms) > LATE_MS:
                        sessions.prolong(late_ms)
                elif sessions is not None:
                    await self._fence_overdue(sessions)
            except BarnabasError as refusal:
                if self._sessions is sessions and not isinstance(refusal, NotController):
                    log.warning("the controller could not carry on: %s", refusal)
                await asyncio.sleep(RETRY_S)

    def _next_due_ms(self, sessions: Sessions) -> int | None:
        self._note_own(sessions)
        return sessions.next_overdue_ms()

    async def _wait(self, due_ms: int | None) -> None:
        """Until a session ends, or there is another that ends next."""
        timeout_s = None if due_ms is None else max(due_ms - _now_ms(), 0) / 1000
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _fence_overdue(self, sessions: Sessions) -> None:
        for node_id in sessions.overdue(now_ms=_now_ms()):
            self._check_leads(sessions)
            if await self._fence(sessions, node_id):
                log.warning("broker %d is fenced: no heartbeat came for %d ms", node_id, self._timeout_ms)

    async def fence_gone(self, node_id: int, *, epoch: int) -> None:
        """Fence a broker whose process has ended. One that has registered again since stays."""
        sessions = self._leading()
        node = self._metadata.image.nodes.get(node_id)
        if node is not None and node.epoch == epoch:
            sessions.end(node_id)
            await self._fence(sessions, node_id)

    async def _fence(self, sessions: Sessions, node_id: int) -> bool:
        """Fence a broker, unless a heartbeat comes while this waits for its turn."""

        def decide(image: Image) -> MetadataDecision[bool]:
            if sessions.has(node_id, now_ms=_now_ms()):
                return MetadataDecision([], False)
            records = fence(image, node_id, rules=self.partitions.rules).records
            return MetadataDecision(records, bool(records))

        self._fencing[node_id] += 1
        try:
            is_fenced = await self._metadata.commit(decide)
        except BrokerIdNotRegistered:
            is_fenced = False
        finally:
            self._fencing[node_id] -= 1
        if not sessions.has(node_id, now_ms=_now_ms()):
            sessions.end(node_id)
        return is_fenced


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


def _tell_lost(node_id: int, lost: list[str]) -> None:
    if lost:
        log.error(
            "broker %d has come back with another data directory, or with an older copy of it, and nobody else has all "
            "records of %d partitions: %s%s. They are offline. Delete their topics; or have an unclean leader elected "
            "for them, once the old disk is back, or to go on without their records",
            node_id,
            len(lost),
            ", ".join(lost[:MAX_NAMED]),
            ", ..." if len(lost) > MAX_NAMED else "",
        )
