"""A cluster without a network: one log, which several nodes apply, each as far as it is let; one of them leads."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from barnabas.core.errors import NotController, RequestTimedOut
from barnabas.core.metadata import Image, NewTopic, create_topic
from barnabas.core.metadata.brokers import Heartbeat, HeartbeatReply, Registration
from barnabas.core.metadata.isr import IsrChange
from barnabas.core.metadata.levels import LATEST_LEVEL, METADATA_VERSION
from barnabas.core.metadata.quorum import Quorum
from barnabas.core.metadata.records import Endpoint, MetadataRecord
from barnabas.core.raft.voters import VoterSet
from barnabas.runtime.cluster_metadata import Decide, LeadershipListener, Subscriber
from barnabas.runtime.metrics import Metrics
from barnabas.services.controller import Controller, Formation
from barnabas.services.membership import Membership, MembershipConfig
from barnabas.testing.loop import SimulatedLoop

T = TypeVar("T")

CLUSTER = "the-cluster"
SESSION_MS = 9000


class SharedLog:
    """The log of the cluster. What is written is committed while the gate is open."""

    def __init__(self) -> None:
        self.records: list[MetadataRecord | None] = []  # None is Raft's own
        self.views: list[NodeMetadata] = []
        self.leader: NodeMetadata | None = None
        self.epoch = 0
        self.unconfirmed_ms: int | None = 0
        self.former_leader: tuple[int, int] | None = None
        self.is_raft_next = False
        """Whether Raft writes something itself between the next decision and its records."""
        self.gate = asyncio.Event()
        self.gate.set()
        self.turn = asyncio.Event()
        """While it is cleared, decisions wait for their turn."""
        self.turn.set()

    def elect(self, leader: "NodeMetadata | None") -> None:
        """Let another node lead, or none; what the former leader has not committed is gone."""
        before, self.leader = self.leader, leader
        self.epoch += 1
        if before is not None:
            del self.records[before.applied_offset :]
            before.tell_leadership(None)
        if leader is not None:
            self.records.append(None)
            leader.is_held = False
            self.apply(len(self.records))
            leader.tell_leadership(self.epoch)

    def apply(self, end_offset: int) -> None:
        for view in self.views:
            if not view.is_held:
                view.apply(end_offset)


class NodeMetadata:
    """`ClusterMetadata` of one node."""

    def __init__(self, log: SharedLog, node_id: int) -> None:
        self.log = log
        self.node_id = node_id
        self.image = Image()
        self.applied_offset = 0
        self.is_held = False
        """Whether it applies nothing for now."""
        self._subscribers: list[Subscriber] = []
        self._listeners: list[LeadershipListener] = []
        log.views.append(self)

    @property
    def end_offset(self) -> int:
        return len(self.log.records)

    @property
    def is_active(self) -> bool:
        return self.log.leader is self

    @property
    def unconfirmed_ms(self) -> int | None:
        return self.log.unconfirmed_ms if self.is_active else None

    @property
    def former_leader(self) -> tuple[int, int] | None:
        return self.log.former_leader if self.is_active else None

    @property
    def quorum(self) -> Quorum:
        leader = self.log.leader
        return Quorum(-1 if leader is None else leader.node_id, self.log.epoch, self.applied_offset, ())

    @property
    def voters(self) -> VoterSet:
        raise AssertionError("nobody asks for it")

    async def wait_applied(self, end_offset: int) -> None:
        raise AssertionError("nobody asks for it")

    def report(self, metrics: Metrics) -> None:
        raise AssertionError("nobody asks for it")

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def follow_leadership(self, listener: LeadershipListener) -> None:
        self._listeners.append(listener)

    def tell_leadership(self, epoch: int | None) -> None:
        for listener in self._listeners:
            listener(epoch)

    def apply(self, end_offset: int) -> None:
        records = [each for each in self.log.records[self.applied_offset : end_offset] if each is not None]
        for record in records:
            self.image.apply(record)
        self.applied_offset = max(self.applied_offset, end_offset)
        for subscriber in self._subscribers:
            subscriber(records)

    def release(self) -> None:
        """Apply what there is, and go on."""
        self.is_held = False
        assert self.log.leader is not None
        self.apply(self.log.leader.applied_offset)

    async def commit(self, decide: Decide[T]) -> T:
        await self.log.turn.wait()
        log, epoch = self.log, self.log.epoch
        if not self.is_active:
            raise NotController("another node leads")
        draft = Image()
        for record in log.records:
            if record is not None:
                draft.apply(record)
        decision = decide(draft)
        if log.is_raft_next and decision.records:
            log.records.append(None)
            log.is_raft_next = False
        log.records += decision.records
        end_offset = len(log.records)
        await log.gate.wait()
        if log.epoch != epoch:
            raise RequestTimedOut("the leadership went before this was committed")
        log.apply(end_offset)
        return decision.reply


class Far:
    """`ControllerCalls` of a broker whose controller is elsewhere."""

    def __init__(self, world: "ClusterWorld") -> None:
        self._world = world
        self.calls: list[str] = []

    def _there(self, name: str) -> Controller:
        self.calls.append(name)
        if self._world.log.leader is None:
            raise NotController("the quorum has no leader")
        return self._world.controllers[self._world.log.leader.node_id]

    async def register(self, registration: Registration) -> int:
        return await self._there("register").register(registration)

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatReply:
        return await self._there("heartbeat").heartbeat(beat)

    async def allocate_producer_ids(self, node_id: int, epoch: int) -> range:
        return await self._there("allocate").allocate_producer_ids(node_id, epoch)

    async def alter_partitions(
        self, node_id: int, *, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> Sequence[object]:
        return await self._there("alter").alter_partitions(node_id, broker_epoch=broker_epoch, changes=changes)


class ClusterWorld:
    """Nodes 1 to `nodes`, each with a controller; the first one leads. Brokers are added."""

    def __init__(self, nodes: int = 2) -> None:
        self.log = SharedLog()
        self.metadata = {node_id: NodeMetadata(self.log, node_id) for node_id in range(1, nodes + 1)}
        self.controllers = {
            node_id: Controller(
                metadata, node_id=node_id, session_timeout_ms=SESSION_MS, formation=Formation(cluster_id=CLUSTER)
            )
            for node_id, metadata in self.metadata.items()
        }
        self.tasks: list[asyncio.Task[Any]] = [self.begin(each.run()) for each in self.controllers.values()]
        self.log.elect(self.metadata[1])

    @property
    def controller(self) -> Controller:
        return self.controllers[1]

    @property
    def image(self) -> Image:
        return self.metadata[1].image

    def begin(self, work: Any) -> "asyncio.Task[Any]":
        return asyncio.get_running_loop().create_task(work)

    def broker(self, node_id: int, *, incarnation: int = 1, directory: int | None = None) -> tuple[Membership, Far]:
        """A broker on a node; of a node that there is none of, one that has no controller."""
        if node_id not in self.metadata:
            self.metadata[node_id] = NodeMetadata(self.log, node_id)
            if self.log.leader is not None:
                self.metadata[node_id].release()
        far = Far(self)
        config = MembershipConfig(
            node_id=node_id,
            incarnation=UUID(int=incarnation),
            directory_id=UUID(int=directory or node_id),
            session_timeout_ms=SESSION_MS,
        )
        return Membership(self.metadata[node_id], config, controller=self.controllers.get(node_id), remote=far), far

    async def join(self, node_id: int, **identity: int) -> Membership:
        """A broker that is registered, let in, and sends heartbeats."""
        membership, _ = self.broker(node_id, **identity)
        await membership.start(endpoints_of(node_id))
        self.tasks.append(self.begin(membership.run()))
        await membership.wait_unfenced()
        return membership

    async def let_in(self, node_id: int) -> int:
        """Have a broker without heartbeats registered and let in; returns its epoch."""
        epoch = await self.controller.register(registration(node_id))
        await self.controller.heartbeat(beat(node_id, epoch, offset=self.metadata[1].applied_offset))
        return epoch

    async def create(self, name: str, *replicas: int) -> None:
        new = NewTopic(name, assignments={0: replicas})
        await self.metadata[1].commit(lambda image: create_topic(image, new, topic_id=UUID(int=len(image.topics) + 1)))

    def close(self) -> None:
        for task in self.tasks:
            task.cancel()


FEATURES = (
    ("eligible.leader.replicas.version", 0, 1),
    ("group.version", 0, 1),
    (METADATA_VERSION, 7, LATEST_LEVEL),
    ("share.version", 0, 2),
    ("transaction.version", 0, 2),
)


def endpoints_of(node_id: int) -> Sequence[Endpoint]:
    return (Endpoint("PLAINTEXT", f"host{node_id}", 9092),)


def registration(node_id: int, *, incarnation: int = 1, directory: int | None = None, **fields: Any) -> Registration:
    given: dict[str, Any] = {"features": FEATURES, **fields}
    return Registration(
        node_id=node_id,
        incarnation=UUID(int=incarnation),
        directory_id=UUID(int=directory or node_id),
        endpoints=tuple(endpoints_of(node_id)),
        **given,
    )


def beat(node_id: int, epoch: int, *, offset: int = 0, **wants: bool) -> Heartbeat:
    return Heartbeat(node_id=node_id, epoch=epoch, metadata_offset=offset, **wants)


def run(scenario: Callable[[ClusterWorld], Awaitable[None]], *, nodes: int = 2) -> None:
    """Run a scenario in virtual time."""

    async def main() -> None:
        world = ClusterWorld(nodes)
        try:
            await scenario(world)
        finally:
            world.close()

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        runner.run(main())
