"""Conversions between classic and consumer groups while their members are at work (KIP-848, both ways).

Owns what becomes of a group's state: up, when the first member of the new protocol joins a classic group of consumers;
down, when the last one leaves and classic members remain. Committed offsets belong to the name of the group and stay.

Up: a classic member keeps its id, its generation becomes its epoch, its assignment is what it has and is to have. Down:
what a member is to have becomes its assignment, the group's epoch its generation, and all are made to join again, for
the classic protocol knows no other way to deal out what is free. The runtime sees to what classic groups have besides
their record: `classic.reset` before an upgrade is applied, `classic.rebalance` after a downgrade.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from barnabas.core.errors import GroupIdNotFound
from barnabas.core.groups.classic_state import LiveGroup, LiveMember
from barnabas.core.groups.consumer_draft import NEVER_MS, Draft
from barnabas.core.groups.consumer_messages import ConsumerConfig
from barnabas.core.groups.consumer_state import Topics, group_tombstones, to_partitions
from barnabas.core.groups.decision import SESSION, Decision
from barnabas.core.groups.embedded import (
    EmbeddedAssignment,
    Malformed,
    Partitions,
    build_assignment,
    parse_assignment,
    parse_subscription,
    parse_version,
)
from barnabas.core.groups.records import (
    ClassicGroupRecord,
    ClassicMember,
    ClassicMemberMetadata,
    ConsumerCurrentMemberRecord,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetMemberRecord,
    GroupTombstone,
    TopicPartitions,
)
from barnabas.core.groups.subscriptions import CONSUMER_PROTOCOL


def is_downgrade(decision: Decision[object]) -> bool:
    """Whether a decision about a consumer group made it a classic one, whose members must now join again."""
    return any(isinstance(entry, ClassicGroupRecord) for entry in decision.records)


# Up.


def upgrade(draft: Draft, live: LiveGroup) -> None:
    """Write a classic group as a consumer group; refused when its members are no consumers that could go on in one."""
    if live.members:
        _check_upgrade(live, draft.config)
    draft.records.append(GroupTombstone(ClassicGroupRecord, (live.group,)))
    if not live.members:
        return
    protocol = live.protocol if live.protocol is not None else live.select_protocol()
    try:
        for member_id in sorted(live.members):
            _upgrade_member(draft, live, live.members[member_id], protocol)
    except Malformed as error:
        raise GroupIdNotFound(
            f"Cannot upgrade classic group {live.group} to consumer group because the embedded consumer protocol is "
            f"malformed: {error}."
        ) from None
    draft.write(ConsumerTargetEpochRecord(live.group, live.generation, NEVER_MS))
    draft.write(ConsumerGroupRecord(live.group, live.generation, draft.hash_metadata()))


def _check_upgrade(live: LiveGroup, config: ConsumerConfig) -> None:
    why = None
    if not config.upgrades:
        why = "online upgrade is disabled"
    elif live.protocol_type != CONSUMER_PROTOCOL:
        why = "the group does not use the consumer embedded protocol"
    elif len(live.members) > config.max_size:
        why = "the group size exceeds the consumer group maximum size"
    if why is not None:
        raise GroupIdNotFound(f"Cannot upgrade classic group {live.group} to consumer group because {why}.")


def _upgrade_member(draft: Draft, live: LiveGroup, member: LiveMember, protocol: str) -> None:
    subscription = parse_subscription(member.metadata_of(protocol))
    partitions = _free_of(draft, _assigned_of(live, member))
    assigned = to_partitions_by_id(partitions, draft.topics)
    member_id = member.member_id
    draft.write(
        ConsumerMemberRecord(
            live.group,
            member_id,
            member.instance_id,
            subscription.rack,
            member.client_id,
            member.client_host,
            tuple(sorted(set(subscription.topics))),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMemberMetadata(member.session_timeout_ms, member.protocols),
        ),
        ConsumerTargetMemberRecord(live.group, member_id, assigned),
        ConsumerCurrentMemberRecord(live.group, member_id, live.generation, live.generation, assigned=assigned),
    )
    draft.set_timer(SESSION, member_id, member.session_timeout_ms)


def _assigned_of(live: LiveGroup, member: LiveMember) -> Partitions:
    if not member.assignment:
        return {}
    assignment = parse_assignment(member.assignment)
    if assignment.user_data:
        raise GroupIdNotFound(
            f"Cannot upgrade classic group {live.group} to consumer group because an unsupported custom assignor is in "
            "use: its user data would be lost."
        )
    return assignment.partitions


def _free_of(draft: Draft, partitions: Partitions) -> Partitions:
    """Without what another member has already: an assignor of a client may have given a partition twice."""
    return {
        name: tuple(p for p in numbers if draft.state.owner_of(draft.topics[name].topic_id, p) is None)
        for name, numbers in partitions.items()
        if name in draft.topics
    }


def to_partitions_by_id(partitions: Partitions, topics: Topics) -> tuple[TopicPartitions, ...]:
    """Partitions by the ids of their topics, without those of topics that are not there."""
    by_id = {topics[name].topic_id: frozenset(numbers) for name, numbers in partitions.items() if name in topics}
    return to_partitions(by_id)


# Down.


def remove_or_downgrade(draft: Draft, member_ids: Sequence[str]) -> None:
    """Members are gone. If those that remain are all classic, so is the group from now on."""
    rest = [member for member_id, member in draft.state.members.items() if member_id not in member_ids]
    if not _may_downgrade(draft, rest):
        draft.remove_members(member_ids)
        return
    for member_id in member_ids:
        draft.cancel_timers(draft.state.members[member_id])
    downgrade(draft, rest)


def downgrade_if_due(draft: Draft) -> ClassicGroupRecord | None:
    """Make a group classic that has only classic members left; None when it has others."""
    members = list(draft.state.members.values())
    return downgrade(draft, members) if _may_downgrade(draft, members) else None


def _may_downgrade(draft: Draft, members: Sequence[ConsumerMemberRecord]) -> bool:
    return (
        draft.config.downgrades
        and 0 < len(members) <= draft.config.classic_max_size
        and all(member.classic is not None for member in members)
        and _select_protocol(members) is not None
    )


def downgrade(draft: Draft, members: Sequence[ConsumerMemberRecord]) -> ClassicGroupRecord:
    """Write a consumer group as a classic one of these members."""
    group = draft.state.group
    protocol = _select_protocol(members)
    assert protocol is not None
    names = {info.topic_id: name for name, info in draft.topics.items()}
    kept = tuple(_downgraded(draft, member, protocol, names) for member in members)
    record = ClassicGroupRecord(
        group, CONSUMER_PROTOCOL, draft.state.epoch, protocol, kept[0].member_id, draft.now_ms, kept
    )
    for member in members:
        draft.cancel_timers(member)
        assert member.classic is not None
        draft.set_timer(SESSION, member.member_id, member.classic.session_timeout_ms)
    draft.write(*group_tombstones(draft.state))
    draft.records.append(record)
    return record


def _downgraded(draft: Draft, member: ConsumerMemberRecord, protocol: str, names: Mapping[UUID, str]) -> ClassicMember:
    assert member.classic is not None
    metadata = next(offered.metadata for offered in member.classic.protocols if offered.name == protocol)
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        metadata,
        embed_assignment(draft.state.target_of(member.member_id), metadata, names),
    )


def embed_assignment(held: Sequence[TopicPartitions], metadata: bytes, names: Mapping[UUID, str]) -> bytes:
    """Partitions as a classic member reads them, in the version that it speaks itself."""
    partitions = {names[each.topic_id]: each.partitions for each in held if each.topic_id in names}
    return build_assignment(EmbeddedAssignment(parse_version(metadata), partitions))


def _select_protocol(members: Sequence[ConsumerMemberRecord]) -> str | None:
    """The assignor that most would take first of those that all have; None when there is none."""
    offers = [
        [offered.name for offered in member.classic.protocols] for member in members if member.classic is not None
    ]
    common = set(offers[0]).intersection(*offers[1:])
    votes = [next(name for name in offered if name in common) for offered in offers] if common else []
    return min(votes, key=lambda name: (-votes.count(name), votes.index(name)), default=None)
