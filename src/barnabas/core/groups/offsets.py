"""Committed offsets: who may commit, what is fetched, deleted, and what expires.

A commit comes from a member, which must be of the current generation or epoch, or in a consumer group of any epoch
since it has the partitions; or from outside of any group protocol (no member id, generation -1), which a group accepts
only while it has no members. An offset expires when it has not been in use for `offsets.retention.minutes`: counted
from when the group became empty, or from the commit in a simple group and for topics that a group of consumers no
longer reads (KIP-211).

A commit may be part of a transaction (KIP-447): then it is pending until the transaction ends, and a fetch of stable
offsets is told to retry.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from barnabas.core.coordination import Decision
from barnabas.core.errors import (
    BarnabasError,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    UnstableOffsetCommit,
)
from barnabas.core.groups.classic.decisions import find
from barnabas.core.groups.classic.state import ClassicSoft, ClassicState
from barnabas.core.groups.decision import Effects, GroupDecision
from barnabas.core.groups.groups import GroupOffsets, Groups
from barnabas.core.groups.offset_access import check_commit, is_without_members
from barnabas.core.groups.records import NO_EXPIRY, NO_TOPIC_ID, GroupEntry, GroupTombstone, OffsetRecord
from barnabas.core.groups.settings import OffsetsConfig
from barnabas.core.groups.subscriptions import CONSUMER_PROTOCOL
from barnabas.core.model import NO_EPOCH, NO_OFFSET

LAST_MS: Final = 2**63 - 1  # no record holds a later time
DEFAULT_RETENTION: Final = -1  # what a commit says that leaves its retention to the cluster

# For each partition asked for, in that order: None when it was done.
PartitionErrors: TypeAlias = tuple[BarnabasError | None, ...]


class NewOffset(NamedTuple):
    """An offset to commit: the next one to read."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str | None = None
    topic_id: UUID = NO_TOPIC_ID


class CommitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of a group, from a member or from outside the group."""

    group: str
    offsets: Sequence[NewOffset]
    generation: int = -1  # or the epoch of a member of a consumer group
    member_id: str = ""
    instance_id: str | None = None
    retention_ms: int = DEFAULT_RETENTION  # versions 2 to 4
    knows_epochs: bool = True  # from version 9
    is_transactional: bool = False


class FetchedOffset(NamedTuple):
    """What a group has committed for a partition; -1 when nothing."""

    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    error: BarnabasError | None = None


class WantedOffset(NamedTuple):
    """A partition whose offset is requested. With a topic id: only if it was committed for that topic."""

    topic: str
    partition: int
    topic_id: UUID = NO_TOPIC_ID


def commit(
    groups: Groups, soft: ClassicSoft, request: CommitRequest, *, config: OffsetsConfig, now_ms: int
) -> GroupDecision[PartitionErrors]:
    """OffsetCommit, TxnOffsetCommit. Raises refusals of the whole request; versions below 9 get `GroupIdNotFound` as
    `IllegalGeneration`.
    """
    effects = Effects()
    check_commit(
        groups,
        soft,
        request.group,
        generation=request.generation,
        member_id=request.member_id,
        instance_id=request.instance_id,
        knows_epochs=request.knows_epochs,
        effects=effects,
        partitions=((new.topic_id, new.partition) for new in request.offsets),
        is_transactional=request.is_transactional,
    )
    has_expiry = request.retention_ms != DEFAULT_RETENTION
    expire_time_ms = min(now_ms + request.retention_ms, LAST_MS) if has_expiry else NO_EXPIRY
    errors: list[BarnabasError | None] = []
    records: list[GroupEntry] = []
    for new in request.offsets:
        metadata = new.metadata or ""
        if len(metadata) > config.metadata_max_chars:
            errors.append(
                OffsetMetadataTooLarge(f"metadata of {len(metadata)} characters is over {config.metadata_max_chars}")
            )
            continue
        errors.append(None)
        records.append(
            OffsetRecord(
                request.group,
                new.topic,
                new.partition,
                new.offset,
                new.leader_epoch,
                metadata,
                now_ms,
                expire_time_ms,
                new.topic_id,
            )
        )
    return Decision(records, tuple(errors), effects.timers)


def fetch(
    groups: Groups,
    group: str,
    wanted: Iterable[WantedOffset] | None = None,
    *,
    must_be_stable: bool = False,
) -> list[FetchedOffset]:
    """OffsetFetch: of the requested partitions, or of all. `check_fetch` checks the caller.

    Offsets that an open transaction may change are refused if they `must_be_stable`.
    """
    unstable: Container[tuple[str, int]] = groups.pending_of(group) if must_be_stable and groups.pending else ()
    committed = groups.offsets_of(group)
    if wanted is None:
        found = [offset for _, partitions in sorted(committed.items()) for _, offset in sorted(partitions.items())]
        return [_fetched(offset.topic, offset.partition, offset, unstable) for offset in found]
    return [_fetched(want.topic, want.partition, _matching(committed, want), unstable) for want in wanted]


def all_of(groups: Groups, group: str) -> list[WantedOffset]:
    """Every partition that a group has committed an offset for, in order."""
    return [
        WantedOffset(topic, partition)
        for topic, partitions in sorted(groups.offsets_of(group).items())
        for partition in sorted(partitions)
    ]


def _matching(committed: GroupOffsets, want: WantedOffset) -> OffsetRecord | None:
    offset = committed.get(want.topic, {}).get(want.partition)
    if offset is None or NO_TOPIC_ID in (want.topic_id, offset.topic_id) or offset.topic_id == want.topic_id:
        return offset
    return None  # it was committed for an earlier topic of that name


def _fetched(
    topic: str, partition: int, offset: OffsetRecord | None, unstable: Container[tuple[str, int]]
) -> FetchedOffset:
    if (topic, partition) in unstable:
        error = UnstableOffsetCommit(f"a transaction has a pending offset for {topic}-{partition}")
        return FetchedOffset(topic, partition, error=error)
    if offset is None:
        return FetchedOffset(topic, partition)
    return FetchedOffset(topic, partition, offset.offset, offset.leader_epoch, offset.metadata)


def delete(
    groups: Groups, soft: ClassicSoft, group: str, partitions: Sequence[tuple[str, int]]
) -> GroupDecision[PartitionErrors]:
    """OffsetDelete: delete offsets of topics that the group does not read. Raises refusals of the whole request."""
    is_subscribed = _subscription_of(groups, soft, group)
    pending = groups.pending_of(group)
    records: list[GroupEntry] = []
    errors: list[BarnabasError | None] = []
    for topic, partition in partitions:
        if is_subscribed(topic):
            errors.append(GroupSubscribedToTopic(f"group '{group}' reads topic '{topic}'"))
            continue
        errors.append(None)
        if groups.find_offset(group, topic, partition) is not None or (topic, partition) in pending:
            records.append(GroupTombstone(OffsetRecord, (group, topic, partition)))
    return Decision(records, tuple(errors))


def _subscription_of(groups: Groups, soft: ClassicSoft, group: str) -> Callable[[str], bool]:
    """Whether a group reads a topic; refused if its subscriptions are unknown."""
    if group in groups.consumer:
        return groups.consumer[group].subscribed_topics().__contains__
    live = find(groups, soft, group)
    if live is None:
        if groups.type_of(group) is None:
            raise GroupIdNotFound(f"there is no group '{group}'")
        return _nothing
    if live.state is ClassicState.EMPTY:
        return _nothing
    if live.protocol_type != CONSUMER_PROTOCOL:
        raise NonEmptyGroup(f"group '{group}' has members whose subscriptions are unknown")
    topics = live.subscribed_topics()
    return _everything if topics is None else topics.__contains__


def _nothing(_: str) -> bool:
    return False


def _everything(_: str) -> bool:
    return True


def expire(
    groups: Groups, soft: ClassicSoft, group: str, *, config: OffsetsConfig, now_ms: int, limit: int | None = None
) -> GroupDecision[int]:
    """Delete the expired offsets of a group, and the group if it has neither offsets nor members. The reply is the
    number of offsets deleted; if it equals the limit there may be more.

    A share group never has offsets here: what it has done is elsewhere, and would be forgotten with it. As in Kafka it
    stays until somebody deletes it.
    """
    if group in groups.share:
        return Decision([], 0)
    expired = [*islice(_expired(groups, soft, group, config, now_ms), limit)]
    records: list[GroupEntry] = [
        GroupTombstone(OffsetRecord, (group, offset.topic, offset.partition)) for offset in expired
    ]
    kept = sum(map(len, groups.offsets_of(group).values())) - len(expired)
    if not kept and not groups.has_pending(group) and is_without_members(groups, soft, group):
        records += groups.tombstones_of_group(group)
    return Decision(records, len(expired))


def _expired(
    groups: Groups, soft: ClassicSoft, group: str, config: OffsetsConfig, now_ms: int
) -> Iterator[OffsetRecord]:
    unused_since_ms: int | None = None
    reads: Callable[[str], bool] = _nothing
    if group in groups.consumer:
        reads = groups.consumer[group].subscribed_topics().__contains__
    else:
        live = find(groups, soft, group)
        is_simple = live is None or not live.protocol_type  # somebody may have been given an id to join with
        if live is not None and live.state is ClassicState.EMPTY and not is_simple:
            unused_since_ms = live.state_time_ms
        elif live is not None and live.state is not ClassicState.EMPTY:
            topics = live.subscribed_topics() if live.state is ClassicState.STABLE else None
            if topics is None:
                return
            reads = topics.__contains__
    pending = groups.pending_of(group)
    for topic, partitions in sorted(groups.offsets_of(group).items()):
        for partition, offset in sorted(partitions.items()) if not reads(topic) else ():
            if (topic, partition) in pending:
                continue
            since_ms = offset.commit_time_ms if unused_since_ms is None else unused_since_ms
            limit_ms = since_ms + config.retention_ms if offset.expire_time_ms == NO_EXPIRY else offset.expire_time_ms
            if now_ms >= limit_ms:
                yield offset


def delete_topic(groups: Groups, topic: str, topic_id: UUID, *, limit: int | None = None) -> GroupDecision[int]:
    """Delete the offsets of a deleted topic, not those of a later topic of the same name.

    With a limit, about so many at most: the reply is their number, and if it is lower those were the last.
    """
    committed = (
        GroupTombstone(OffsetRecord, (group, topic, partition))
        for group, topics in groups.offsets.items()
        for partition, offset in topics.get(topic, {}).items()
        if offset.topic_id in (NO_TOPIC_ID, topic_id)
    )
    records: list[GroupEntry] = [*islice(committed, limit)]
    if limit is not None and len(records) >= limit:
        return Decision(records, len(records))
    records += [
        GroupTombstone(OffsetRecord, key)
        for key in sorted({key for keys in groups.pending.values() for key in keys})
        if key[1] == topic and groups.find_offset(*key) is None
    ]
    return Decision(records, len(records))
