"""The cluster, its nodes, their settings, and the connections of the node that is asked."""

import asyncio
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from barnabas.core.access.resources import CLUSTER, OPERATIONS, Operation, ResourceType
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.records import NO_LEADER
from barnabas.edge.http import models
from barnabas.edge.http.calling import Call, Param, Route, whole
from barnabas.edge.http.context import Context, check
from barnabas.edge.http.problems import HttpRefusal
from barnabas.edge.http.routes.settings import settings_of
from barnabas.runtime.turns import in_turns
from barnabas.services.session import Session
from barnabas.wire.apis import DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS, DESCRIBE_QUORUM

SIZES_KEPT_S: Final = 5.0
BROKER_RESOURCE: Final = 4  # as DescribeConfigs numbers it
MAX_CONNECTIONS: Final = 1000


async def describe_cluster(context: Context, call: Call) -> models.Cluster:
    """The whole cluster."""
    context.authorize(call.session, Operation.DESCRIBE)
    broker = context.broker
    image = broker.image
    counts = await count(image, context)
    quorum = broker.metadata.quorum
    return models.Cluster(
        cluster_id=image.cluster_id or "",
        node_id=broker.config.node_id,
        controller_id=quorum.leader_id,
        version=own_version(),
        features=dict(image.features),
        counts=counts,
        quorum=await describe_quorum(context, call.session),
        is_writable=broker.config.http.http_write_enable,
        is_export_allowed=broker.config.http.http_export_enable,
        needs_login=context.login is not None,
        principal=str(call.session.principal),
        allowed=context.allowed(call.session, OPERATIONS[ResourceType.CLUSTER], CLUSTER),
    )


async def count(image: Image, context: Context) -> models.Counts:
    """How many there are of everything, and how many are not well."""
    partitions = lacking = short = offline = 0
    async for topic in in_turns(list(image.topics.values())):
        least = context.broker.live.topic_config(topic.name).min_insync_replicas
        for state in topic.partitions.values():
            partitions += 1
            lacking += len(state.isr) < len(state.replicas)
            short += len(state.isr) < min(least, len(state.replicas))
            offline += state.leader == NO_LEADER
    return models.Counts(
        nodes=len(image.nodes),
        topics=len(image.topics),
        partitions=partitions,
        under_replicated=lacking,
        under_min_isr=short,
        offline=offline,
    )


async def describe_quorum(context: Context, session: Session) -> models.Quorum:
    """The quorum as its leader knows it; as far as this node knows it if the leader does not answer."""
    known = context.broker.metadata.quorum
    found = models.Quorum(
        leader_id=known.leader_id, epoch=known.leader_epoch, high_watermark=known.high_watermark, members=[]
    )
    values = {
        "topics": [
            {
                "topic_name": METADATA_PARTITION.topic,
                "partitions": [{"partition_index": METADATA_PARTITION.partition}],
            }
        ]
    }
    try:
        answer = await context.calls.call(session, DESCRIBE_QUORUM.key, values)
        part = answer.topics[0].partitions[0]
        check(answer.error_code or part.error_code)
    except (BarnabasError, IndexError):
        return found
    voters = [_member(each, "voter", part) for each in part.current_voters]
    observers = [_member(each, "observer", part) for each in part.observers]
    return models.Quorum(
        leader_id=int(part.leader_id),
        epoch=int(part.leader_epoch),
        high_watermark=int(part.high_watermark),
        members=[*voters, *observers],
    )


def _member(each: Any, role: Any, part: Any) -> models.QuorumMember:
    end = max((int(voter.log_end_offset) for voter in part.current_voters), default=0)
    return models.QuorumMember(
        node_id=int(each.replica_id),
        role="leader" if int(each.replica_id) == int(part.leader_id) else role,
        log_end_offset=int(each.log_end_offset),
        lag=max(end - int(each.log_end_offset), 0),
        last_fetch_ms=_ms(each.last_fetch_timestamp),
        last_caught_up_ms=_ms(each.last_caught_up_timestamp),
    )


def _ms(value: Any) -> int:
    if value is None:
        return -1
    return round(value.timestamp() * 1000) if hasattr(value, "timestamp") else int(value)


async def list_nodes(context: Context, call: Call) -> list[models.Node]:
    """All nodes: where they are, what they lead and hold, and their disks."""
    context.authorize(call.session, Operation.DESCRIBE)
    answers = await context.ask_all(call.session, DESCRIBE_LOG_DIRS.key, {"topics": None})
    image = context.broker.image
    led: dict[int, int] = {}
    held: dict[int, int] = {}
    async for topic in in_turns(list(image.topics.values())):
        for state in topic.partitions.values():
            led[state.leader] = led.get(state.leader, 0) + 1
            for node_id in state.replicas:
                held[node_id] = held.get(node_id, 0) + 1
    voters = context.broker.metadata.voters.node_ids
    controller = context.broker.metadata.quorum.leader_id
    found = []
    for node_id, node in sorted(image.nodes.items()):
        size, total, free, error = _disk(answers.get(node_id))
        found.append(
            models.Node(
                node_id=node_id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                listeners=[
                    models.Listener(name=each.listener, host=each.host, port=each.port) for each in node.endpoints
                ],
                state="fenced" if node.is_fenced else "leaving" if node.is_leaving else "active",
                is_controller=node_id == controller,
                is_voter=node_id in voters,
                partitions_led=led.get(node_id, 0),
                replicas=held.get(node_id, 0),
                size_bytes=size,
                disk_total_bytes=total,
                disk_free_bytes=free,
                error=error,
            )
        )
    return found


def _disk(answer: Any) -> tuple[int, int, int, str | None]:
    if answer is None:
        return 0, -1, -1, "the node is fenced"
    if isinstance(answer, BarnabasError):
        return 0, -1, -1, str(answer)
    size, total, free = 0, -1, -1
    for result in answer.results:
        total, free = int(result.total_bytes), int(result.usable_bytes)
        size += sum(int(part.partition_size) for topic in result.topics for part in topic.partitions)
    return size, total, free, None


async def sizes_of(context: Context, session: Session) -> dict[tuple[str, int], dict[int, int]]:
    """The size of each replica of the cluster, by partition and node; asked of all nodes now and then."""
    async with context.sizing:
        loop = asyncio.get_running_loop()
        if loop.time() - context.sizes_at < SIZES_KEPT_S:
            return context.sizes
        answers = await context.ask_all(session, DESCRIBE_LOG_DIRS.key, {"topics": None})
        found: dict[tuple[str, int], dict[int, int]] = {}
        for node_id, answer in answers.items():
            if isinstance(answer, BarnabasError):
                continue
            topics = [(topic.name, topic.partitions) for result in answer.results for topic in result.topics]
            async for name, partitions in in_turns(topics):
                for part in partitions:
                    found.setdefault((name, int(part.partition_index)), {})[node_id] = int(part.partition_size)
        context.sizes, context.sizes_at = found, loop.time()
        return found


async def node_settings(context: Context, call: Call) -> models.Settings:
    """The settings of a node with their meaning."""
    context.authorize(call.session, Operation.DESCRIBE_CONFIGS)
    node_id = whole("node", call.path["node"], at_most=2**31 - 1)
    if node_id not in context.broker.image.nodes:
        raise HttpRefusal(404, f"there is no node {node_id}", code=InvalidRequest.kafka_code)
    values = {
        "resources": [{"resource_type": BROKER_RESOURCE, "resource_name": str(node_id), "configuration_keys": None}],
        "include_synonyms": False,
        "include_documentation": True,
    }
    answer = await context.ask(call.session, node_id, DESCRIBE_CONFIGS.key, values)
    return models.Settings(settings=settings_of(answer))


async def list_connections(context: Context, call: Call) -> models.Connections:
    """The clients that are connected to this node."""
    context.authorize(call.session, Operation.DESCRIBE)
    limit = call.number("limit", 100, at_least=1, at_most=MAX_CONNECTIONS)
    open_now = list(context.connections.open)
    return models.Connections(
        node_id=context.broker.config.node_id,
        total=len(open_now),
        connections=[_connection(each) for each in open_now[:limit]],
    )


def _connection(each: Any) -> models.Connection:
    session = each.session
    host, port = each.peer
    return models.Connection(
        client=f"{host}:{port}",
        listener=each.listener,
        client_id=None if session is None else session.client_id,
        software="" if session is None else " ".join(session.software).strip(),
        principal="" if session is None else str(session.principal),
    )


def own_version() -> str:
    """The version of this package."""
    try:
        return version("barnabas")
    except PackageNotFoundError:
        return "unknown"


ROUTES = (
    Route("GET", "/cluster", describe_cluster, "The cluster: nodes, topics, quorum, health.", models.Cluster),
    Route("GET", "/nodes", list_nodes, "All nodes.", list[models.Node]),
    Route("GET", "/nodes/{node}/settings", node_settings, "The settings of a node.", models.Settings),
    Route(
        "GET",
        "/connections",
        list_connections,
        "The clients of the node that is asked.",
        models.Connections,
        params=(Param("limit", "integer", "At most so many."),),
    ),
)
