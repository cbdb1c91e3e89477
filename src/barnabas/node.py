"""One node: builds everything, in order, and owns every task of it.

Start: data directory, metadata, address, registration, logs, then clients are let in. Stop: the other way round. What
the start changes in the metadata of the cluster it awaits, as any change; nothing is written before the address is had.
A node is given its disk, clock, dice and threads, so that the very same node runs in simulation.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from barnabas.core.errors import AddressNotAvailable, InvalidConfig
from barnabas.core.metadata.cluster import check_identity
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.records import MIN_INSYNC_REPLICAS, Endpoint
from barnabas.core.model import TopicPartition
from barnabas.core.uuids import id_text
from barnabas.edge.kafka.server import KafkaServer
from barnabas.runtime.clock import Clock, SystemClock
from barnabas.runtime.connections import ConnectionLimits, Connections
from barnabas.runtime.descriptors import MOST_FILES, max_descriptors, share
from barnabas.runtime.dice import Dice, SystemDice
from barnabas.runtime.disk import OsDisk
from barnabas.runtime.disk_watch import DiskWatch
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.log_lines import get_logger, left_out
from barnabas.runtime.logs import Logs
from barnabas.runtime.maintenance import Maintenance, MaintenanceConfig
from barnabas.runtime.memory import max_unread_bytes
from barnabas.runtime.metadata_log import MetadataLog, MetadataLogConfig
from barnabas.runtime.metrics import Reporter
from barnabas.runtime.offload import Threads
from barnabas.runtime.other_brokers import OtherBrokers
from barnabas.services.broker import Broker
from barnabas.services.controller import Controller, Formation
from barnabas.services.fetch import Fetch
from barnabas.services.fetch_sessions import FetchSessions
from barnabas.services.group_coordinators import GroupConfig, GroupCoordinators
from barnabas.services.groups import GroupService
from barnabas.services.markers import Markers
from barnabas.services.membership import Membership, MembershipConfig
from barnabas.services.opened import is_known, tell_damage, tell_recovery, tell_strays
from barnabas.services.produce import Produce
from barnabas.services.producer_ids import ProducerIds
from barnabas.services.quorum import QuorumService
from barnabas.services.served import ServedTopics
from barnabas.services.settings.broker_checks import per_ip_overrides
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.listener import Listener
from barnabas.services.settings.live_config import LiveConfig
from barnabas.services.topics import Topics
from barnabas.services.transaction_config import TransactionConfig
from barnabas.services.transactions import TransactionService
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.disk import Disk

log = get_logger("barnabas.node", is_limited=False)

CLOSE_GRACE_S: Final = 2.0
ANY_HOST: Final = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Ports:
    """What a node takes from outside: its disk, time, chance and threads."""

    disk: Disk
    clock: Clock
    dice: Dice
    threads: Threads
    max_descriptors: int | None = None  # None where nothing has any

    def close(self) -> None:
        """End the threads, if there are any."""
        self.threads.close()

    @classmethod
    def of_system(cls, config: BrokerConfig) -> "Ports":
        threads = Threads.of_system(reads=config.num_io_threads)
        return cls(OsDisk(), SystemClock(), SystemDice(), threads, max_descriptors())


class Node:
    """A broker that `run` runs until `stop`."""

    def __init__(self, config: BrokerConfig, ports: Ports) -> None:
        check_data_dirs(config)
        self._ports = ports
        self._shares = None if ports.max_descriptors is None else share(ports.max_descriptors)
        self.config = self._within_shares(config)
        self.broker: Broker | None = None
        self.addresses: dict[str, tuple[str, int]] = {}  # by the name of the listener, in the order of the settings
        self._stop = asyncio.Event()

    @property
    def address(self) -> tuple[str, int]:
        """Where the first listener listens."""
        return next(iter(self.addresses.values()))

    def stop(self) -> None:
        """Have `run` end, cleanly."""
        self._stop.set()

    async def run(self, on_ready: Callable[["Node"], None]) -> None:
        """Serve until `stop`; calls back once clients can connect."""
        max_open_files = MOST_FILES if self._shares is None else self._shares.files
        data_dir = DataDir(self._ports.disk, self.config.log_dirs[0], max_open_files=max_open_files)
        watch = self._watch(data_dir)
        logs = Logs(data_dir)
        logs.flusher = Flusher(self._ports.threads.syncs, listener=logs)
        async with asyncio.TaskGroup() as tasks:
            metadata = self._open_metadata(data_dir)
            watch.before_room = metadata.write_assumed
            broker = self._build(metadata, logs)
            server = KafkaServer(broker)
            connections = Connections(server, _limits(broker.live.current), tasks)
            try:
                endpoints = await self._take_addresses(connections)
            except AddressNotAvailable:
                await connections.close(grace_s=0)  # gives back those that were free
                data_dir.give_back()
                raise
            try:
                await metadata.start(tasks)
                await self._join(broker, endpoints, was_clean=data_dir.was_clean)
                self._open_logs(broker, data_dir)
                broker.served.start(tasks)
                broker.groups.start(tasks)
                broker.transactions.start(tasks)
                flushing = tasks.create_task(logs.flusher.run())
                maintenance = self._maintenance(broker)
                self._follow_settings(broker, connections, maintenance)
                _report(broker, server, connections, maintenance)
                maintaining = tasks.create_task(maintenance.run())
                assert broker.controller is not None
                assert broker.membership is not None
                expiring = [
                    tasks.create_task(broker.controller.run()),
                    tasks.create_task(broker.membership.run()),
                    tasks.create_task(broker.produce.record_checks.run()),
                    tasks.create_task(watch.run()),
                    tasks.create_task(broker.groups.run_expiry()),
                    tasks.create_task(broker.transactions.run_expiry()),
                ]
                await watch.look_now()  # before the first write, not a second after it
                await connections.serve()
                self.broker = broker
                on_ready(self)
                await self._stop.wait()
            finally:
                broker.groups.close()  # first: members whose joins wait are told, and hold up nothing
                broker.transactions.close()
                await connections.close(grace_s=CLOSE_GRACE_S)
            for task in expiring:
                task.cancel()
            maintenance.stop()
            await maintaining
            await broker.served.close()
            await metadata.close()
            flushing.cancel()
        data_dir.close()

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

    def _open_metadata(self, data_dir: DataDir) -> MetadataLog:
        ports, config = self._ports, self.config
        metadata = MetadataLog.open(
            data_dir,
            offload=ports.threads.syncs,
            clock=ports.clock,
            dice=ports.dice,
            node_id=config.node_id,
            config=MetadataLogConfig(
                max_record_bytes_between_snapshots=config.metadata_log_max_record_bytes_between_snapshots
            ),
        )
        for note in metadata.notes:
            log.warning("%s", note)
        try:
            check_identity(metadata.image, node_id=config.node_id, cluster_id=config.cluster_id)
        except InvalidConfig as refusal:
            data_dir.give_back()
            raise InvalidConfig(
                f"{refusal} (in {data_dir.path}): neither can change; set it to that, or name another --data-dir"
            ) from None
        return metadata

    def _build(self, metadata: MetadataLog, logs: Logs) -> Broker:
        ports, config = self._ports, self.config
        live = LiveConfig(config, metadata)
        metadata.subscribe(live.apply)  # first: whoever hears of a record finds the settings it leads to
        served = ServedTopics(
            metadata.image,
            logs,
            ports.threads.background,
            live.topic_config,
            node_id=config.node_id,
        )
        topics = Topics(live, metadata, served, ports.dice)
        coordinators = GroupCoordinators(
            GroupConfig.of(config.groups),
            metadata=metadata,
            served=served,
            topics=topics,
            offload=ports.threads.reads,
            clock=ports.clock,
        )
        markers = Markers(served, coordinators, ports.clock)
        controller = self._controller(metadata)
        membership = self._membership(metadata, controller)
        producer_ids = ProducerIds(membership)
        transactions = TransactionService(
            TransactionConfig.of(config.transactions),
            served=served,
            topics=topics,
            groups=coordinators,
            markers=markers,
            others=OtherBrokers(metadata, None, node_id=config.node_id),
            producer_ids=producer_ids,
            offload=ports.threads.reads,
            clock=ports.clock,
        )
        groups = GroupService(coordinators, admission=transactions, clock=ports.clock, dice=ports.dice)
        produce = Produce(ports.clock, ports.threads.compute, logs.data_dir.health, transactions)
        metadata.subscribe(served.apply)
        metadata.subscribe(coordinators.apply)
        metadata.subscribe(transactions.apply)
        live.subscribe(lambda settings: coordinators.configure(GroupConfig.of(settings.groups)))
        return Broker(
            config=config,
            live=live,
            clock=ports.clock,
            dice=ports.dice,
            threads=ports.threads,
            metadata=metadata,
            logs=logs,
            served=served,
            topics=topics,
            produce=produce,
            fetch=Fetch(ports.threads.reads),
            fetch_sessions=FetchSessions(ports.dice, max_sessions=config.max_incremental_fetch_session_cache_slots),
            producer_ids=producer_ids,
            groups=groups,
            markers=markers,
            transactions=transactions,
            quorum=QuorumService(metadata),
            controller=controller,
            membership=membership,
        )

    def _maintenance(self, broker: Broker) -> Maintenance:
        ports, config = self._ports, _maintenance_config(broker.live.current)
        return Maintenance(broker.logs, ports.threads.background, ports.clock, ports.dice, config)

    def _follow_settings(self, broker: Broker, connections: Connections, maintenance: Maintenance) -> None:
        """Have the parts of the node that act on settings follow those that are altered while it runs."""

        def follow(config: BrokerConfig) -> None:
            connections.limits = _limits(self._within_shares(config))
            maintenance.configure(_maintenance_config(config))
            self._ports.threads.resize(reads=config.num_io_threads)

        broker.live.subscribe(follow)

    async def _take_addresses(self, connections: Connections) -> list[Endpoint]:
        """Bind all listeners; returns where clients of each one for them are told to connect."""
        endpoints: list[Endpoint] = []
        for listener in self.config.listeners:
            try:
                bound = await connections.bind(listener.host, listener.port, listener=listener.name)
            except OSError as error:
                raise AddressNotAvailable(
                    f"cannot listen on {listener.host}:{listener.port} ({_words_of(error)}); name another with --listen"
                ) from error
            self.addresses[listener.name] = bound
            if not self.config.is_for_controllers(listener.name):
                endpoints.append(self._endpoint(listener, bound))
        return endpoints

    async def _join(self, broker: Broker, endpoints: Sequence[Endpoint], *, was_clean: bool) -> None:
        """Have the cluster formed if there is none yet, and tell it where this node is and how it stopped."""
        assert broker.membership is not None
        await broker.membership.start(endpoints, cluster_id=broker.image.cluster_id, was_clean=was_clean)

    def _controller(self, metadata: MetadataLog) -> Controller:
        config = self.config
        formation = Formation(
            cluster_id=config.cluster_id or new_cluster_id(self._ports.dice),
            min_insync_replicas=config.topic_defaults.get(MIN_INSYNC_REPLICAS),
        )
        return Controller(
            metadata,
            node_id=config.node_id,
            session_timeout_ms=config.quorum.broker_session_timeout_ms,
            formation=formation,
            assume=metadata.assume,
        )

    def _membership(self, metadata: MetadataLog, controller: Controller) -> Membership:
        config, dice = self.config, self._ports.dice
        known = metadata.image.nodes.get(config.node_id)
        membership = MembershipConfig(
            node_id=config.node_id,
            incarnation=dice.uuid(),
            directory_id=(known and known.directory_id) or dice.uuid(),
            rack=config.broker_rack,
            heartbeat_interval_ms=config.quorum.broker_heartbeat_interval_ms,
            session_timeout_ms=config.quorum.broker_session_timeout_ms,
        )
        return Membership(metadata, membership, controller=controller, remote=None)

    def _endpoint(self, listener: Listener, bound: tuple[str, int]) -> Endpoint:
        """Where clients of a listener that is bound are told to connect."""
        host, port = bound
        advertised = self.config.advertised(listener.name)
        if advertised is not None:
            host, port = advertised.host, advertised.port or port
        elif listener.host in ANY_HOST:
            host = socket.gethostname()
        else:
            host = listener.host
        return Endpoint(listener.name, host, port)

    def _open_logs(self, broker: Broker, data_dir: DataDir) -> None:
        """Open the logs that are on disk; remove those of topics that were deleted when the node went down."""
        tell_recovery(data_dir, data_dir.open_logs(lambda name: _log_config(broker, name)))
        tell_damage(broker.served, data_dir)
        strays = [name for name in (*data_dir.logs, *data_dir.unreadable) if not is_known(broker.served, name)]
        if strays:
            tell_strays(strays)
            data_dir.leftovers += data_dir.delete_strays(strays)
        for failure in data_dir.leftovers:
            log.warning("files of a deleted topic cannot be removed (%s); remove them by hand", failure)
        for name in data_dir.logs:
            if name != METADATA_PARTITION:
                broker.served.get_partition(*name).hold_log()


def _report(broker: Broker, *parts: Reporter) -> None:
    """Have all parts of a node name what they count."""
    own: tuple[Reporter, ...] = (
        broker.metadata,
        broker.logs,
        broker.fetch_sessions,
        broker.groups,
        broker.transactions,
        broker.produce.record_checks,
    )
    for part in (*own, *parts):
        part.report(broker.metrics)
    broker.metrics.counter("log_lines_left_out_total", "Lines of the log that were too many to be written.", left_out)


def check_data_dirs(config: BrokerConfig) -> None:
    """Refuse more than one data directory."""
    if len(config.log_dirs) != 1:
        raise InvalidConfig(f"log.dirs must name one directory, not {len(config.log_dirs)}")


def _words_of(error: OSError) -> str:
    """The system's words for an error, without what asyncio adds to them: the address, as Python writes it."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)


def new_cluster_id(dice: Dice) -> str:
    """A name for a new cluster: 16 random bytes, as Kafka writes them."""
    return id_text(dice.uuid())


def _maintenance_config(config: BrokerConfig) -> MaintenanceConfig:
    return MaintenanceConfig(
        retention_check_interval_ms=config.log_retention_check_interval_ms,
        checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
        cleaner_enable=config.log_cleaner_enable,
        cleaner_backoff_ms=config.log_cleaner_backoff_ms,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        scrub_bytes_per_second=config.log_scrub_bytes_per_second,
        scrub_interval_ms=config.log_scrub_interval_ms,
    )


def _limits(config: BrokerConfig) -> ConnectionLimits:
    return ConnectionLimits(
        max_frame_bytes=config.socket_request_max_bytes,
        max_queued_bytes=config.queued_max_request_bytes,
        max_in_flight_bytes=config.connection_max_bytes_in_flight,
        max_frame_s=config.request_receive_timeout_ms / 1000,
        max_unread_bytes=max_unread_bytes(config.queued_max_response_bytes),
        max_unread_s=config.response_send_timeout_ms / 1000,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=per_ip_overrides(config),
        max_idle_s=config.connections_max_idle_ms / 1000,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
    )


def _log_config(broker: Broker, name: TopicPartition) -> LogConfig:
    topic = broker.served.by_name.get(name.topic)
    return LogConfig() if topic is None else topic.config.log
