"""Groups: listing with lag, describing with members, resetting offsets, deleting."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from barnabas.core.access.resources import OPERATIONS, Operation, ResourceType
from barnabas.core.access.resources import group as group_resource
from barnabas.core.errors import BarnabasError, GroupIdNotFound, InvalidRequest, NonEmptyGroup
from barnabas.core.errors.codes import refusal_of
from barnabas.core.groups.embedded import MalformedEmbedded, parse_assignment
from barnabas.core.metadata.names import OFFSETS_TOPIC
from barnabas.core.model import TopicPartition
from barnabas.edge.http import models
from barnabas.edge.http.calling import Call, Param, Route
from barnabas.edge.http.context import Context, check
from barnabas.edge.http.problems import problem_of
from barnabas.edge.http.routes.topics import MAX_PAGE, PAGE, PAGING, VALIDATE
from barnabas.runtime.other_leaders import ListedOffset
from barnabas.services.lag import PartitionLag
from barnabas.services.reading import Ends
from barnabas.services.session import Session
from barnabas.wire.apis import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SHARE_GROUP_DESCRIBE,
)
from barnabas.wire.writing import Values

NAMES_UP_TO: Final = 9
"""The last version of the requests for offsets in which topics have names."""
SHARE: Final = "Share"
EMPTY: Final = ("Empty", "Dead")
LAG: Final = Param("lag", "boolean", "Measure the lag of those on the page that another node coordinates, too.")


async def list_groups(context: Context, call: Call) -> models.Groups:
    """A page of the groups of the whole cluster; the lag of those that are on it."""
    search, after = call.text("search").lower(), call.text("after")
    limit = call.number("limit", PAGE, at_least=1, at_most=MAX_PAGE)
    answers = await context.ask_all(call.session, LIST_GROUPS.key, {"states_filter": [], "types_filter": []})
    rows: dict[str, models.GroupRow] = {}
    errors: dict[int, str] = {}
    for node_id, answer in answers.items():
        try:
            if isinstance(answer, BarnabasError):
                raise answer
            check(answer.error_code)
        except BarnabasError as error:
            errors[node_id] = str(error)
            continue
        for each in answer.groups:
            if search in each.group_id.lower() and context.allows(
                call.session, Operation.DESCRIBE, group_resource(each.group_id)
            ):
                rows[each.group_id] = _row(context, node_id, each)
    names = sorted(rows)
    chosen = [name for name in names if name > after][:limit]
    is_more = bool(chosen) and names[-1] > chosen[-1]
    shown = [rows[name] for name in chosen]
    if call.flag("lag"):
        shown = [await _with_lag(context, call.session, row) for row in shown]
    return models.Groups(
        groups=shown,
        total=len(names),
        next=chosen[-1] if is_more else None,
        errors=errors,
    )


def _row(context: Context, node_id: int, each: Any) -> models.GroupRow:
    lag = context.lags.by_group.get(each.group_id)  # measured where it is coordinated: here, or not at all
    return models.GroupRow(
        group=each.group_id,
        state=each.group_state,
        type=each.group_type,
        protocol_type=each.protocol_type,
        coordinator=node_id,
        members=None if lag is None else lag.members,
        lag=None if lag is None else lag.lag,
        lag_seconds=None if lag is None else max(lag.max_age_ms, 0) / 1000,
    )


async def _with_lag(context: Context, session: Session, row: models.GroupRow) -> models.GroupRow:
    """A row with its lag; that of a group which another node coordinates is measured now."""
    if row.lag is not None:
        return row
    try:
        if row.type == SHARE:
            shared = await _shared_offsets(context, session, row.group, row.coordinator)
            return msgspec.structs.replace(row, lag=_sum_known(shared))
        committed = await committed_of(context, session, row.group, row.coordinator)
    except BarnabasError:
        return row  # the row says that it is not known
    lags = (await context.lags.measure_offsets(committed)).values()
    return msgspec.structs.replace(
        row,
        lag=sum(each.lag for each in lags),
        lag_seconds=max((max(each.age_ms, 0) / 1000 for each in lags), default=0.0),
    )


async def describe_group(context: Context, call: Call) -> models.Group:
    """A group: members and what they have, offsets, lag in records and in seconds."""
    name = call.path["group"]
    context.authorize(call.session, Operation.DESCRIBE, group_resource(name))
    coordinator = context.coordinator_of(name, of=OFFSETS_TOPIC)
    state, kind, protocol, members = await _members_of(context, call.session, name, coordinator)
    members = [_as_seen(context, call.session, member) for member in members]
    allowed = context.allowed(call.session, OPERATIONS[ResourceType.GROUP], group_resource(name))
    if kind == SHARE:
        shared = await _shared_offsets(context, call.session, name, coordinator)
        return models.Group(
            group=name,
            state=state,
            type=kind,
            protocol=protocol,
            coordinator=coordinator,
            members=members,
            offsets=shared,
            lag=_sum_known(shared),
            lag_seconds=None,
            allowed=allowed,
        )
    committed = await committed_of(context, call.session, name, coordinator)
    lags = await context.lags.measure_offsets(committed)
    holders = {
        (each.topic, number): member.member_id
        for member in members
        for each in member.assignment
        for number in each.partitions
    }
    offsets = [
        _offset(at, offset, lags.get(at), holders.get((at.topic, at.partition))) for at, offset in committed.items()
    ]
    return models.Group(
        group=name,
        state=state,
        type=kind,
        protocol=protocol,
        coordinator=coordinator,
        members=members,
        offsets=sorted(offsets, key=lambda each: (each.topic, each.partition)),
        lag=sum(each.lag for each in lags.values()),
        lag_seconds=max((max(each.age_ms, 0) / 1000 for each in lags.values()), default=0.0),
        allowed=allowed,
    )


async def _shared_offsets(context: Context, session: Session, name: str, coordinator: int) -> list[models.GroupOffset]:
    """Where a share group reads: before `committed` everything is done; how old the rest is, is not known."""
    values: Values = {"groups": [{"group_id": name, "topics": None}]}
    answer = await context.ask(session, coordinator, DESCRIBE_SHARE_GROUP_OFFSETS.key, values)
    (found,) = answer.groups
    check(found.error_code, found.error_message)
    offsets = [
        models.GroupOffset(
            topic=topic.topic_name,
            partition=int(part.partition_index),
            committed=int(part.start_offset),
            end_offset=None,
            lag=None if int(part.lag) < 0 else int(part.lag),
            lag_seconds=None,
        )
        for topic in found.topics
        if context.broker.access.sees_topic(session, Operation.DESCRIBE, topic.topic_name)
        for part in topic.partitions
        if not part.error_code and int(part.start_offset) >= 0
    ]
    return sorted(offsets, key=lambda each: (each.topic, each.partition))


def _sum_known(offsets: list[models.GroupOffset]) -> int:
    return sum(each.lag or 0 for each in offsets)


def _as_seen(context: Context, session: Session, member: models.Member) -> models.Member:
    """A member without topics that the caller may not see: another node tells this one of all."""
    sees = context.broker.access.sees_topic
    seen = [each for each in member.assignment if sees(session, Operation.DESCRIBE, each.topic)]
    return msgspec.structs.replace(member, assignment=seen)


def _offset(at: TopicPartition, committed: int, lag: PartitionLag | None, holder: str | None) -> models.GroupOffset:
    return models.GroupOffset(
        topic=at.topic,
        partition=at.partition,
        committed=committed,
        end_offset=None if lag is None else lag.end_offset,
        lag=None if lag is None else lag.lag,
        lag_seconds=None if lag is None or lag.age_ms < 0 else lag.age_ms / 1000,
        member_id=holder,
    )


async def _members_of(
    context: Context, session: Session, name: str, coordinator: int
) -> tuple[str, str, str, list[models.Member]]:
    """The state, the type, the protocol and the members of a group, of whichever type it is."""
    values: Values = {"group_ids": [name], "include_authorized_operations": False}
    answer = await context.ask(session, coordinator, CONSUMER_GROUP_DESCRIBE.key, values)
    (found,) = answer.groups
    if not found.error_code:
        members = [_consumer(each) for each in found.members]
        return found.group_state, "Consumer", found.assignor_name, members
    if int(found.error_code) != GroupIdNotFound.kafka_code:
        check(found.error_code, found.error_message)
    answer = await context.ask(session, coordinator, SHARE_GROUP_DESCRIBE.key, values)
    (shared,) = answer.groups
    if not shared.error_code:
        return shared.group_state, SHARE, shared.assignor_name, [_consumer(each) for each in shared.members]
    values = {"groups": [name], "include_authorized_operations": False}
    answer = await context.ask(session, coordinator, DESCRIBE_GROUPS.key, values)
    (classic,) = answer.groups
    if int(classic.error_code) != GroupIdNotFound.kafka_code:
        check(classic.error_code, getattr(classic, "error_message", None))
    if classic.error_code or classic.group_state == "Dead":
        raise GroupIdNotFound(f"there is no group '{name}'")
    return classic.group_state, "Classic", classic.protocol_data, [_classic(each) for each in classic.members]


def _consumer(each: Any) -> models.Member:
    return models.Member(
        member_id=each.member_id,
        instance_id=getattr(each, "instance_id", None),  # members of share groups have none
        client_id=each.client_id,
        host=each.client_host,
        assignment=[
            models.TopicPartitions(topic=part.topic_name, partitions=[int(number) for number in part.partitions])
            for part in each.assignment.topic_partitions
        ],
    )


def _classic(each: Any) -> models.Member:
    try:
        parsed: Mapping[str, tuple[int, ...]] = (
            parse_assignment(bytes(each.member_assignment)).partitions if each.member_assignment else {}
        )
    except MalformedEmbedded:
        parsed = {}  # a protocol of its own, as that of Kafka Connect
    return models.Member(
        member_id=each.member_id,
        instance_id=each.group_instance_id,
        client_id=each.client_id,
        host=each.client_host,
        assignment=[models.TopicPartitions(topic=topic, partitions=list(numbers)) for topic, numbers in parsed.items()],
    )


async def committed_of(context: Context, session: Session, name: str, coordinator: int) -> dict[TopicPartition, int]:
    """The offsets that a group has committed."""
    group = {"group_id": name, "member_id": None, "member_epoch": -1, "topics": None}
    values: Values = {"groups": [group], "require_stable": False}
    answer = await context.ask(session, coordinator, OFFSET_FETCH.key, values, max_version=NAMES_UP_TO)
    (found,) = answer.groups
    check(found.error_code)
    return {
        TopicPartition(topic.name, int(part.partition_index)): int(part.committed_offset)
        for topic in found.topics
        for part in topic.partitions
        if int(part.committed_offset) >= 0
        and context.broker.access.allows_topic(session, Operation.DESCRIBE, topic.name)
    }


async def reset_offsets(context: Context, call: Call) -> models.OffsetsReset:
    """Set the offsets of a group without members, or say what they would be."""
    name, wanted = call.path["group"], call.body
    context.check_writable(is_dry=wanted.validate_only)
    context.authorize(call.session, Operation.READ, group_resource(name))
    coordinator = context.coordinator_of(name, of=OFFSETS_TOPIC)
    try:
        state, kind, _, members = await _members_of(context, call.session, name, coordinator)
    except GroupIdNotFound:
        state, kind, members = "Empty", "Classic", []  # one that begins with these offsets
        if not wanted.topics:
            raise
    if kind == SHARE:
        raise InvalidRequest(f"'{name}' is a share group: its offsets are set with AlterShareGroupOffsets")
    if members or state not in EMPTY:
        raise NonEmptyGroup(
            f"group '{name}' has members ({state}): stop them first, or they would go on from where they are"
        )
    committed = await committed_of(context, call.session, name, coordinator)
    names = _chosen(context, wanted, committed)
    for topic in {each.topic for each in names}:
        context.broker.access.authorize_topic(call.session, Operation.READ, topic)
    targets = await _targets(context, wanted, names, committed)
    good = {at: offset for at, offset in targets.items() if not isinstance(offset, BarnabasError)}
    refused: dict[TopicPartition, BarnabasError] = {}
    if not wanted.validate_only and good:
        refused = await _commit(context, call.session, name, coordinator, good)
    offsets = [
        models.NewOffset(
            topic=at.topic,
            partition=at.partition,
            before=committed.get(at),
            after=None if isinstance(target, BarnabasError) or at in refused else target,
            error=problem_of(target)
            if isinstance(target, BarnabasError)
            else problem_of(refused[at])
            if at in refused
            else None,
        )
        for at, target in sorted(targets.items())
    ]
    return models.OffsetsReset(group=name, validate_only=wanted.validate_only, offsets=offsets)


def _chosen(
    context: Context, wanted: models.ResetOffsets, committed: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    topics = wanted.topics or sorted({each.topic for each in committed})
    if not topics:
        raise InvalidRequest("the group has no offsets: name the topics to set them for")
    names = [
        TopicPartition(topic, number)
        for topic in topics
        for number in sorted(context.broker.image.get_topic(topic).partitions)
        if not wanted.partitions or number in wanted.partitions
    ]
    if not names:
        raise InvalidRequest("no partition is left of those that were named")
    return names


async def _targets(
    context: Context,
    wanted: models.ResetOffsets,
    names: list[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int | BarnabasError]:
    """The offset that each partition would have: within the log, whatever was asked for."""
    if wanted.to in ("time", "offset", "shift") and wanted.value is None:
        raise InvalidRequest(f"to '{wanted.to}' needs a value")
    ends = await context.reader.ends(names)
    found: Mapping[TopicPartition, ListedOffset | BarnabasError] = {}
    if wanted.to == "time":
        found = await context.reader.find(names, max(wanted.value or 0, 0))
    targets: dict[TopicPartition, int | BarnabasError] = {}
    for name in names:
        end = ends[name]
        if isinstance(end, BarnabasError):
            targets[name] = end
            continue
        listed = found.get(name)
        if isinstance(listed, BarnabasError):
            targets[name] = listed
            continue
        targets[name] = _target(wanted, end, committed.get(name), None if listed is None else listed.offset)
    return targets


def _target(wanted: models.ResetOffsets, end: Ends, committed: int | None, by_time: int | None) -> int:
    value = wanted.value or 0
    if wanted.to == "earliest":
        return end.start_offset
    if wanted.to == "latest":
        return end.end_offset
    if wanted.to == "time":
        return end.end_offset if by_time is None or by_time < 0 else by_time
    aim = value if wanted.to == "offset" else (end.start_offset if committed is None else committed) + value
    return min(max(aim, end.start_offset), end.end_offset)


async def _commit(
    context: Context, session: Session, name: str, coordinator: int, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, BarnabasError]:
    topics: dict[str, list[Any]] = {}
    for at, offset in offsets.items():
        part = {
            "partition_index": at.partition,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        topics.setdefault(at.topic, []).append(part)
    values: Values = {
        "group_id": name,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": parts} for topic, parts in topics.items()],
    }
    answer = await context.ask(session, coordinator, OFFSET_COMMIT.key, values, max_version=NAMES_UP_TO)
    return {
        TopicPartition(topic.name, int(part.partition_index)): refusal_of(
            int(part.error_code), "the coordinator refused it: a member may have joined meanwhile"
        )
        for topic in answer.topics
        for part in topic.partitions
        if part.error_code
    }


async def delete_group(context: Context, call: Call) -> models.Changed:
    """Delete a group without members, with its offsets."""
    name, is_dry = call.path["group"], call.flag("validate_only")
    context.check_writable(is_dry=is_dry)
    context.authorize(call.session, Operation.DELETE, group_resource(name))
    coordinator = context.coordinator_of(name, of=OFFSETS_TOPIC)
    state, _, _, members = await _members_of(context, call.session, name, coordinator)
    if members or state not in EMPTY:
        raise NonEmptyGroup(f"group '{name}' has members ({state}): stop them first")
    if not is_dry:
        answer = await context.ask(call.session, coordinator, DELETE_GROUPS.key, {"groups_names": [name]})
        for each in answer.results:
            check(each.error_code, f"group '{name}' cannot be deleted")
    return models.Changed(name=name, validate_only=is_dry, changes=["the group and its offsets are deleted"])


async def delete_offsets(context: Context, call: Call) -> models.Changed:
    """Delete the offsets of a group for one topic."""
    name, topic, is_dry = call.path["group"], call.path["topic"], call.flag("validate_only")
    context.check_writable(is_dry=is_dry)
    context.authorize(call.session, Operation.DELETE, group_resource(name))
    context.broker.access.authorize_topic(call.session, Operation.READ, topic)
    coordinator = context.coordinator_of(name, of=OFFSETS_TOPIC)
    committed = await committed_of(context, call.session, name, coordinator)
    numbers = sorted(at.partition for at in committed if at.topic == topic)
    if not numbers:
        raise InvalidRequest(f"group '{name}' has no offsets for topic '{topic}'")
    if not is_dry:
        values: Values = {
            "group_id": name,
            "topics": [{"name": topic, "partitions": [{"partition_index": number} for number in numbers]}],
        }
        answer = await context.ask(call.session, coordinator, OFFSET_DELETE.key, values)
        check(answer.error_code)
        for part in (part for each in answer.topics for part in each.partitions):
            check(
                part.error_code, f"the offset of partition {int(part.partition_index)} cannot be deleted: it is in use"
            )
    return models.Changed(name=name, validate_only=is_dry, changes=[f"{len(numbers)} offsets of '{topic}' are deleted"])


ROUTES = (
    Route("GET", "/groups", list_groups, "Groups, a page at a time.", models.Groups, params=(*PAGING, LAG)),
    Route("GET", "/groups/{group}", describe_group, "One group.", models.Group),
    Route("DELETE", "/groups/{group}", delete_group, "Delete a group.", models.Changed, params=(VALIDATE,)),
    Route(
        "POST",
        "/groups/{group}/offsets",
        reset_offsets,
        "Set the offsets of a group without members.",
        models.OffsetsReset,
        takes=models.ResetOffsets,
    ),
    Route(
        "DELETE",
        "/groups/{group}/topics/{topic}",
        delete_offsets,
        "Delete the offsets of a group for one topic.",
        models.Changed,
        params=(VALIDATE,),
    ),
)
