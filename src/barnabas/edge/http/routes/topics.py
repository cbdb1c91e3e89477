"""Topics: listing, describing, creating, altering, deleting, and who writes to them."""

from typing import Any, Final

from barnabas.core.access.resources import OPERATIONS, Operation, ResourceType
from barnabas.core.access.resources import group as group_resource
from barnabas.core.access.resources import topic as topic_resource
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.core.metadata.image import Topic
from barnabas.core.metadata.names import is_internal
from barnabas.core.metadata.records import NO_LEADER
from barnabas.core.metadata.topics import delete_topic
from barnabas.core.model import TopicPartition
from barnabas.edge.http import models
from barnabas.edge.http.calling import Call, Param, Route
from barnabas.edge.http.context import Context, check
from barnabas.edge.http.problems import HttpRefusal, problem_of
from barnabas.edge.http.routes.cluster import sizes_of
from barnabas.edge.http.routes.settings import settings_of
from barnabas.runtime.turns import in_turns
from barnabas.services.reading import Ends
from barnabas.services.session import Session
from barnabas.wire.apis import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_PRODUCERS,
    INCREMENTAL_ALTER_CONFIGS,
)
from barnabas.wire.writing import Values

TOPIC_RESOURCE: Final = 2  # as DescribeConfigs numbers it
TIMEOUT_MS: Final = 30_000
PAGE: Final = 100
MAX_PAGE: Final = 1000
SET, DELETE = 0, 1  # as IncrementalAlterConfigs numbers them
VALIDATE: Final = Param("validate_only", "boolean", "Only say what would be done.")
PAGING: Final = (
    Param("search", "string", "Only those whose name has this text in it."),
    Param("after", "string", "Those after this name: what the page before gave as next."),
    Param("limit", "integer", f"At most so many: {PAGE} if it is left out."),
)


async def list_topics(context: Context, call: Call) -> models.Topics:
    """A page of the topics that the caller may see, by name."""
    search, after = call.text("search").lower(), call.text("after")
    limit, shows_internal = call.number("limit", PAGE, at_least=1, at_most=MAX_PAGE), call.flag("internal")
    image = context.broker.image
    names = [
        name
        for name in sorted(image.topics)
        if search in name.lower()
        and (shows_internal or not is_internal(name))
        and context.broker.access.sees_topic(call.session, Operation.DESCRIBE, name)
    ]
    chosen = [name for name in names if name > after][:limit]
    sizes = await sizes_of(context, call.session)
    readers = _readers(context, call.session, set(chosen))
    image = context.broker.image
    rows = [
        _row(context, image.topics[name], sizes, readers.get(name, (0, 0)))
        async for name in in_turns(chosen)
        if name in image.topics
    ]
    is_more = bool(chosen) and bool(names) and names[-1] > chosen[-1]
    return models.Topics(topics=rows, total=len(names), next=chosen[-1] if is_more else None)


def _readers(context: Context, session: Session, names: set[str]) -> dict[str, tuple[int, int]]:
    """How many groups read each of these topics, and their lag, of those that this node coordinates."""
    found: dict[str, tuple[int, int]] = {}
    for group, lag in context.lags.by_group.items():
        by_topic: dict[str, int] = {}
        for (topic, _), each in lag.partitions.items():
            if topic in names:
                by_topic[topic] = by_topic.get(topic, 0) + each.lag
        if by_topic and context.allows(session, Operation.DESCRIBE, group_resource(group)):
            for topic, behind in by_topic.items():
                groups, total = found.get(topic, (0, 0))
                found[topic] = (groups + 1, total + behind)
    return found


def _row(
    context: Context, topic: Topic, sizes: dict[tuple[str, int], dict[int, int]], readers: tuple[int, int]
) -> models.TopicRow:
    states = topic.partitions.values()
    return models.TopicRow(
        name=topic.name,
        topic_id=str(topic.topic_id),
        is_internal=is_internal(topic.name),
        partitions=len(topic.partitions),
        replication_factor=topic.replication_factor,
        under_replicated=sum(len(state.isr) < len(state.replicas) for state in states),
        offline=sum(state.leader == NO_LEADER for state in states),
        size_bytes=sum(sizes.get((topic.name, state.partition), {}).get(state.leader, 0) for state in states),
        cleanup_policy=",".join(each.value for each in context.broker.live.topic_config(topic.name).log.cleanup_policy),
        bytes_in_per_second=context.history.rate_in(topic.name),
        groups=readers[0],
        lag=readers[1],
    )


async def describe_topic(context: Context, call: Call) -> models.Topic:
    """A topic: partitions with leader, ISR, offsets and sizes; settings; the groups that read it."""
    name = call.path["topic"]
    context.authorize(call.session, Operation.DESCRIBE, topic_resource(name))
    topic = context.broker.image.get_topic(name)
    ends = await context.reader.ends(TopicPartition(name, number) for number in topic.partitions)
    sizes = await sizes_of(context, call.session)
    partitions = [
        _partition(context, name, state, ends[TopicPartition(name, number)], sizes)
        async for number, state in in_turns(sorted(topic.partitions.items()))
    ]
    may_see = context.allows(call.session, Operation.DESCRIBE_CONFIGS, topic_resource(name))
    settings = await topic_settings(context, call.session, name) if may_see else []
    return models.Topic(
        name=name,
        topic_id=str(topic.topic_id),
        is_internal=is_internal(name),
        partitions=partitions,
        settings=settings,
        groups=_groups_of(context, call.session, name),
        allowed=context.allowed(call.session, OPERATIONS[ResourceType.TOPIC], topic_resource(name)),
    )


def _partition(
    context: Context, name: str, state: Any, ends: Ends | BarnabasError, sizes: dict[tuple[str, int], dict[int, int]]
) -> models.Partition:
    served = context.broker.served.by_name.get(name)
    here = None if served is None else served.partitions.get(state.partition)
    log = None if here is None else here.held_log
    is_known = isinstance(ends, Ends)
    return models.Partition(
        partition=state.partition,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        replicas=list(state.replicas),
        in_sync=list(state.isr),
        start_offset=ends.start_offset if isinstance(ends, Ends) else -1,
        end_offset=ends.end_offset if isinstance(ends, Ends) else -1,
        sizes={node: size for node, size in sizes.get((name, state.partition), {}).items() if node in state.replicas},
        segments=None if log is None else len(log.segments),
        error=None if is_known or not isinstance(ends, BarnabasError) else problem_of(ends),
    )


def _groups_of(context: Context, session: Session, name: str) -> list[models.GroupOfTopic]:
    """The groups with offsets in a topic, of those that this node coordinates."""
    found = []
    for group, lag in context.lags.by_group.items():
        parts = [each for (topic, _), each in lag.partitions.items() if topic == name]
        if parts and context.allows(session, Operation.DESCRIBE, group_resource(group)):
            oldest = max(each.age_ms for each in parts)
            found.append(
                models.GroupOfTopic(group=group, lag=sum(each.lag for each in parts), lag_seconds=max(oldest, 0) / 1000)
            )
    return found


async def topic_settings(context: Context, session: Session, name: str) -> list[models.Setting]:
    """All settings of a topic with their meaning."""
    values: Values = {
        "resources": [{"resource_type": TOPIC_RESOURCE, "resource_name": name, "configuration_keys": None}],
        "include_synonyms": False,
        "include_documentation": True,
    }
    return settings_of(await context.calls.call(session, DESCRIBE_CONFIGS.key, values))


async def create_topic(context: Context, call: Call) -> models.Changed:
    """Create a topic, or say what would be created."""
    new: models.NewTopic = call.body
    context.check_writable(is_dry=new.validate_only)
    values: Values = {
        "topics": [
            {
                "name": new.name,
                "num_partitions": -1 if new.partitions is None else new.partitions,
                "replication_factor": -1 if new.replication_factor is None else new.replication_factor,
                "assignments": [],
                "configs": [{"name": name, "value": value} for name, value in new.settings.items()],
            }
        ],
        "timeout": TIMEOUT_MS,
        "validate_only": new.validate_only,
    }
    answer = await context.calls.call(call.session, CREATE_TOPICS.key, values)
    (topic,) = answer.topics
    check(topic.error_code, topic.error_message)
    changes = [f"{int(topic.num_partitions)} partitions", f"replication factor {int(topic.replication_factor)}"]
    changes += [f"{name}={value}" for name, value in new.settings.items()]
    return models.Changed(name=new.name, validate_only=new.validate_only, changes=changes)


async def alter_topic(context: Context, call: Call) -> models.Changed:
    """Add partitions, set settings, or take them back (null)."""
    name, wanted = call.path["topic"], call.body
    context.check_writable(is_dry=wanted.validate_only)
    if wanted.partitions is None and not wanted.settings:
        raise InvalidRequest("nothing is to be altered: name partitions or settings")
    changes: list[str] = []
    if wanted.settings:
        # Both are checked before either is done.
        for is_dry in (
            (True, False) if not wanted.validate_only and wanted.partitions is not None else (wanted.validate_only,)
        ):
            await _alter_settings(context, call.session, name, wanted.settings, is_dry=is_dry)
            if is_dry and wanted.partitions is not None:
                await _add_partitions(context, call.session, name, wanted.partitions, is_dry=True)
        changes += [
            f"{key} back to its default" if value is None else f"{key}={value}"
            for key, value in wanted.settings.items()
        ]
    if wanted.partitions is not None:
        await _add_partitions(context, call.session, name, wanted.partitions, is_dry=wanted.validate_only)
        changes.append(f"{wanted.partitions} partitions")
    return models.Changed(name=name, validate_only=wanted.validate_only, changes=changes)


async def _alter_settings(
    context: Context, session: Session, name: str, settings: dict[str, str | None], *, is_dry: bool
) -> None:
    configs: list[Any] = [
        {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
        for key, value in settings.items()
    ]
    values: Values = {
        "resources": [{"resource_type": TOPIC_RESOURCE, "resource_name": name, "configs": configs}],
        "validate_only": is_dry,
    }
    answer = await context.calls.call(session, INCREMENTAL_ALTER_CONFIGS.key, values)
    for each in answer.responses:
        check(each.error_code, each.error_message)


async def _add_partitions(context: Context, session: Session, name: str, count: int, *, is_dry: bool) -> None:
    values: Values = {
        "topics": [{"name": name, "count": count, "assignments": None}],
        "timeout": TIMEOUT_MS,
        "validate_only": is_dry,
    }
    answer = await context.calls.call(session, CREATE_PARTITIONS.key, values)
    for each in answer.results:
        check(each.error_code, each.error_message)


async def remove_topic(context: Context, call: Call) -> models.Changed:
    """Delete a topic with all its records, or say what would go."""
    name, is_dry = call.path["topic"], call.flag("validate_only")
    context.check_writable(is_dry=is_dry)
    context.authorize(call.session, Operation.DELETE, topic_resource(name))
    topic = context.broker.image.get_topic(name)
    if is_dry:
        context.broker.topics.check_deletable()
        delete_topic(context.broker.image, name)
    else:
        values: Values = {"topics": [{"name": name, "topic_id": None}], "timeout": TIMEOUT_MS}
        answer = await context.calls.call(call.session, DELETE_TOPICS.key, values)
        for each in answer.responses:
            check(each.error_code, each.error_message)
    changes = [f"{len(topic.partitions)} partitions and all records of them are deleted"]
    return models.Changed(name=name, validate_only=is_dry, changes=changes)


async def list_producers(context: Context, call: Call) -> models.Producers:
    """The producers that the partitions of a topic remember."""
    name = call.path["topic"]
    context.authorize(call.session, Operation.READ, topic_resource(name))
    topic = context.broker.image.get_topic(name)
    by_leader: dict[int, list[int]] = {}
    for number, state in sorted(topic.partitions.items()):
        by_leader.setdefault(state.leader, []).append(number)
    found: list[models.Producer] = []
    errors: dict[int, str] = {}
    for leader, numbers in by_leader.items():
        values: Values = {"topics": [{"name": name, "partition_indexes": numbers}]}
        try:
            if leader == NO_LEADER:
                raise HttpRefusal(503, "nobody leads it", code=5)
            answer = await context.ask(call.session, leader, DESCRIBE_PRODUCERS.key, values)
        except (BarnabasError, HttpRefusal) as error:
            errors |= dict.fromkeys(numbers, str(error))
            continue
        for part in (part for each in answer.topics for part in each.partitions):
            if part.error_code:
                errors[int(part.partition_index)] = part.error_message or f"error {int(part.error_code)}"
            found += [_producer(int(part.partition_index), each) for each in part.active_producers]
    return models.Producers(producers=found, errors=errors)


def _producer(partition: int, each: Any) -> models.Producer:
    start = int(each.current_txn_start_offset)
    return models.Producer(
        partition=partition,
        producer_id=int(each.producer_id),
        producer_epoch=int(each.producer_epoch),
        last_sequence=int(each.last_sequence),
        last_timestamp=int(each.last_timestamp),
        transaction_start_offset=None if start < 0 else start,
    )


ROUTES = (
    Route(
        "GET",
        "/topics",
        list_topics,
        "Topics, a page at a time.",
        models.Topics,
        params=(*PAGING, Param("internal", "boolean", "Those of the broker itself, too.")),
    ),
    Route("POST", "/topics", create_topic, "Create a topic.", models.Changed, takes=models.NewTopic, status=201),
    Route("GET", "/topics/{topic}", describe_topic, "One topic.", models.Topic),
    Route("PATCH", "/topics/{topic}", alter_topic, "Alter a topic.", models.Changed, takes=models.AlterTopic),
    Route("DELETE", "/topics/{topic}", remove_topic, "Delete a topic.", models.Changed, params=(VALIDATE,)),
    Route("GET", "/topics/{topic}/producers", list_producers, "The producers of a topic.", models.Producers),
)
