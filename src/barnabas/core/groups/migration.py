"""Conversions between classic and consumer groups while they are in use (KIP-848, both ways).

Owns the conversion of a group's state: up, when the first member of the new protocol joins a classic group of
consumers; down, when the last one leaves and classic members remain. Committed offsets belong to the name of the group
and stay.

Up: a classic member keeps its id, its generation becomes its epoch, its assignment becomes both its current and its
target assignment. Down: a member's target becomes its assignment, the group epoch its generation, and all must join
again, since the classic protocol has no other way to assign free partitions. The soft state of classic groups, that is
waiting requests before an upgrade and the rebalance after a downgrade, is handled by `routing`.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from barnabas.core.errors import GroupIdNotFound
from barnabas.core.groups.classic.state import LiveGroup, LiveMember
from barnabas.core.groups.consumer.draft import NEVER_MS, Draft
from barnabas.core.groups.consumer.state import Topics, group_tombstones, to_partitions
from barnabas.core.groups.decision import SESSION, GroupDecision
from barnabas.core.groups.embedded import (
    EmbeddedAssignment,
    MalformedEmbedded,
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
from barnabas.core.groups.settings import ConsumerConfig
from barnabas.core.groups.subscriptions import CONSUMER_PROTOCOL

MAX_UPGRADED_BYTES: Final = 512 * 1024
"""The most bytes of the members' metadata and assignments: they are decoded in one step."""


def downgraded_to(decision: GroupDecision[object]) -> ClassicGroupRecord | None:
    """The classic group that a decision converted a consumer group into, whose members must now join again."""
    return next((entry for entry in decision.records if isinstance(entry, ClassicGroupRecord)), None)


# Up.


def upgrade(draft: Draft, live: LiveGroup) -> None:
    """Convert a classic group into a consumer group; refused if its members cannot continue in one."""
    if live.members:
        _check_upgrade(live, draft.config)
    draft.records.append(GroupTombstone(ClassicGroupRecord, (live.group,)))
    if not live.members:
        return
    protocol = live.protocol if live.protocol is not None else live.select_protocol()
    try:
        for member_id in sorted(live.members):
            _upgrade_member(draft, live, live.members[member_id], protocol)
    except MalformedEmbedded as error:
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
    elif _size_of(live) > MAX_UPGRADED_BYTES:
        why = f"the metadata and assignments of its members have {_size_of(live)} bytes, more than {MAX_UPGRADED_BYTES}"
    if why is not None:
        raise GroupIdNotFound(f"Cannot upgrade classic group {live.group} to consumer group because {why}.")


def _size_of(live: LiveGroup) -> int:
    protocols = (protocol for member in live.members.values() for protocol in member.protocols)
    return sum(len(each.metadata) for each in protocols) + sum(len(each.assignment) for each in live.members.values())


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
    """Remove partitions that another member already has: a client's assignor may have assigned one twice."""
    return {
        name: tuple(p for p in numbers if draft.state.owner_of(draft.topics[name].topic_id, p) is None)
        for name, numbers in partitions.items()
        if name in draft.topics
    }


def to_partitions_by_id(partitions: Partitions, topics: Topics) -> tuple[TopicPartitions, ...]:
    """Partitions by topic id, without those of unknown topics."""
    by_id = {topics[name].topic_id: frozenset(numbers) for name, numbers in partitions.items() if name in topics}
    return to_partitions(by_id)


# Down.


def remove_or_downgrade(draft: Draft, member_ids: Sequence[str]) -> None:
    """Remove members. If all that remain are classic, convert the group into a classic one."""
    rest = [member for member_id, member in draft.state.members.items() if member_id not in member_ids]
    if not _may_downgrade(draft, rest):
        draft.remove_members(member_ids)
        return
    for member_id in member_ids:
        draft.cancel_timers(draft.state.members[member_id])
    downgrade(draft, rest)


def downgrade_if_due(draft: Draft) -> ClassicGroupRecord | None:
    """Convert a group with only classic members left into a classic one; None if it has others."""
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
    """Convert a consumer group into a classic one with these members."""
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
    """Partitions encoded for a classic member, in the version that it uses itself."""
    partitions = {names[each.topic_id]: each.partitions for each in held if each.topic_id in names}
    return build_assignment(EmbeddedAssignment(parse_version(metadata), partitions))


def _select_protocol(members: Sequence[ConsumerMemberRecord]) -> str | None:
    """The assignor with the most votes among those that all members support; None if there is none."""
    offers = [
        [offered.name for offered in member.classic.protocols] for member in members if member.classic is not None
    ]
    common = set(offers[0]).intersection(*offers[1:])
    votes = [next(name for name in offered if name in common) for offered in offers] if common else []
    return min(votes, key=lambda name: (-votes.count(name), votes.index(name)), default=None)
