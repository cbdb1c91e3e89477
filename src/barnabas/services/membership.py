"""The broker's side of membership: its registration with the active controller, its heartbeats, its shutdown.

The controller is whoever leads the quorum now. While that is this node, it is called directly; otherwise over the
network. Nothing here gives up because there is no controller for a while: a broker that is registered serves on. What
another try cannot change is raised: another broker runs under this id, or the cluster is another one.

What the controller says of this broker is read in the metadata, not in its answers: a broker is fenced until the image
here has it as registered with its epoch, and not fenced. So whoever waits for that also has everything before it.
"""

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from barnabas.core.errors import (
    BarnabasError,
    BrokerIdNotRegistered,
    ClusterAuthorizationFailed,
    ControllerBusy,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRequest,
    NotController,
    PeerError,
    RequestTimedOut,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from barnabas.core.metadata.brokers import NO_GENERATION, NO_LEASE_SAID, Heartbeat, HeartbeatReply, Registration
from barnabas.core.metadata.isr import IsrChange
from barnabas.core.metadata.records import Endpoint, MetadataRecord, NodeRecord
from barnabas.runtime.broker_lease import BrokerLease
from barnabas.runtime.cluster_metadata import ClusterMetadata
from barnabas.runtime.log_lines import get_logger
from barnabas.services.controller import Controller, ControllerCalls
from barnabas.services.features import SUPPORTED_FEATURES
from barnabas.storage.generation import Generation

log = get_logger("barnabas.membership")

RETRY_S: Final = 0.1
LEAVING_BEAT_S: Final = 0.1
"""How often a broker that leaves asks whether it may go."""
LEAVING_PATIENCE_S: Final = 3.0
"""How long a broker that leaves waits for a controller to answer: if all nodes stop, the last find none."""
PATIENCE_S: Final = 8.0
"""How long a broker that starts waits for a controller before it says so; nodes that start together take moments."""
TOLD_AGAIN_S: Final = 30.0
NOT_REGISTERED: Final = -1

PASSING: Final = (NotController, PeerError, ControllerBusy, RequestTimedOut)
"""Refusals that another try may not meet."""
FINAL: Final = (InconsistentClusterId, UnsupportedVersion, InvalidRequest, ClusterAuthorizationFailed)
"""Refusals of a registration that every other try would meet too."""
REPLACED: Final = (StaleBrokerEpoch, BrokerIdNotRegistered)
"""The controller does not know this registration, or no more."""


class MembershipConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Who a broker is, and how often it is heard of."""

    node_id: int
    incarnation: UUID
    directory_id: UUID | None
    rack: str | None = None
    heartbeat_interval_ms: int = 2000
    session_timeout_ms: int = 9000


class Membership:
    """A broker's place in the cluster. `start`, then `run` as its task; `shut_down` while `run` still runs."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        config: MembershipConfig,
        *,
        controller: Controller | None,
        remote: ControllerCalls | None,
        lease: BrokerLease | None = None,
    ) -> None:
        """`controller`: that of this node, if it may become active. `remote`: the way to any other; None: alone.
        `lease`: what heartbeats renew; None where nobody needs one.
        """
        assert controller is not None or remote is not None
        self._metadata = metadata
        self._config = config
        self._controller = controller
        self._remote = remote
        self._lease = lease
        self._registration: Registration | None = None
        self._wakeup = asyncio.Event()
        self._unfenced = asyncio.Event()
        self._may_go = asyncio.Event()
        self._is_leaving = self._is_unheard = False
        self._answered_at = 0.0  # when a controller last took a heartbeat, or the broker began to leave
        self.wants_fence = False
        """Whether it asks to stay fenced, since it cannot serve yet. Set `False` by `ready`."""
        self.epoch = NOT_REGISTERED
        """The epoch of its registration."""
        metadata.subscribe(self._apply)

    @property
    def is_applied(self) -> bool:
        """Whether the image of this node has its registration, and so all that was decided before."""
        own = self._metadata.image.nodes.get(self._config.node_id)
        return own is not None and own.epoch == self.epoch

    @property
    def is_fenced(self) -> bool:
        """Whether clients are kept away from it, as far as this node knows."""
        own = self._metadata.image.nodes.get(self._config.node_id)
        return own is None or own.epoch != self.epoch or own.is_fenced

    async def wait_unfenced(self) -> None:
        """Return when it is registered and let in. Use your own deadline."""
        while self.is_fenced:
            self._unfenced.clear()
            await self._unfenced.wait()

    def ready(self) -> None:
        """It can serve now: ask to be let in."""
        self.wants_fence = False
        self._wakeup.set()

    def _apply(self, records: Sequence[MetadataRecord]) -> None:
        """Hear of changes that the controller waits for: of this broker, and of any other that leaves."""
        for record in records:
            if isinstance(record, NodeRecord) and (record.node_id == self._config.node_id or record.is_leaving):
                self._wakeup.set()
                if not self.is_fenced:
                    self._unfenced.set()

    # Registering

    async def start(
        self,
        endpoints: Sequence[Endpoint],
        *,
        cluster_id: str | None = None,
        previous_epoch: int | None = None,
        generation: Generation | None = None,
    ) -> None:
        """Register, however long that takes without a controller; raises what no other try would change.

        `previous_epoch`: the epoch that it had when it stopped cleanly; None after any other stop. `generation`: of its
        data directory, by which an older copy is told.
        """
        config = self._config
        self._registration = Registration(
            node_id=config.node_id,
            incarnation=config.incarnation,
            directory_id=config.directory_id,
            endpoints=tuple(endpoints),
            cluster_id=cluster_id,
            previous_epoch=previous_epoch,
            rack=config.rack,
            generation=NO_GENERATION if generation is None else generation.current,
            previous_generation=None if generation is None else generation.previous,
            features=tuple((name, lowest, highest) for name, (lowest, highest) in sorted(SUPPORTED_FEATURES.items())),
        )
        await self._register(self._registration)

    async def _register(self, registration: Registration) -> None:
        loop = asyncio.get_running_loop()
        # Whoever had this id and is gone has lost its session by then; who still has one is running. A new controller
        # begins all sessions anew.
        patience_s = 1.5 * self._config.session_timeout_ms / 1000
        given_up_at, asked = loop.time() + patience_s, self._metadata.quorum.leader_epoch
        told_at = loop.time() + PATIENCE_S
        while True:
            try:
                self.epoch = await self._register_once(registration)
                break
            except PASSING as refusal:
                if loop.time() < told_at:
                    log.info("not registered with a controller yet: %s", refusal)
                else:
                    told_at = loop.time() + TOLD_AGAIN_S
                    log.warning(
                        "waiting for a controller, without which this node cannot serve: %s. Check that controllers "
                        "run and that controller.quorum.bootstrap.servers names their listeners for controllers",
                        refusal,
                    )
            except DuplicateBrokerRegistration as refusal:
                if asked != self._metadata.quorum.leader_epoch:
                    given_up_at, asked = loop.time() + patience_s, self._metadata.quorum.leader_epoch
                if loop.time() >= given_up_at:
                    raise
                log.warning("not registered yet: %s", refusal)
            except BarnabasError as refusal:
                if self._remote is None or isinstance(refusal, FINAL):
                    raise
                log.warning("not registered yet: %s", refusal)
            await asyncio.sleep(RETRY_S)
        if not self.is_fenced:
            self._unfenced.set()
        self._wakeup.set()

    async def _register_once(self, registration: Registration) -> int:
        if self._is_here:
            assert self._controller is not None
            return await self._controller.register(registration, is_local=True)
        assert self._remote is not None
        return await self._remote.register(registration)

    @property
    def _is_here(self) -> bool:
        """Whether the active controller is in this process; the only one there is always is."""
        return self._controller is not None and (self._remote is None or self._controller.is_active)

    def _calls(self) -> ControllerCalls:
        calls = self._controller if self._is_here else self._remote
        assert calls is not None
        return calls

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids of the cluster; one that is never used does no harm."""
        try:
            return await self._calls().allocate_producer_ids(self._config.node_id, self.epoch)
        except REPLACED:
            self._wakeup.set()  # the next heartbeat registers it again
            raise

    async def alter_partitions(self, changes: Sequence[IsrChange]) -> list[BarnabasError | None]:
        """Ask for other ISRs of partitions that this broker leads, again if need be; why each is refused, if it is."""
        try:
            outcomes = await self._calls().alter_partitions(
                self._config.node_id, broker_epoch=self.epoch, changes=changes
            )
        except REPLACED:
            self._wakeup.set()
            raise
        return [each if isinstance(each, BarnabasError) else None for each in outcomes]

    # Heartbeats

    async def run(self) -> None:
        """Send heartbeats, and register again when the controller does not know this broker any more."""
        assert self._registration is not None, "not started"
        while not self._may_go.is_set():
            try:
                reply = await self._beat()
            except REPLACED as refusal:
                if self._is_leaving:
                    break
                log.warning("registering again: %s", refusal)
                await self._register(self._registration)
            except PASSING as refusal:
                log.info("no heartbeat was taken: %s", refusal)
                if self._is_leaving and asyncio.get_running_loop().time() > self._answered_at + LEAVING_PATIENCE_S:
                    log.warning("stopping though no controller answers, to have leaderships moved")
                    self._is_unheard = True
                    break
                await (self._pause() if self._remote is None else asyncio.sleep(RETRY_S))
            except BarnabasError as refusal:
                log.warning("a heartbeat was refused: %s", refusal)
                await self._pause()
            else:
                self._answered_at = asyncio.get_running_loop().time()
                if reply.should_shut_down and self._is_leaving:
                    break
                await self._pause()
        self._may_go.set()

    async def _beat(self) -> HeartbeatReply:
        self._wakeup.clear()
        beat = Heartbeat(
            node_id=self._config.node_id,
            epoch=self.epoch,
            metadata_offset=self._metadata.applied_offset - 1,
            wants_fence=self.wants_fence or not self.is_applied,  # its registration may be behind what Raft wrote
            wants_shutdown=self._is_leaving,
        )
        if self._lease is None:
            return await self._calls().heartbeat(beat)
        if beat.wants_fence or beat.wants_shutdown:
            self._lease.end()  # whoever leads next need not wait for this broker
            return await self._calls().heartbeat(beat)
        sent_ms = self._lease.now_ms()
        reply = await self._calls().heartbeat(beat)
        lease_ms = self._config.session_timeout_ms if reply.lease_ms == NO_LEASE_SAID else reply.lease_ms
        if not self._is_leaving:
            self._lease.note_answer(sent_ms=sent_ms, lease_ms=lease_ms, decided_offset=reply.decided_offset)
        return reply

    async def _pause(self) -> None:
        """Until the next heartbeat is due, or there is news for the controller."""
        interval_s = LEAVING_BEAT_S if self._is_leaving else self._config.heartbeat_interval_ms / 1000
        try:
            async with asyncio.timeout(interval_s):
                await self._wakeup.wait()
        except TimeoutError:
            pass

    # Leaving

    async def shut_down(self, *, timeout_s: float) -> bool:
        """Have the leaderships of this broker moved; returns whether all brokers know that, in time.

        Alone there is nobody to move them to: it goes with all it has, and leads the same when it is back.
        """
        nodes = self._metadata.image.nodes.values()
        if not any(node.is_active for node in nodes if node.node_id != self._config.node_id):
            return True
        self._is_leaving = True
        self._answered_at = asyncio.get_running_loop().time()
        self._wakeup.set()
        try:
            async with asyncio.timeout(timeout_s):
                await self._may_go.wait()
        except TimeoutError:
            log.warning("stopping though the controller has not moved all leaderships within %g s", timeout_s)
        return self._may_go.is_set() and not self._is_unheard
