"""Administration of the cluster itself: its brokers, the quorum that commits its metadata, and who leads what.

librdkafka has no requests for the quorum, so they go over our own connections, to any broker: it passes on what only
the active controller can answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from uuid import UUID

from barnabas.client.cluster import Cluster
from barnabas.client.errors import Passing, is_passing, refusal_of, words_of
from barnabas.client.settings import Settings
from barnabas.core.errors import InvalidRequest, VoterNotFound
from barnabas.core.model import TopicPartition
from barnabas.wire.apis import (
    ADD_RAFT_VOTER,
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    METADATA,
    REMOVE_RAFT_VOTER,
    UNREGISTER_BROKER,
)
from barnabas.wire.writing import Values

_METADATA_TOPIC: Final = "__cluster_metadata"
_NOBODY: Final = -1
_OBSERVER_MS: Final = 5000
"""An observer fetches twice a second."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A registered broker; a fenced one is kept from clients, because it is silent, starting or leaving."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class QuorumReplicaInfo:
    """A replica of the metadata log; `lag` is what it lacks of the leader's, in records."""

    node_id: int
    directory_id: UUID | None
    lag: int
    is_voter: bool
    last_fetch_ms: int = -1
    """When it last fetched from the leader; -1: never, or it is the leader."""


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The quorum, according to its leader."""

    leader_id: int
    epoch: int
    high_watermark: int
    replicas: Sequence[QuorumReplicaInfo]

    @property
    def voters(self) -> list[QuorumReplicaInfo]:
        return [each for each in self.replicas if each.is_voter]

    @property
    def live_observers(self) -> list[QuorumReplicaInfo]:
        """Those that still fetch: a leader remembers one that is gone for some minutes."""
        now_ms = max((each.last_fetch_ms for each in self.replicas), default=0)  # the leader names its own time
        return [each for each in self.replicas if not each.is_voter and now_ms - each.last_fetch_ms < _OBSERVER_MS]

    def voter(self, node_id: int) -> QuorumReplicaInfo | None:
        return next((each for each in self.voters if each.node_id == node_id), None)

    def replacement(self, node_id: int) -> QuorumReplicaInfo | None:
        """The replica that a node runs now, if the vote of this node is with another data directory.

        Its disk was lost and formatted anew: it observes, and the voter of its id is gone. A directory that the node
        had before is remembered as an observer, too, for some minutes: so what counts is who fetched last.
        """
        voter = self.voter(node_id)
        if voter is None or voter.directory_id is None or node_id == self.leader_id:
            return None
        others = [each for each in self.replicas if each.node_id == node_id and not each.is_voter]
        latest = max(others, key=lambda each: each.last_fetch_ms, default=None)
        return latest if latest is not None and latest.last_fetch_ms > voter.last_fetch_ms else None


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """Where a partition is; `leader` is None while nobody leads it. Replicas that are being copied are not in sync."""

    partition: TopicPartition
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster according to one broker; `controller_id` is None while nobody leads."""

    cluster_id: str
    controller_id: int | None
    brokers: Sequence[BrokerInfo]
    partitions: Sequence[PartitionPlace]

    def only_on(self, node_id: int) -> list[str]:
        """The partitions of which no other node is known to have all records."""
        return sorted(
            str(each.partition)
            for each in self.partitions
            if node_id in each.replicas and not set(each.in_sync) - {node_id}
        )

    def held_by(self, node_id: int) -> list[str]:
        """The partitions that a node has a replica of."""
        return sorted(str(each.partition) for each in self.partitions if node_id in each.replicas)


class ClusterAdmin:
    """The administration of one cluster. Each call has its own connections, and retries what may pass."""

    def __init__(self, settings: Settings, timeout_s: float = 30.0) -> None:
        self._settings = settings
        self._timeout_s = timeout_s

    def describe(self) -> ClusterInfo:
        """Brokers, fenced ones included, and partitions; also while there is no controller."""
        return self._trying(_describe)

    def quorum(self) -> QuorumInfo:
        """The quorum; waits for a leader."""
        return self._trying(_quorum)

    def add_voter(self, node_id: int, directory_id: UUID, *, listener: str, host: str, port: int) -> None:
        """Have an observer vote; waits until it has caught up."""
        at = {"name": listener, "host": host, "port": port}
        voter = {"voter_id": node_id, "voter_directory_id": directory_id, "listeners": [at]}
        self._change(ADD_RAFT_VOTER.key, {**voter, "timeout": 5_000, "ack_when_committed": True}, "add a voter")

    def remove_voter(self, node_id: int) -> None:
        """Have a voter vote no more."""
        found = self.quorum().voter(node_id)
        if found is None:
            raise VoterNotFound(f"node {node_id} is not a voter")
        voter = {"voter_id": node_id, "voter_directory_id": found.directory_id}
        self._change(REMOVE_RAFT_VOTER.key, voter, f"remove voter {node_id}")

    def unregister(self, node_id: int) -> None:
        """Remove a broker from the cluster permanently; waits until it counts as gone."""

        def ask(cluster: Cluster) -> None:
            answer = cluster.ask(UNREGISTER_BROKER.key, {"broker_id": node_id})
            # A broker that was killed counts as running until its session is over.
            is_late = int(answer.error_code) == InvalidRequest.kafka_code
            _check(answer, f"unregister broker {node_id}", may_pass=is_late)

        self._trying(ask)

    def _change(self, api_key: int, values: Values, doing: str) -> None:
        self._trying(lambda cluster: _check(cluster.ask(api_key, {"cluster_id": None, **values}), doing))

    def _trying(self, ask: Callable[[Cluster], _T]) -> _T:
        with Cluster(self._settings, self._timeout_s) as cluster:
            return cluster.trying(lambda: ask(cluster))


def _check(answer: Any, doing: str, *, may_pass: bool = False) -> None:
    """Raise the refusal in an answer, in the words of the node that refused."""
    code = int(answer.error_code)
    if code == 0:
        return
    message = getattr(answer, "error_message", None) or words_of(code)
    refusal = refusal_of(code, f"cannot {doing}: {message}")
    if may_pass or is_passing(code):
        raise Passing(str(refusal)) from refusal
    raise refusal


def _describe(cluster: Cluster) -> ClusterInfo:
    answer = cluster.ask(DESCRIBE_CLUSTER.key, {"endpoint_type": 1, "include_fenced_brokers": True})
    _check(answer, "describe the cluster")
    topics = cluster.ask(METADATA.key, {"topics": None, "allow_auto_topic_creation": False}).topics
    brokers = [
        BrokerInfo(int(b.broker_id), str(b.host), int(b.port), b.rack, bool(getattr(b, "is_fenced", False)))
        for b in answer.brokers
    ]
    controller_id = int(answer.controller_id)
    return ClusterInfo(
        cluster_id=str(answer.cluster_id),
        controller_id=None if controller_id == _NOBODY else controller_id,
        brokers=sorted(brokers, key=lambda broker: broker.node_id),
        partitions=[_place(str(topic.name), each) for topic in topics for each in topic.partitions],
    )


def _place(topic: str, partition: Any) -> PartitionPlace:
    leader = int(partition.leader_id)
    return PartitionPlace(
        TopicPartition(topic, int(partition.partition_index)),
        None if leader == _NOBODY else leader,
        tuple(int(node) for node in partition.replica_nodes),
        tuple(int(node) for node in partition.isr_nodes),
    )


def _quorum(cluster: Cluster) -> QuorumInfo:
    wanted = [{"topic_name": _METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
    answer = cluster.ask(DESCRIBE_QUORUM.key, {"topics": wanted})
    _check(answer, "describe the quorum")
    found = answer.topics[0].partitions[0]
    _check(found, "describe the quorum")
    leader_id = int(found.leader_id)
    ends = {int(each.replica_id): int(each.log_end_offset) for each in found.current_voters}
    end = ends.get(leader_id, int(found.high_watermark))

    def replica(state: Any, *, is_voter: bool) -> QuorumReplicaInfo:
        lag = max(end - int(state.log_end_offset), 0)
        directory_id = getattr(state, "replica_directory_id", None)
        last_fetch_ms = int(getattr(state, "last_fetch_timestamp", -1))
        return QuorumReplicaInfo(int(state.replica_id), directory_id, lag, is_voter, last_fetch_ms)

    return QuorumInfo(
        leader_id=leader_id,
        epoch=int(found.leader_epoch),
        high_watermark=int(found.high_watermark),
        replicas=[replica(each, is_voter=True) for each in found.current_voters]
        + [replica(each, is_voter=False) for each in found.observers],
    )
