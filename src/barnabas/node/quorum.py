"""The quorum as the settings of a node describe it: its times, and whom to ask for its leader."""

from barnabas.core.metadata.formation import Address, is_own
from barnabas.core.raft.state import RaftConfig, bootstrap_ids
from barnabas.services.formation import place_of
from barnabas.services.settings.broker_config import BrokerConfig


def raft_config(config: BrokerConfig) -> RaftConfig:
    """The times of the quorum, and whom to ask for its leader, from the settings."""
    quorum = config.quorum
    return RaftConfig(
        election_timeout_ms=quorum.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=quorum.controller_quorum_fetch_timeout_ms,
        request_timeout_ms=quorum.controller_quorum_request_timeout_ms,
        retry_backoff_ms=quorum.controller_quorum_retry_backoff_ms,
        election_backoff_max_ms=quorum.controller_quorum_election_backoff_max_ms,
        bootstrap_ids=bootstrap_ids(len(bootstrap_of(config))),
    )


def bootstrap_of(config: BrokerConfig) -> list[Address]:
    """The bootstrap servers that are other nodes."""
    place = place_of(config)
    return [address for address in place.bootstrap if not is_own(address, place.own)]
