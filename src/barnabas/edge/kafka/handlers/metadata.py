"""Metadata, versions 0 to 13: the nodes of the cluster, its topics, and the leaders of their partitions.

Differs from Kafka: a topic that is created automatically is part of the answer, where Kafka answers that it is not
known yet, unless there is no controller to create it; the node named as controller is the one that answers, where
Kafka names any, as either forwards changes (DescribeCluster and DescribeQuorum name the controller); topics are in the
order of the request. As in Kafka fenced nodes are left out, and a client gets the addresses of the listener that it
connected to; for a node without one of that name it gets the first, where Kafka leaves the node out. Of partitions that
this node leads while it is cut off from the others it names who most likely leads them by now (decision 25).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.access.resources import topic as topic_of
from barnabas.core.errors import (
    BarnabasError,
    InvalidRequest,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from barnabas.core.metadata.electing import stand_in
from barnabas.core.metadata.image import Node, Topic
from barnabas.core.metadata.names import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    check_topic_name,
    is_internal,
)
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import operations
from barnabas.edge.kafka.handlers.alive import alive_ids, alive_nodes, node_for_changes
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire.apis import METADATA

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import metadata as message

LEADER_NOT_AVAILABLE: Final = 5
REPLICA_NOT_AVAILABLE: Final = 9
_NO_LEADER: Final = -1
_TOPIC_IDS_FROM: Final = 12  # the field is there from 10 on, but must not be used


@serves(METADATA, 0, 13)
async def handle(broker: Broker, request: message.MetadataRequest, asked: Asked) -> message.MetadataResponse:
    """See the module."""
    if request.topics is None or (asked.version == 0 and not request.topics):
        names = list(broker.image.topics)
        if not broker.access.is_open:
            sees, session = broker.access.sees_topic, asked.session
            names = [name async for name in in_turns(names) if sees(session, Operation.DESCRIBE, name)]
        topics = await _Topics(broker, request, asked).of(names)
    else:
        topics = await _asked_for(broker, request, asked)
    return {
        "brokers": [_broker(node, asked.session.listener) for node in alive_nodes(broker.image)],
        "cluster_id": broker.image.cluster_id,
        "controller_id": node_for_changes(broker),
        "topics": topics,
        "cluster_authorized_operations": operations.allowed_on_cluster(
            broker.access, asked.session, is_asked=request.include_cluster_authorized_operations
        ),
        "error_code": 0,
    }


def _broker(node: Node, listener: str) -> message.MetadataResponseBroker:
    endpoint = node.endpoint(listener)
    return {"node_id": node.node_id, "host": endpoint.host, "port": endpoint.port, "rack": node.rack}


def _may_see(broker: Broker, session: Session, name: str) -> bool:
    return broker.access.allows_topic(session, Operation.DESCRIBE, name)


async def _asked_for(
    broker: Broker, request: message.MetadataRequest, asked: Asked
) -> list[message.MetadataResponseTopic]:
    version = asked.version
    wanted = request.topics or ()
    names: dict[str, None] = {}
    topic_ids: dict[UUID, None] = {}
    async for topic in in_turns(wanted):
        topic_id = topic.topic_id
        if version < _TOPIC_IDS_FROM and (topic.name is None or topic_id is not None):
            return [_refused(each.name, InvalidRequest.kafka_code) async for each in in_turns(wanted)]
        if topic_id is not None:
            topic_ids[topic_id] = None
        elif topic.name is not None:
            names[topic.name] = None
    if topic_ids:  # then names do not count, as in Kafka
        return await _by_id(broker, topic_ids, request, asked)
    may_create = broker.config.auto_create_topics_enable and request.allow_auto_topic_creation
    refused = await _create_missing(broker, names, asked.session, may_create=may_create)
    # Only now, as what was there before a topic was created may have changed meanwhile.
    answers = _Topics(broker, request, asked)
    found: list[message.MetadataResponseTopic] = []
    async for name in in_turns(names):
        found_topic = broker.image.topics.get(name)
        code = refused.get(name, 0)
        if code == TopicAuthorizationFailed.kafka_code:
            found.append(_refused(name, code))
        elif code or found_topic is None:
            code = code or UnknownTopicOrPartition.kafka_code
            found.append(_refused(name, code, allowed=answers.allowed_on(name)))
        else:
            found.append(await answers.topic(found_topic))
    return found


async def _create_missing(
    broker: Broker, names: Iterable[str], session: Session, *, may_create: bool
) -> dict[str, int]:
    """Create missing topics, if allowed; returns the error codes of those that cannot be created."""
    codes: dict[str, int] = {}
    wanted: list[str] = []
    async for name in in_turns(names):
        if not _may_see(broker, session, name):
            codes[name] = TopicAuthorizationFailed.kafka_code
            continue
        if name in broker.image.topics:
            continue
        try:
            check_topic_name(name)
            if not may_create:
                raise UnknownTopicOrPartition(f"topic '{name}' does not exist")
            if not broker.access.allows_unnamed(session, Operation.CREATE, CLUSTER):
                broker.access.authorize(session, Operation.CREATE, topic_of(name))
            if name == OFFSETS_TOPIC:
                await broker.groups.create_topic()
            elif name == TRANSACTIONS_TOPIC:
                await broker.transactions.create_topic()
            elif name == SHARE_STATE_TOPIC:
                await broker.shares.states.create_topic()
            else:
                wanted.append(name)
        except BarnabasError as error:
            codes[name] = error.kafka_code
    if wanted and broker.quotas.is_on and (broker.link is None or broker.link.is_here):  # else the controller counts
        new_count = len(wanted) * broker.live.current.num_partitions
        broker.quotas.mutate(session, new_count, is_strict=False)
    refused = await broker.topics.create_automatically(wanted, caller=session) if wanted else {}
    async for name, refusal in in_turns(refused.items()):
        codes[name] = refusal.kafka_code
    return codes


async def _by_id(
    broker: Broker, topic_ids: Iterable[UUID], request: message.MetadataRequest, asked: Asked
) -> list[message.MetadataResponseTopic]:
    answers = _Topics(broker, request, asked)
    found: list[message.MetadataResponseTopic] = []
    async for topic_id in in_turns(topic_ids):
        topic = broker.image.topics_by_id.get(topic_id)
        if topic is None:
            found.append(_refused(None, UnknownTopicId.kafka_code, topic_id=topic_id))
        elif not _may_see(broker, asked.session, topic.name):
            found.append(_refused(None, TopicAuthorizationFailed.kafka_code, topic_id=topic_id))
        else:
            found.append(await answers.topic(topic))
    return found


def _refused(
    name: str | None, error_code: int, *, topic_id: UUID | None = None, allowed: int = operations.NOT_ASKED
) -> message.MetadataResponseTopic:
    return {
        "error_code": error_code,
        "name": name,
        "topic_id": topic_id,
        "is_internal": name is not None and is_internal(name),
        "partitions": (),
        "topic_authorized_operations": allowed,
    }


class _Topics:
    """The topics of an answer. Thousands of partitions share few sets of replicas: each is encoded once."""

    def __init__(self, broker: Broker, request: message.MetadataRequest, asked: Asked) -> None:
        self._nodes = alive_ids(broker.image)
        self._broker = broker
        self._version = asked.version
        self._session = asked.session
        self._tells_operations = request.include_topic_authorized_operations
        self._offline: dict[Sequence[int], Sequence[int]] = {}

    async def of(self, names: Iterable[str]) -> list[message.MetadataResponseTopic]:
        """The answers for those of these topics that still exist when their turn comes."""
        return [
            await self.topic(topic)
            async for name in in_turns(names)
            if (topic := self._broker.image.topics.get(name)) is not None
        ]

    async def topic(self, topic: Topic) -> message.MetadataResponseTopic:
        """A topic that was just looked up. What is taken of it before the first turn ends are values."""
        return {
            "error_code": 0,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": is_internal(topic.name),
            "partitions": await self._partitions(topic),
            "topic_authorized_operations": self.allowed_on(topic.name),
        }

    def allowed_on(self, name: str) -> int:
        """The authorized operations on a topic that the client may see, if requested."""
        if not self._tells_operations:
            return operations.NOT_ASKED
        return operations.allowed_on(self._broker.access, self._session, topic_of(name))

    async def _partitions(self, topic: Topic) -> list[message.MetadataResponsePartition]:
        nodes, offline_of, cut_off = self._nodes, self._offline, self._broker.logs.replicas.cut_off
        partitions: list[message.MetadataResponsePartition] = []
        async for state in in_turns(list(topic.partitions.values())):
            replicas = state.replicas
            offline = offline_of.get(replicas)
            if offline is None:
                offline = offline_of[replicas] = tuple(node for node in replicas if node not in nodes)
            leader = state.leader
            if cut_off and (topic.name, state.partition) in cut_off:
                leader = stand_in(self._broker.image, state)
            has_leader = leader in nodes
            partition: message.MetadataResponsePartition = {
                "error_code": 0 if has_leader else LEADER_NOT_AVAILABLE,
                "partition_index": state.partition,
                "leader_id": leader if has_leader else _NO_LEADER,
                "leader_epoch": state.leader_epoch,
                "replica_nodes": replicas,
                "isr_nodes": state.isr,
                "offline_replicas": offline,
            }
            if offline and self._version == 0:
                self._leave_out_offline(partition)
            partitions.append(partition)
        return partitions

    def _leave_out_offline(self, partition: message.MetadataResponsePartition) -> None:
        """Version 0 leaves out offline replicas, and has an error code for that."""
        for field in ("replica_nodes", "isr_nodes"):
            there = tuple(node for node in partition[field] if node in self._nodes)
            if len(there) < len(partition[field]) and not partition["error_code"]:
                partition["error_code"] = REPLICA_NOT_AVAILABLE
            partition[field] = there
