"""Administration of groups: their members, their lag, and resetting their offsets.

Owns the description of a group, with its lag in records and in seconds. Everything goes through librdkafka's admin
client, but share groups, which it does not know, and what is unread, for which batches are looked at (`client.lag`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import confluent_kafka
from confluent_kafka import admin as kafka_admin

from barnabas.client.asking import Asking
from barnabas.client.errors import translate
from barnabas.client.group_infos import GroupDetails, GroupInfo, GroupMember, OffsetChange, PartitionLag
from barnabas.client.topics import EARLIEST, LATEST, Topics
from barnabas.core.errors import GroupIdNotFound, InvalidRequest, NonEmptyGroup, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records.unread import Unread

if TYPE_CHECKING:
    from barnabas.client.share_groups import ShareGroups

Offsets: TypeAlias = Mapping[TopicPartition, int]
Measure: TypeAlias = Callable[[Offsets, Offsets, Offsets], Mapping[TopicPartition, Unread]]
"""What is unread: of these offsets, with where the logs begin and end."""
To: TypeAlias = Literal["earliest", "latest"] | int

_NO_OFFSET: Final = -1
_api: Any = kafka_admin  # its names are not exported the way type checkers ask for


class Groups:
    """The groups of one cluster."""

    def __init__(
        self,
        admin: kafka_admin.AdminClient,
        topics: Topics,
        measure: Measure,
        shares: Callable[[], "ShareGroups"],
        timeout_s: float,
    ) -> None:
        self._admin = admin
        self._shares = shares
        self._topics = topics
        self._measure = measure
        self._timeout_s = timeout_s
        self._asking = Asking(timeout_s)

    def list_all(self) -> list[GroupInfo]:
        doing = "list the groups"
        found = self._asking.wait(self._asking.ask(self._admin.list_consumer_groups, doing=doing), doing)
        if found.errors:
            raise translate(found.errors[0], doing)
        groups = [
            GroupInfo(each.group_id, _state(each.state), each.type.name.lower(), each.is_simple_consumer_group)
            for each in found.valid
        ]
        return sorted([*groups, *self._shares().list_all()], key=lambda group: group.name)

    def describe(self, name: str) -> GroupDetails:
        described = self._describe(name)
        if described is None:
            shared = self._shares().find(name)
            if shared is None:
                raise GroupIdNotFound(f"group {name!r} does not exist")
            return shared
        members = tuple(_member(each) for each in described.members)
        owners = {partition: member.member_id for member in members for partition in member.partitions}
        committed = self._committed(name)
        keys = sorted({*committed, *owners})
        starts, ends = self._bounds(keys)
        unread = self._measure({key: committed[key] for key in committed if key in ends}, starts, ends)
        lags = tuple(_lag(key, committed.get(key), ends[key], unread.get(key), owners.get(key)) for key in ends)
        group_type = described.type.name.lower() if described.type is not None else "classic"
        return GroupDetails(name, _state(described.state), group_type, described.partition_assignor, members, lags)

    def delete(self, name: str) -> None:
        doing = f"delete group {name!r}"
        self._asking.wait(self._asking.ask(self._admin.delete_consumer_groups, [name], doing=doing)[name], doing)

    def reset(
        self,
        name: str,
        *,
        to: To | None,
        timestamp_ms: int | None,
        shift_by: int | None,
        topics: Sequence[str] | None,
        dry_run: bool,
    ) -> list[OffsetChange]:
        """Move a group's offsets, within the range of each log; returns the changes, made or only planned."""
        if sum(each is not None for each in (to, timestamp_ms, shift_by)) != 1:
            raise InvalidRequest("give one of: to, timestamp_ms, shift_by")
        committed = self._committed(name)
        keys = self._chosen(name, committed, topics)
        if not dry_run:
            self._check_without_members(name)
        starts, ends = self._bounds(keys)
        missing = [key for key in keys if key not in ends]
        if missing:
            raise UnknownTopicOrPartition(f"group {name!r} has offsets of {missing[0]}, which does not exist")
        wanted = self._wanted(keys, committed, starts, ends, to=to, timestamp_ms=timestamp_ms, shift_by=shift_by)
        changes = [
            OffsetChange(*key, committed.get(key), min(max(wanted[key], starts[key]), ends[key])) for key in keys
        ]
        if not dry_run:
            self._alter(name, changes)
        return changes

    # Parts of a description

    def _describe(self, name: str) -> Any:
        """A classic group or a consumer group; None: there is none of this name."""
        doing = f"describe group {name!r}"
        asked = self._asking.ask(self._admin.describe_consumer_groups, [name], doing=doing)
        described = self._asking.wait(asked[name], doing)
        return None if _state(described.state) == "dead" else described

    def _committed(self, name: str) -> dict[TopicPartition, int]:
        doing = f"read the offsets of group {name!r}"
        wanted = [confluent_kafka.ConsumerGroupTopicPartitions(name)]
        asked = self._asking.ask(self._admin.list_consumer_group_offsets, wanted, doing=doing)
        found = self._asking.wait(asked[name], doing).topic_partitions
        return {TopicPartition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def _bounds(self, keys: Iterable[TopicPartition]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The first and end offsets of partitions; those that no longer exist are left out."""
        ids: dict[str, list[int]] = {}
        for topic in {key.topic: None for key in keys}:
            try:
                ids[topic] = self._topics.partition_ids(topic)
            except UnknownTopicOrPartition:
                ids[topic] = []
        there = [key for key in keys if key.partition in ids[key.topic]]
        return self._topics.offsets_of(there, EARLIEST), self._topics.offsets_of(there, LATEST)

    # Parts of a reset

    def _chosen(
        self, name: str, committed: Mapping[TopicPartition, int], topics: Sequence[str] | None
    ) -> list[TopicPartition]:
        if topics is not None:
            return [TopicPartition(topic, id_) for topic in topics for id_ in self._topics.partition_ids(topic)]
        if not committed:
            raise GroupIdNotFound(f"group {name!r} has no committed offsets: name the topics to reset")
        return sorted(committed)

    def _check_without_members(self, name: str) -> None:
        doing = f"describe group {name!r}"
        asked = self._asking.ask(self._admin.describe_consumer_groups, [name], doing=doing)
        members = self._asking.wait(asked[name], doing).members
        if members:
            raise NonEmptyGroup(f"group {name!r} has {len(members)} members: stop them first")

    def _wanted(
        self,
        keys: Sequence[TopicPartition],
        committed: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        *,
        to: To | None,
        timestamp_ms: int | None,
        shift_by: int | None,
    ) -> Mapping[TopicPartition, int]:
        if timestamp_ms is not None:
            found = self._topics.offsets_of(keys, timestamp_ms)
            return {key: ends[key] if found[key] == _NO_OFFSET else found[key] for key in keys}
        if shift_by is not None:
            return {key: committed.get(key, starts[key]) + shift_by for key in keys}
        if isinstance(to, int):
            return dict.fromkeys(keys, to)
        if to not in ("earliest", "latest"):
            raise InvalidRequest(f"to is {to!r}; it may be 'earliest', 'latest' or an offset")
        return starts if to == "earliest" else ends

    def _alter(self, name: str, changes: Sequence[OffsetChange]) -> None:
        doing = f"reset group {name!r}"
        partitions = [confluent_kafka.TopicPartition(each.topic, each.partition, each.after) for each in changes]
        wanted = [confluent_kafka.ConsumerGroupTopicPartitions(name, partitions)]
        asked = self._asking.ask(self._admin.alter_consumer_group_offsets, wanted, doing=doing)
        for each in self._asking.wait(asked[name], doing).topic_partitions:
            if each.error is not None:
                raise translate(each.error, doing)


def _lag(
    key: TopicPartition, offset: int | None, end: int, unread: Unread | None, member_id: str | None
) -> PartitionLag:
    if unread is None:
        return PartitionLag(*key, offset, end, None, None, member_id)
    seconds = None if unread.age_ms is None else unread.age_ms / 1000
    return PartitionLag(*key, offset, end, unread.lag, seconds, member_id)


def _state(state: Any) -> str:
    return str(state.name).lower().replace("_", "-")


def _member(found: Any) -> GroupMember:
    assignment = [] if found.assignment is None else found.assignment.topic_partitions
    partitions = tuple(sorted(TopicPartition(each.topic, each.partition) for each in assignment))
    return GroupMember(found.member_id, found.client_id, found.host, found.group_instance_id, partitions)
