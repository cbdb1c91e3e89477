"""One node: builds everything, in order, and owns every task of it.

Start: data directory, metadata, address, registration, logs, then clients are let in. Stop: the other way round. What
the start changes in the metadata of the cluster it awaits, as any change; nothing is written before the address is had.
A node is given its disk, clock, dice and threads, so that the very same node runs in simulation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from barnabas.core.errors import AddressNotAvailable, InvalidConfig
from barnabas.core.metadata.formation import MetaProperties
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.records import Endpoint
from barnabas.core.model import TopicPartition
from barnabas.core.raft import voters as raft
from barnabas.edge.kafka.server import KafkaServer
from barnabas.node.building import build_broker
from barnabas.node.edges import Edges
from barnabas.node.http import NodeHttp
from barnabas.node.limits import connection_limits, hold_s, maintenance_config
from barnabas.node.listening import advertised_elsewhere, bind, check_advertised, check_resolvable, endpoint_of
from barnabas.node.ports import Ports
from barnabas.node.quorum import raft_config
from barnabas.node.security import NodeSecurity
from barnabas.runtime.connections import Connections
from barnabas.runtime.descriptors import MOST_FILES, share
from barnabas.runtime.disk_watch import DiskWatch
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.log_lines import get_logger, left_out
from barnabas.runtime.logs import Logs
from barnabas.runtime.maintenance import Maintenance
from barnabas.runtime.metadata_log import MetadataLog, MetadataLogConfig
from barnabas.runtime.metrics import Reporter
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.formation import configured_voters, open_data_dir, place_of
from barnabas.services.leftovers import hold_logs, settle_leftovers
from barnabas.services.membership import NOT_REGISTERED
from barnabas.services.opened import tell_damage, tell_recovery
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.listener import Listener
from barnabas.storage.clean_shutdown import NO_BROKER_EPOCH
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.generation import begin_generation

if TYPE_CHECKING:
    from barnabas.node.neighbours import Neighbours

log = get_logger("barnabas.node", is_limited=False)

CLOSE_GRACE_S: Final = 2.0
LEAVE_TIMEOUT_S: Final = 10.0
OFFLINE_LEAVE_TIMEOUT_S: Final = 2.0
"""The same for a node that can write nothing more. It may not learn that it may go, but others lead by then."""
OPENED_PER_TURN: Final = 20


class Node:
    """A broker that `run` runs until `stop`."""

    def __init__(self, config: BrokerConfig, ports: Ports) -> None:
        check_data_dirs(config)
        check_advertised(config)
        self._ports = ports
        self._shares = None if ports.max_descriptors is None else share(ports.max_descriptors)
        self.config = self._within_shares(config)
        self._security = NodeSecurity(self.config, ports)
        self.broker: Broker | None = None
        self.edges = Edges(config)
        self.addresses: dict[str, tuple[str, int]] = {}  # by the name of the listener, in the order of the settings
        self._stop = asyncio.Event()
        self.http = NodeHttp(self.config)

    @property
    def address(self) -> tuple[str, int]:
        """Where the first listener listens."""
        return next(iter(self.addresses.values()))

    def stop(self) -> None:
        """Have `run` end, cleanly."""
        self._stop.set()

    async def run(self, on_ready: Callable[[Node], None]) -> None:
        """Serve until `stop`; calls back once clients can connect."""
        await check_resolvable(self.config)  # before anything is made
        max_open_files = MOST_FILES if self._shares is None else self._shares.files
        data_dir, meta = open_data_dir(self._ports.disk, self.config, self._ports.dice, max_open_files=max_open_files)
        watch = self._watch(data_dir)  # from now on what happens to the disk is in the log
        logs = Logs(data_dir)
        logs.flusher = Flusher(self._ports.threads.syncs, listener=logs)
        async with asyncio.TaskGroup() as tasks:
            metadata = self._open_metadata(data_dir, meta)
            watch.before_room = metadata.write_assumed
            neighbours = self._neighbours(metadata, tasks)
            if neighbours is not None:
                watch.on_offline = self._stop_from_any_thread()
            broker = self._build(metadata, logs, neighbours)
            server = KafkaServer(broker)
            connections = Connections(
                server, connection_limits(broker.live.current), tasks, hold_s=partial(hold_s, broker)
            )
            endpoints = await self._take_addresses(connections, data_dir)
            flushing = tasks.create_task(logs.flusher.run())
            work: list[asyncio.Task[None]] = []
            maintenance, maintaining = self._maintenance(broker), None
            try:
                work += [
                    *self._security.begin(tasks),
                    *await self._take_part(broker, metadata, neighbours, connections),
                ]
                broker.served.start(tasks)
                work += self._begin_to_control(broker, tasks)
                if await self._unless_stopped(self._join(broker, endpoints, data_dir)):
                    self._follow_settings(broker, connections, maintenance)
                    _report(broker, server, connections, maintenance)
                    await watch.look_now()  # before the first write, not a second after it
                    work += [tasks.create_task(watch.run()), *self._begin_work(broker, tasks)]
                    maintaining = tasks.create_task(maintenance.run())
                    work += await self._let_clients_in(broker, server, connections)
                    self.broker = broker
                    await self.http.serve(broker, server, connections, tasks)
                    on_ready(self)
                    await self._stop.wait()
                    await self._leave(broker)
            finally:
                await self._close_doors(broker, connections)
            _end_work(broker, work)
            maintenance.stop()
            if maintaining is not None:
                await maintaining
            await broker.served.close()
            await metadata.close()
            flushing.cancel()
            if neighbours is not None:
                neighbours.close()
        data_dir.close()

    # Starting

    async def _take_part(
        self, broker: Broker, metadata: MetadataLog, neighbours: Neighbours | None, connections: Connections
    ) -> list[asyncio.Task[None]]:
        """Take part in the quorum: from now on other nodes can ask this one."""
        if neighbours is None:
            await metadata.start(tasks=connections.tasks)
            return []
        endpoints = [
            raft.VoterEndpoint(
                *msgspec.structs.astuple(endpoint_of(self.config, listener, self.addresses[listener.name]))
            )
            for listener in self.config.controller_listeners
        ]
        neighbours.listen_at(endpoints)
        quorum = self.config.quorum
        joins = quorum.is_controller and quorum.controller_quorum_auto_join_enable
        await metadata.start(connections.tasks, neighbours.voters, endpoints=endpoints, joins=joins)
        await connections.serve([listener.name for listener in self.config.controller_listeners])
        return self._check_addresses(broker, connections, self.config.controller_listeners)

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do something that may wait for other nodes; False if the node was told to stop before it was done."""
        doing = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
            return doing.done()
        finally:
            stopping.cancel()
            if not doing.done():
                doing.cancel()
                await asyncio.wait([doing])

    async def _join(self, broker: Broker, endpoints: Sequence[Endpoint], data_dir: DataDir) -> None:
        """Register this broker, and open its logs once it knows what the cluster knew of them then."""
        if not self.config.quorum.is_broker:
            return
        assert broker.membership is not None
        assert broker.quorum is not None
        broker.membership.wants_fence = True
        await broker.membership.start(
            endpoints,
            cluster_id=broker.quorum.cluster_id,
            previous_epoch=None if data_dir.broker_epoch == NO_BROKER_EPOCH else data_dir.broker_epoch,
            generation=begin_generation(data_dir, now_ms=self._ports.clock.now_ms()),
        )
        while not broker.membership.is_applied:
            epoch, applied_offset = broker.membership.epoch, broker.metadata.applied_offset
            await broker.metadata.wait_applied(max(epoch, applied_offset) + 1)
        await self._open_logs(broker, data_dir)
        if broker.replicas is not None:
            broker.served.follow_with(broker.replicas.fetchers)

    def _begin_to_control(self, broker: Broker, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Begin what this node does whenever it is the active controller."""
        assert broker.controller is not None
        work = [tasks.create_task(broker.controller.run())]
        if broker.replicas is not None:
            work.append(tasks.create_task(broker.replicas.watching.run()))
        return work

    def _begin_work(self, broker: Broker, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Begin all that a broker does beside the requests of clients."""
        if not self.config.quorum.is_broker:
            return []
        broker.groups.start(tasks)
        broker.transactions.start(tasks)
        broker.shares.start(tasks)
        return [
            *self._begin_to_replicate(broker, tasks),
            tasks.create_task(broker.produce.record_checks.run()),
            tasks.create_task(broker.groups.run_expiry()),
            tasks.create_task(broker.transactions.run_expiry()),
            tasks.create_task(broker.shares.states.run_pruning()),
        ]

    def _begin_to_replicate(self, broker: Broker, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Begin to fetch what other nodes lead, and to say who is in sync with what this one leads."""
        replicas = broker.replicas
        if replicas is None:
            return []
        replicas.fetchers.start(tasks)
        interval_s = self.config.replicas.replica_high_watermark_checkpoint_interval_ms / 1000
        return [
            tasks.create_task(replicas.in_sync.run()),
            tasks.create_task(replicas.cut_off.run()),
            tasks.create_task(replicas.in_sync.run_checkpoints(interval_s=interval_s)),
            tasks.create_task(replicas.repairing.run()),
        ]

    async def _let_clients_in(
        self, broker: Broker, server: KafkaServer, connections: Connections
    ) -> list[asyncio.Task[None]]:
        """Serve clients, and have the controller send them here: from now on by heartbeats."""
        await connections.serve()
        if not self.config.quorum.is_broker:
            return []
        checking = self._check_addresses(broker, connections, self.config.client_listeners)
        assert broker.membership is not None
        broker.membership.ready()
        beating = connections.tasks.create_task(broker.membership.run())
        await self._unless_stopped(broker.membership.wait_unfenced())
        # Last: they are large, and Kafka's port need not wait for them.
        await self.edges.open(broker, server, connections.tasks)
        return [beating, *checking]

    def _check_addresses(
        self, broker: Broker, connections: Connections, listeners: Sequence[Listener]
    ) -> list[asyncio.Task[None]]:
        """Begin to see whether the addresses that listeners advertise lead here, where they may not."""
        addresses = advertised_elsewhere(self.config, listeners, self.addresses)
        if not addresses:
            return []
        from barnabas.node.neighbours import LIMITS  # noqa: PLC0415 - few listeners are to be checked
        from barnabas.runtime.peers import Peers  # noqa: PLC0415

        dice, tasks, client_id = self._ports.dice, connections.tasks, f"barnabas-node-{self.config.node_id}"
        checks = []
        for address in addresses:
            # Nobody needs to log in to ask who is there: but only once, and the greeting has asked.
            try:
                way = self._security.peers_of(address.listener, is_for_controllers=address.is_for_controllers)
            except InvalidConfig:
                continue  # nodes do not log in there
            peers = Peers(tasks, asyncio.get_running_loop(), dice, LIMITS, client_id=client_id, **way._asdict())
            checks.append(tasks.create_task(broker.own_addresses.check([address], peers, word=dice.uuid().hex)))
        return checks

    # Stopping

    def _stop_from_any_thread(self) -> Callable[[], None]:
        """What has a node with neighbours stop when its directory goes offline: they can do what it no longer can.

        One that is alone stays: what is on disk can be read at least.
        """
        loop = asyncio.get_running_loop()

        def stop() -> None:
            loop.call_soon_threadsafe(self.stop)

        return stop

    async def _close_doors(self, broker: Broker, connections: Connections) -> None:
        """Let nobody in any more."""
        await self.edges.close()  # while groups can still be left
        _close_coordinators(broker)  # first: members whose joins wait are told, and hold up nothing
        await self.http.close()
        await connections.close(grace_s=CLOSE_GRACE_S)

    async def _leave(self, broker: Broker) -> None:
        """Have others lead what this broker leads, while it still serves."""
        self.http.stop()
        if not self.config.quorum.is_broker:
            return
        assert broker.membership is not None
        if broker.logs.data_dir.health.offline_reason is None:
            await broker.membership.shut_down(timeout_s=LEAVE_TIMEOUT_S)
            return
        log.error("leaving the cluster, since nothing can be written here: other nodes lead from now on")
        if not broker.metadata.is_active:  # else it could not write that others lead: they elect another controller
            await broker.membership.shut_down(timeout_s=OFFLINE_LEAVE_TIMEOUT_S)

    # Parts

    def _within_shares(self, config: BrokerConfig) -> BrokerConfig:
        """The settings with no more connections than there are descriptors for."""
        if self._shares is None or config.max_connections <= self._shares.connections:
            return config
        log.warning(
            "max.connections is lowered from %d to %d: this process may open %d files; allow it more (ulimit -n)",
            config.max_connections,
            self._shares.connections,
            self._ports.max_descriptors,
        )
        return msgspec.structs.replace(config, max_connections=self._shares.connections)

    def _watch(self, data_dir: DataDir) -> DiskWatch:
        return DiskWatch(
            self._ports.disk,
            data_dir.health,
            self._ports.threads.background,
            self._ports.clock,
            present=f"{data_dir.path}/{METADATA_PARTITION}",
            reserve_bytes=self.config.log_dir_reserve_bytes,
        )

    def _open_metadata(self, data_dir: DataDir, meta: MetaProperties) -> MetadataLog:
        ports, config, place = self._ports, self.config, place_of(self.config)
        forms_quorum = place.is_alone and not place.voters
        metadata = MetadataLog.open(
            data_dir,
            offload=ports.threads.syncs,
            clock=ports.clock,
            dice=ports.dice,
            replica=raft.ReplicaKey(meta.node_id, meta.directory_id),
            cluster_id=meta.cluster_id,
            static_voters=None if forms_quorum else configured_voters(config, meta),
            raft=raft_config(config),
            config=MetadataLogConfig(
                max_record_bytes_between_snapshots=config.metadata_log_max_record_bytes_between_snapshots
            ),
        )
        for note in metadata.notes:
            log.warning("%s", note)
        return metadata

    def _neighbours(self, metadata: MetadataLog, tasks: asyncio.TaskGroup) -> Neighbours | None:
        """The way to other nodes; None for a node that is alone, and that no other can reach."""
        if place_of(self.config).is_alone and not self.config.controller_listeners:
            return None
        from barnabas.node.neighbours import Neighbours  # noqa: PLC0415 - a node that is alone has none

        return Neighbours(self.config, metadata, self._security, dice=self._ports.dice, tasks=tasks)

    def _build(self, metadata: MetadataLog, logs: Logs, neighbours: Neighbours | None = None) -> Broker:
        broker = build_broker(self.config, self._ports, metadata, logs, neighbours)
        broker.authentication = self._security.authentication(metadata)
        return broker

    def _maintenance(self, broker: Broker) -> Maintenance:
        ports, config = self._ports, maintenance_config(broker.live.current)
        maintenance = Maintenance(broker.logs, ports.threads.background, ports.clock, ports.dice, config)
        if broker.replicas is not None:
            broker.replicas.repairing.listener = maintenance
        return maintenance

    def _follow_settings(self, broker: Broker, connections: Connections, maintenance: Maintenance) -> None:
        """Have the parts of the node that act on settings follow those that are altered while it runs."""

        def follow(config: BrokerConfig) -> None:
            connections.limits = connection_limits(self._within_shares(config))
            maintenance.configure(maintenance_config(config))
            self._ports.threads.resize(reads=config.num_io_threads)
            broker.logs.replicas.sending.change(config.replicas.leader_replication_throttled_rate)
            broker.logs.replicas.fetching.change(config.replicas.follower_replication_throttled_rate)

        broker.live.subscribe(follow)

    async def _take_addresses(self, connections: Connections, data_dir: DataDir) -> list[Endpoint]:
        """Bind all listeners, or none; returns where clients of each one for them are told to connect."""
        try:
            self.addresses.update(await bind(connections, self.config.listeners, self._security.tls))
            await self.http.begin()
        except AddressNotAvailable:
            await connections.close(grace_s=0)  # gives back those that were free
            data_dir.give_back()
            raise
        listeners = [each for each in self.config.listeners if not self.config.is_for_controllers(each.name)]
        return [endpoint_of(self.config, each, self.addresses[each.name]) for each in listeners]

    async def _open_logs(self, broker: Broker, data_dir: DataDir) -> None:
        """Open the logs that are on disk; remove those of topics that were deleted when the node went down."""
        opening = data_dir.open_logs(lambda name: _log_config(broker, name))
        # One by one: meanwhile this node may be asked for its vote.
        tell_recovery(data_dir, [report async for report in in_turns(opening, per_turn=OPENED_PER_TURN)])
        tell_damage(broker.served, data_dir)
        hold_logs(broker.served, data_dir)
        settle_leftovers(broker.served, data_dir)


def _close_coordinators(broker: Broker) -> None:
    broker.groups.close()
    broker.transactions.close()
    broker.shares.close()


def _end_work(broker: Broker, work: Sequence[asyncio.Task[None]]) -> None:
    """End what is done beside the requests of clients, but for maintenance."""
    for task in work:
        task.cancel()
    if broker.replicas is not None:
        broker.replicas.fetchers.stop()
        broker.replicas.in_sync.note_watermarks()
    if broker.membership is not None and broker.membership.epoch != NOT_REGISTERED:
        broker.logs.data_dir.broker_epoch = broker.membership.epoch


def _report(broker: Broker, *parts: Reporter) -> None:
    """Have all parts of a node name what they count."""
    own: tuple[Reporter, ...] = (
        broker.metadata,
        broker.logs,
        broker.fetch_sessions,
        broker.groups,
        broker.transactions,
        broker.shares.states,
        broker.shares.led,
        broker.shares.fetch.sessions,
        broker.produce.record_checks,
        broker.quotas,
        broker.access,
    )
    if broker.replicas is not None:
        own = (*own, broker.replicas.repairing)
    if broker.authentication is not None:
        own = (*own, broker.authentication)
    for part in (*own, *parts):
        part.report(broker.metrics)
    broker.metrics.counter("log_lines_left_out_total", "Lines of the log that were too many to be written.", left_out)


def check_data_dirs(config: BrokerConfig) -> None:
    """Refuse more than one data directory."""
    if len(config.log_dirs) != 1:
        raise InvalidConfig(f"log.dirs must name one directory, not {len(config.log_dirs)}")


def _log_config(broker: Broker, name: TopicPartition) -> LogConfig:
    topic = broker.served.by_name.get(name.topic)
    return LogConfig() if topic is None else topic.config.log
