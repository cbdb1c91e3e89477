"""The other nodes of the cluster, as one node is set up to reach them: voters, controllers, brokers.

A node that forms a quorum of its own and listens for no controllers has none, and none can join it.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from barnabas.core.raft.voters import VoterEndpoint
from barnabas.edge.kafka.remote_controller import RemoteController
from barnabas.node.quorum import bootstrap_of
from barnabas.node.security import NodeSecurity
from barnabas.runtime.cluster_metadata import ClusterMetadata
from barnabas.runtime.controller_link import ControllerLink
from barnabas.runtime.dice import Dice
from barnabas.runtime.other_brokers import OtherBrokers
from barnabas.runtime.peers import PeerLimits, Peers
from barnabas.runtime.raft_driver.peers import WirePeers
from barnabas.services.settings.broker_config import BrokerConfig

CONTROLLER_TIMEOUT_S: Final = 2.0
"""For one call of the controller, its repetitions included; whoever calls begins anew."""

LIMITS: Final = PeerLimits(connect_timeout_s=1.0)
"""An election takes a second or two: a node that cannot be reached must not take longer."""


def listener_of(config: BrokerConfig) -> str:
    """The name of the listener that controllers use among themselves."""
    names = config.quorum.controller_listener_names
    return names[0].upper() if names else ""


def broker_listener_of(config: BrokerConfig) -> str:
    """The name of the listener that brokers use among themselves."""
    name = config.quorum.inter_broker_listener_name
    if name is not None:
        return name.upper()
    return config.client_listeners[0].name if config.client_listeners else ""


class Neighbours:
    """The ways from one node to the others. `close` ends all connections."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: ClusterMetadata,
        security: NodeSecurity,
        *,
        dice: Dice,
        tasks: asyncio.TaskGroup,
    ) -> None:
        quorum, node_id = config.quorum, config.node_id
        loop, client_id = asyncio.get_running_loop(), f"barnabas-node-{node_id}"
        for listener in (listener_of(config), broker_listener_of(config)):
            security.check_super_user(listener)
        way = security.peers_of(listener_of(config), is_for_controllers=True)
        self._peers = Peers(tasks, loop, dice, LIMITS, client_id=client_id, **way._asdict())
        way = security.peers_of(broker_listener_of(config), is_for_controllers=False)
        self._broker_peers = Peers(tasks, loop, dice, LIMITS, client_id=client_id, **way._asdict())
        self.voters = WirePeers(
            self._peers,
            node_id=node_id,
            bootstrap=bootstrap_of(config),
            listener=listener_of(config),
            timeout_s=quorum.controller_quorum_request_timeout_ms / 1000,
        )
        self.controller = ControllerLink(metadata, self._peers, node_id=node_id)
        self.remote_controller = RemoteController(self.controller, timeout_s=CONTROLLER_TIMEOUT_S)
        name = quorum.inter_broker_listener_name
        self.brokers = OtherBrokers(
            metadata, self._broker_peers, node_id=node_id, listener=None if name is None else name.upper()
        )

    def listen_at(self, endpoints: Sequence[VoterEndpoint]) -> None:
        """This node listens for controllers here."""
        self.voters.endpoints = tuple(endpoints)

    def close(self) -> None:
        """End all connections."""
        self._peers.close()
        self._broker_peers.close()
