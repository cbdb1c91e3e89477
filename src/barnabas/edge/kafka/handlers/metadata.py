"""Metadata, versions 0 to 13: the nodes of the cluster, its topics, and who leads their partitions.

Differs from Kafka: a topic that is created because it was asked for is there when the answer is, so it is in it, where
Kafka answers that it is not known yet; the node named as controller is the controller, not any node; topics come in
the order in which they are asked for.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from barnabas.core.errors import BarnabasError, InvalidRequest, UnknownTopicId, UnknownTopicOrPartition
from barnabas.core.metadata.image import Image, Node, Topic
from barnabas.core.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, check_topic_name, is_internal
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import operations
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values

LEADER_NOT_AVAILABLE: Final = 5
REPLICA_NOT_AVAILABLE: Final = 9
_NO_LEADER: Final = -1
_TOPIC_IDS_FROM: Final = 12  # the field is there from 10 on, but must not be used


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    may_see_operations = getattr(request, "include_topic_authorized_operations", False)
    allowed = operations.OF_TOPIC if may_see_operations else operations.NOT_ASKED
    if request.topics is None or (asked.version == 0 and not request.topics):
        topics = await _Topics(broker.image, asked.version, allowed).of(list(broker.image.topics.values()))
    else:
        topics = await _asked_for(broker, request, asked.version, allowed)
    sees_cluster = getattr(request, "include_cluster_authorized_operations", False)
    return {
        "throttle_time": 0,
        "brokers": [_broker(node) for node in broker.image.nodes.values()],
        "cluster_id": broker.image.cluster_id,
        "controller_id": broker.metadata.leader_id,
        "topics": topics,
        "cluster_authorized_operations": operations.OF_CLUSTER if sees_cluster else operations.NOT_ASKED,
        "error_code": 0,
    }


def _broker(node: Node) -> Values:
    return {"node_id": node.node_id, "host": node.host, "port": node.port, "rack": node.rack}


async def _asked_for(broker: Broker, request: Any, version: int, allowed: int) -> list[Values]:
    names: dict[str, None] = {}
    topic_ids: dict[UUID, None] = {}
    async for topic in in_turns(request.topics):
        topic_id = getattr(topic, "topic_id", None)
        if version < _TOPIC_IDS_FROM and (topic.name is None or topic_id is not None):
            return [_refused(each.name, InvalidRequest.kafka_code) async for each in in_turns(request.topics)]
        if topic_id is not None:
            topic_ids[topic_id] = None
        elif topic.name is not None:
            names[topic.name] = None
    if topic_ids:  # then names do not count, as in Kafka
        return await _by_id(broker.image, topic_ids, version, allowed)
    may_create = broker.config.auto_create_topics_enable and getattr(request, "allow_auto_topic_creation", True)
    refused = await _create_missing(broker, names, may_create=may_create)
    # Only now, as what was there before a topic was created may have changed meanwhile.
    answers = _Topics(broker.image, version, allowed)
    found: list[Values] = []
    async for name in in_turns(names):
        found_topic = broker.image.topics.get(name)
        code = refused.get(name, 0)
        if code or found_topic is None:
            found.append(_refused(name, code or UnknownTopicOrPartition.kafka_code, allowed=allowed))
        else:
            found.append(await answers.topic(found_topic))
    return found


async def _create_missing(broker: Broker, names: Iterable[str], *, may_create: bool) -> dict[str, int]:
    """Create topics that are not there, if that may be; the codes of those against which something stands."""
    codes: dict[str, int] = {}
    wanted: list[str] = []
    async for name in in_turns(names):
        if name in broker.image.topics:
            continue
        try:
            check_topic_name(name)
            if not may_create:
                raise UnknownTopicOrPartition(f"topic '{name}' does not exist")
            if name == OFFSETS_TOPIC:
                await broker.groups.create_topic()
            elif name == TRANSACTIONS_TOPIC:
                await broker.transactions.create_topic()
            else:
                wanted.append(name)
        except BarnabasError as error:
            codes[name] = error.kafka_code
    refused = await broker.topics.create_automatically(wanted) if wanted else {}
    async for name, refusal in in_turns(refused.items()):
        codes[name] = refusal.kafka_code
    return codes


async def _by_id(image: Image, topic_ids: Iterable[UUID], version: int, allowed: int) -> list[Values]:
    answers = _Topics(image, version, allowed)
    found: list[Values] = []
    async for topic_id in in_turns(topic_ids):
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            found.append(_refused(None, UnknownTopicId.kafka_code, topic_id=topic_id))
        else:
            found.append(await answers.topic(topic))
    return found


def _refused(
    name: str | None, error_code: int, *, topic_id: UUID | None = None, allowed: int = operations.NOT_ASKED
) -> Values:
    return {
        "error_code": error_code,
        "name": name,
        "topic_id": topic_id,
        "is_internal": name is not None and is_internal(name),
        "partitions": (),
        "topic_authorized_operations": allowed,
    }


class _Topics:
    """Topics as an answer has them. Thousands of partitions share few sets of replicas: each is looked at once."""

    def __init__(self, image: Image, version: int, allowed: int) -> None:
        self._nodes = image.nodes
        self._version = version
        self._allowed = allowed
        self._offline: dict[Sequence[int], Sequence[int]] = {}

    async def of(self, topics: Iterable[Topic]) -> list[Values]:
        return [await self.topic(topic) async for topic in in_turns(topics)]

    async def topic(self, topic: Topic) -> Values:
        return {
            "error_code": 0,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": is_internal(topic.name),
            "partitions": await self._partitions(topic),
            "topic_authorized_operations": self._allowed,
        }

    async def _partitions(self, topic: Topic) -> list[Values]:
        nodes, offline_of = self._nodes, self._offline
        partitions: list[Values] = []
        async for state in in_turns(list(topic.partitions.values())):
            replicas = state.replicas
            offline = offline_of.get(replicas)
            if offline is None:
                offline = offline_of[replicas] = tuple(node for node in replicas if node not in nodes)
            has_leader = state.leader in nodes
            partition: dict[str, Any] = {
                "error_code": 0 if has_leader else LEADER_NOT_AVAILABLE,
                "partition_index": state.partition,
                "leader_id": state.leader if has_leader else _NO_LEADER,
                "leader_epoch": state.leader_epoch,
                "replica_nodes": replicas,
                "isr_nodes": state.isr,
                "offline_replicas": offline,
            }
            if offline and self._version == 0:
                self._leave_out_offline(partition)
            partitions.append(partition)
        return partitions

    def _leave_out_offline(self, partition: dict[str, Any]) -> None:
        """Version 0 names no replica that is not there, and says so by an error."""
        for field in ("replica_nodes", "isr_nodes"):
            there = tuple(node for node in partition[field] if node in self._nodes)
            if len(there) < len(partition[field]) and not partition["error_code"]:
                partition["error_code"] = REPLICA_NOT_AVAILABLE
            partition[field] = there
