"""The settings of a node's place in its cluster, under Kafka's names: a part of `BrokerConfig`."""

from typing import Annotated, Final

import msgspec

from barnabas.core.raft.state import RaftConfig
from barnabas.services.settings.catalogue.field import About
from barnabas.services.settings.catalogue.setting import InvalidSetting, SettingType

BOOLEAN, INT, LIST, STRING = SettingType.BOOLEAN, SettingType.INT, SettingType.LIST, SettingType.STRING
RAFT: Final = RaftConfig()
BROKER: Final = "broker"
CONTROLLER: Final = "controller"


class QuorumSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the quorum that commits metadata, and of a broker's session with the controller."""

    process_roles: Annotated[
        tuple[str, ...],
        About(LIST, "The roles of this node: broker, controller, or both.", choices=(BROKER, CONTROLLER)),
    ] = (BROKER, CONTROLLER)
    controller_listener_names: Annotated[
        tuple[str, ...],
        About(LIST, "The names of the listeners that are for controllers: nodes use them among themselves."),
    ] = ()
    inter_broker_listener_name: Annotated[
        str | None,
        About(STRING, "The name of the listener that brokers use among themselves. Unset: the first for clients."),
    ] = None
    controller_quorum_voters: Annotated[
        tuple[str, ...],
        About(
            LIST,
            "A fixed list of all voters, as id@host:port; the same on every node. Unset: voters can be added and "
            "removed while the cluster runs.",
        ),
    ] = ()
    controller_quorum_bootstrap_servers: Annotated[
        tuple[str, ...],
        About(LIST, "Controllers that a node asks for the leader of the quorum, as host:port. Some of them suffice."),
    ] = ()
    controller_quorum_auto_join_enable: Annotated[
        bool, About(BOOLEAN, "Whether a controller that is no voter becomes one by itself, once it has caught up.")
    ] = False
    controller_quorum_election_timeout_ms: Annotated[
        int, About(INT, "An election without a result is repeated after one to two times this.", at_least=1)
    ] = RAFT.election_timeout_ms
    controller_quorum_fetch_timeout_ms: Annotated[
        int, About(INT, "A voter that cannot fetch from the leader for this long calls an election.", at_least=1)
    ] = RAFT.fetch_timeout_ms
    controller_quorum_election_backoff_max_ms: Annotated[
        int, About(INT, "How long the last of the named successors of a leader waits.", at_least=1)
    ] = RAFT.election_backoff_max_ms
    controller_quorum_request_timeout_ms: Annotated[
        int, About(INT, "How long a request of the quorum waits for its answer.", at_least=1)
    ] = RAFT.request_timeout_ms
    controller_quorum_retry_backoff_ms: Annotated[
        int, About(INT, "How long a request of the quorum that failed waits before it is repeated.", at_least=0)
    ] = RAFT.retry_backoff_ms
    broker_heartbeat_interval_ms: Annotated[
        int, About(INT, "How often a broker sends a heartbeat to the controller.", at_least=1)
    ] = 2000
    broker_session_timeout_ms: Annotated[
        int, About(INT, "A broker that sends no heartbeat for this long is fenced.", at_least=1)
    ] = 9000

    def __post_init__(self) -> None:
        if not self.process_roles:
            raise InvalidSetting("process.roles", "process.roles must name a role: broker, controller, or both")
        if self.broker_session_timeout_ms <= self.broker_heartbeat_interval_ms:
            raise InvalidSetting(
                "broker.session.timeout.ms",
                "broker.session.timeout.ms must be above broker.heartbeat.interval.ms",
            )

    @property
    def is_broker(self) -> bool:
        """Whether clients produce to this node and consume from it."""
        return BROKER in self.process_roles

    @property
    def is_controller(self) -> bool:
        """Whether this node takes part in the quorum, as a voter or to become one."""
        return CONTROLLER in self.process_roles
