"""The services of one node, made of its settings, its metadata, its logs and the way to its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.core.metadata.records import MIN_INSYNC_REPLICAS, ScramCredentialRecord
from barnabas.node.ports import Ports
from barnabas.runtime.broker_lease import BrokerLease
from barnabas.runtime.dice import Dice
from barnabas.runtime.logs import Logs
from barnabas.runtime.metadata_log import MetadataLog
from barnabas.runtime.other_brokers import OtherBrokers
from barnabas.services.access import Access
from barnabas.services.broker import Broker, ShareParts
from barnabas.services.controller import Controller, Formation
from barnabas.services.controller_partitions import PartitionRules
from barnabas.services.dead_letters import DeadLetters
from barnabas.services.fetch import Fetch
from barnabas.services.fetch_sessions import FetchSessions
from barnabas.services.formation import first_users
from barnabas.services.group_coordinators import GroupConfig, GroupCoordinators
from barnabas.services.groups import GroupService
from barnabas.services.led_shares import LedShares
from barnabas.services.markers import Markers
from barnabas.services.membership import Membership, MembershipConfig
from barnabas.services.produce import Produce
from barnabas.services.producer_ids import ProducerIds
from barnabas.services.quorum import QuorumService
from barnabas.services.quotas import QuotaConfig, Quotas
from barnabas.services.served import ServedTopics
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.live_config import LiveConfig
from barnabas.services.share_fetch import ShareFetch
from barnabas.services.share_groups import ShareGroups
from barnabas.services.share_states import LocalShareStates, ShareStateRouter
from barnabas.services.subscribers import Subscribers
from barnabas.services.topics import Topics
from barnabas.services.transaction_config import TransactionConfig
from barnabas.services.transactions import TransactionService

if TYPE_CHECKING:
    from barnabas.node.neighbours import Neighbours
    from barnabas.services.acls import Acls


def build_broker(
    config: BrokerConfig, ports: Ports, metadata: MetadataLog, logs: Logs, neighbours: Neighbours | None
) -> Broker:
    """All services of a node. Who follows the metadata is subscribed to it, in the order that they need."""
    live = LiveConfig(config, metadata)
    metadata.subscribe(live.apply)  # first: whoever hears of a record finds the settings it leads to
    access, acls = _access(config, metadata, live)
    served = ServedTopics(metadata.image, logs, ports.threads.background, live.topic_config, node_id=config.node_id)
    topics = Topics(live, metadata, served, ports.dice)
    coordinators = GroupCoordinators(
        GroupConfig.of(config.groups, config.shares, max_groups=config.limits.max_groups),
        metadata=metadata,
        served=served,
        topics=topics,
        offload=ports.threads.reads,
        clock=ports.clock,
        subscribers=Subscribers(access),
    )
    lease = None
    if neighbours is not None:
        lease = logs.replicas.lease = BrokerLease(metadata, ports.clock)
    markers = Markers(served, coordinators, ports.clock)
    controller = _controller(config, metadata, neighbours, first_users(logs.data_dir.disk, logs.data_dir.path))
    membership = _membership(config, metadata, ports.dice, controller, neighbours, lease)
    producer_ids = ProducerIds(membership)
    alone = OtherBrokers(metadata, None, node_id=config.node_id)
    others = alone if neighbours is None else neighbours.brokers
    transactions = TransactionService(
        TransactionConfig.of(config.transactions, max_ids=config.limits.max_transactional_ids),
        served=served,
        topics=topics,
        groups=coordinators,
        markers=markers,
        others=others,
        producer_ids=producer_ids,
        offload=ports.threads.reads,
        clock=ports.clock,
    )
    groups = GroupService(coordinators, admission=transactions, clock=ports.clock, dice=ports.dice)
    produce = Produce(ports.clock, ports.threads.compute, logs.data_dir.health, transactions)
    replicas = None
    if neighbours is not None:
        assert lease is not None
        from barnabas.node.replicas import replica_parts  # noqa: PLC0415 - a node that is alone has none

        replicas = replica_parts(config, ports, metadata, logs, controller, membership, neighbours, lease)
        replicas.repairing.resign = membership.alter_partitions
        metadata.subscribe(replicas.in_sync.apply)  # before the partitions, which ask who is active
    metadata.subscribe(served.apply)
    metadata.subscribe(coordinators.apply)
    metadata.subscribe(transactions.apply)
    live.subscribe(
        lambda now: coordinators.configure(GroupConfig.of(now.groups, now.shares, max_groups=now.limits.max_groups))
    )
    quotas = Quotas(metadata, QuotaConfig.of(config.quotas), access=access)
    metadata.subscribe(quotas.apply)
    fetch = Fetch(ports.threads.reads)
    letters = DeadLetters(
        live,
        served=served,
        topics=topics,
        produce=produce,
        fetch=fetch,
        others=others,
        offload=ports.threads.compute,
        clock=ports.clock,
    )
    shares = _shares(
        config,
        ports,
        metadata,
        logs,
        served=served,
        topics=topics,
        groups=coordinators,
        others=others,
        fetch=fetch,
        letters=letters,
    )
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
        fetch=fetch,
        fetch_sessions=FetchSessions(ports.dice, max_sessions=config.max_incremental_fetch_session_cache_slots),
        producer_ids=producer_ids,
        groups=groups,
        markers=markers,
        transactions=transactions,
        shares=shares,
        controller=controller,
        membership=membership,
        access=access,
        acls=acls,
        quotas=quotas,
        quorum=QuorumService(metadata, None if neighbours is None else neighbours.voters),
        link=None if neighbours is None else neighbours.controller,
        replicas=replicas,
        others=others,
    )


def _access(config: BrokerConfig, metadata: MetadataLog, live: LiveConfig) -> tuple[Access, Acls | None]:
    """Who decides what clients may do, and how its rules are changed; None: nobody does."""
    access, settings = Access(), config.access
    if settings.authorizer_class_name is None:
        return access, None
    from barnabas.node.authorizing import use_acls  # noqa: PLC0415 - few nodes have an authorizer

    return access, use_acls(access, settings, metadata, live)


def _shares(
    config: BrokerConfig,
    ports: Ports,
    metadata: MetadataLog,
    logs: Logs,
    *,
    served: ServedTopics,
    topics: Topics,
    groups: GroupCoordinators,
    others: OtherBrokers,
    fetch: Fetch,
    letters: DeadLetters,
) -> ShareParts:
    local = LocalShareStates(
        config.shares, served=served, topics=topics, logs=logs, offload=ports.threads.reads, clock=ports.clock
    )
    states = ShareStateRouter(local, others)
    led = LedShares(
        served=served,
        states=states,
        config_of=groups.share_config_of,
        offload=ports.threads.reads,
        clock=ports.clock,
        letters=letters,
    )
    metadata.subscribe(local.apply)
    metadata.subscribe(led.apply)
    return ShareParts(
        ShareGroups(groups, states, served=served),
        local,
        led,
        ShareFetch(fetch, led, max_sessions=config.shares.group_share_max_share_sessions),
    )


def _controller(
    config: BrokerConfig,
    metadata: MetadataLog,
    neighbours: Neighbours | None,
    credentials: Sequence[ScramCredentialRecord],
) -> Controller:
    assert metadata.cluster_id is not None
    formation = Formation(
        cluster_id=metadata.cluster_id,
        min_insync_replicas=config.topic_defaults.get(MIN_INSYNC_REPLICAS),
        credentials=tuple(credentials),
    )
    return Controller(
        metadata,
        node_id=config.node_id,
        session_timeout_ms=config.quorum.broker_session_timeout_ms,
        max_lag_ms=config.replicas.replica_lag_time_max_ms,
        formation=formation,
        partitions=PartitionRules.of(config),
        # Others would have another image: with them, nothing is so that is not committed.
        assume=metadata.assume if neighbours is None else None,
    )


def _membership(
    config: BrokerConfig,
    metadata: MetadataLog,
    dice: Dice,
    controller: Controller,
    neighbours: Neighbours | None,
    lease: BrokerLease | None,
) -> Membership:
    membership = MembershipConfig(
        node_id=config.node_id,
        incarnation=dice.uuid(),
        directory_id=metadata.directory_id,
        rack=config.broker_rack,
        heartbeat_interval_ms=config.quorum.broker_heartbeat_interval_ms,
        session_timeout_ms=config.quorum.broker_session_timeout_ms,
    )
    remote = None if neighbours is None else neighbours.remote_controller
    return Membership(metadata, membership, controller=controller, remote=remote, lease=lease)
