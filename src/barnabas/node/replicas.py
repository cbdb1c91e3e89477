"""What a node that has others does for partitions with several replicas: loaded by such nodes alone."""

from barnabas.node.neighbours import Neighbours
from barnabas.node.ports import Ports
from barnabas.runtime.broker_lease import BrokerLease
from barnabas.runtime.cut_off import CutOffWatch
from barnabas.runtime.logs import Logs
from barnabas.runtime.metadata_log import MetadataLog
from barnabas.runtime.repairing import Repairing
from barnabas.runtime.replicating.fetchers import Fetchers
from barnabas.runtime.replicating.session import Self
from barnabas.services.broker import ReplicaParts
from barnabas.services.controller import Controller
from barnabas.services.in_sync import InSync
from barnabas.services.membership import Membership
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.watching import Watching


def replica_parts(
    config: BrokerConfig,
    ports: Ports,
    metadata: MetadataLog,
    logs: Logs,
    controller: Controller,
    membership: Membership,
    neighbours: Neighbours,
    lease: BrokerLease,
) -> ReplicaParts:
    """The parts, of these settings and with this way to the other nodes."""
    settings = config.replicas
    return ReplicaParts(
        Fetchers(neighbours.brokers, settings, lambda: Self(config.node_id, membership.epoch)),
        InSync(
            logs,
            membership,
            ports.threads.background,
            metadata.image,
            max_lag_ms=settings.replica_lag_time_max_ms,
        ),
        CutOffWatch(
            logs.replicas,
            lease,
            session_timeout_ms=config.quorum.broker_session_timeout_ms,
            fetch_wait_max_ms=settings.replica_fetch_wait_max_ms,
        ),
        Watching(metadata, controller, neighbours.brokers, node_id=config.node_id),
        Repairing(
            logs,
            neighbours.brokers,
            metadata,
            ports.threads.background,
            node_id=config.node_id,
            timeout_s=settings.replica_socket_timeout_ms / 1000,
        ),
    )
