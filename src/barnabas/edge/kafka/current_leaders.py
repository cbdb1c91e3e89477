"""Who leads instead, in answers to Produce and Fetch (KIP-951): a client that was refused need not ask for metadata.

Looked up only for an answer that refuses a partition so. As in Kafka, a leader that is fenced is named without its
address, and a client gets the addresses of the listener that it came through.
"""

from collections.abc import Iterable
from typing import Final, TypeVar
from uuid import UUID

from barnabas.core.errors import FencedLeaderEpoch, NotLeaderOrFollower
from barnabas.services.broker import Broker
from barnabas.wire.endpoints import NodeEndpoint
from barnabas.wire.fetch import FetchedPartition
from barnabas.wire.produce import PartitionAnswer

NOT_LEADING: Final = frozenset({NotLeaderOrFollower.kafka_code})
NOT_LEADING_OR_FENCED: Final = NOT_LEADING | {FencedLeaderEpoch.kafka_code}
_UNKNOWN: Final = (-1, -1)

Answer = TypeVar("Answer", FetchedPartition, PartitionAnswer)


class CurrentLeaders:
    """The leaders of partitions, as the metadata of this node has them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def name(
        self, topics: Iterable[tuple[str | UUID | None, list[Answer]]], *, codes: frozenset[int], listener: str
    ) -> list[NodeEndpoint]:
        """Name the leader in each answer with one of these error codes; returns where those leaders are."""
        endpoints: dict[int, NodeEndpoint] = {}
        for topic, answers in topics:
            for index, answer in enumerate(answers):
                if answer.error_code in codes:
                    leader = self.find(topic, answer.partition)
                    answers[index] = answer._replace(current_leader=leader)
                    self.locate(leader[0], listener, endpoints)
        return list(endpoints.values())

    def find(self, topic: str | UUID | None, partition: int) -> tuple[int, int]:
        """The leader of a partition and its epoch."""
        image = self._broker.image
        found = image.topics_by_id.get(topic) if isinstance(topic, UUID) else image.topics.get(topic or "")
        state = None if found is None else found.partitions.get(partition)
        if found is None or state is None or (found.name, partition) in self._broker.logs.replicas.cut_off:
            return _UNKNOWN  # of a leader that is cut off nobody here knows who has taken its place
        return state.leader, state.leader_epoch

    def locate(self, leader_id: int, listener: str, endpoints: dict[int, NodeEndpoint]) -> None:
        """Add where a leader is, for clients of a listener."""
        node = self._broker.image.nodes.get(leader_id)
        if node is not None and not node.is_fenced and leader_id not in endpoints:
            endpoint = node.endpoint(listener)
            endpoints[leader_id] = NodeEndpoint(leader_id, endpoint.host, endpoint.port, node.rack)
