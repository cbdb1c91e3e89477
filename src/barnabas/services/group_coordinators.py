"""The group coordinators of a node: their settings, and updating them when topics change."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self
from uuid import UUID

import msgspec

from barnabas.core.groups.settings import ClassicConfig, ConsumerConfig, OffsetsConfig, ShareConfig
from barnabas.core.metadata.names import OFFSETS_TOPIC
from barnabas.core.metadata.records import (
    GROUP_RESOURCE,
    MetadataRecord,
    NodeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.core.metadata.topics import NOT_GIVEN, NewTopic
from barnabas.runtime.clock import Clock
from barnabas.runtime.cluster_metadata import ImageSource
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Partition
from barnabas.runtime.turns import finish, is_over
from barnabas.services.coordinators import PartitionCoordinators
from barnabas.services.features import has_dead_letters
from barnabas.services.served import ServedTopics
from barnabas.services.settings.catalogue.group_settings import Bounds, GroupSettings
from barnabas.services.settings.catalogue.share_settings import ShareSettings
from barnabas.services.settings.internal_topics import MAX_DECISION_BYTES
from barnabas.services.settings.resolution import resolve_group, resolve_share_group
from barnabas.services.subscribers import Subscribers
from barnabas.services.topic_infos import TopicInfos
from barnabas.services.topics import Topics

if TYPE_CHECKING:
    from barnabas.runtime.group_coordinator import GroupCoordinator

DEFAULT_SHARES: Final = ShareSettings()
CHANGES_PER_STEP: Final = 100
"""Offsets that are deleted, and groups that are updated, in one turn of the loop."""


class GroupConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of all groups of a broker."""

    classic: ClassicConfig
    consumer: ConsumerConfig
    offsets: OffsetsConfig
    topic_partitions: int  # offsets.topic.num.partitions
    topic_replication_factor: int | None  # offsets.topic.replication.factor; None: by the size of the cluster
    topic_segment_bytes: int  # offsets.topic.segment.bytes
    retention_check_interval_ms: int  # offsets.retention.check.interval.ms
    bounds: Bounds  # of what a group sets itself
    shares: ShareSettings
    max_groups: int = 2**31 - 1  # max.groups

    @classmethod
    def of(
        cls, settings: GroupSettings, shares: ShareSettings = DEFAULT_SHARES, *, max_groups: int = 2**31 - 1
    ) -> Self:
        """The values of the broker's settings."""
        policy = settings.group_consumer_migration_policy
        return cls(
            classic=ClassicConfig(
                min_session_timeout_ms=settings.group_min_session_timeout_ms,
                max_session_timeout_ms=settings.group_max_session_timeout_ms,
                initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
                max_size=settings.group_max_size,
            ),
            consumer=ConsumerConfig(
                heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
                session_timeout_ms=settings.group_consumer_session_timeout_ms,
                max_size=settings.group_consumer_max_size,
                classic_max_size=settings.group_max_size,
                assignors=settings.group_consumer_assignors,
                assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
                upgrades=policy in ("bidirectional", "upgrade"),
                downgrades=policy in ("bidirectional", "downgrade"),
            ),
            offsets=OffsetsConfig(
                metadata_max_chars=settings.offset_metadata_max_bytes,
                retention_ms=settings.offsets_retention_minutes * 60_000,
            ),
            topic_partitions=settings.offsets_topic_num_partitions,
            topic_replication_factor=settings.offsets_topic_replication_factor,
            topic_segment_bytes=settings.offsets_topic_segment_bytes,
            retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
            bounds=settings.bounds(),
            shares=shares,
            max_groups=max_groups,
        )

    def consumer_of(self, overrides: Mapping[str, str]) -> ConsumerConfig:
        """The settings of a consumer group with these overrides."""
        if not overrides:
            return self.consumer
        return msgspec.structs.replace(self.consumer, **resolve_group(overrides, self.bounds))

    def share_of(self, overrides: Mapping[str, str]) -> ShareConfig:
        """The settings of a share group with these overrides."""
        return resolve_share_group(overrides, self.shares)

    def new_topic(self) -> NewTopic:
        """The topic that stores groups."""
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self.topic_segment_bytes),
            "max.message.bytes": str(MAX_DECISION_BYTES),
        }
        factor = NOT_GIVEN if self.topic_replication_factor is None else self.topic_replication_factor
        return NewTopic(OFFSETS_TOPIC, self.topic_partitions, factor, None, settings)


class GroupCoordinators(PartitionCoordinators["GroupCoordinator"]):
    """The coordinators of the partitions of `__consumer_offsets`."""

    def __init__(
        self,
        config: GroupConfig,
        *,
        metadata: ImageSource,
        served: ServedTopics,
        topics: Topics,
        offload: Offload,
        clock: Clock,
        subscribers: Subscribers | None = None,
    ) -> None:
        """`subscribers` says which topics match expressions that members subscribe with; without it all do."""
        super().__init__(
            config.new_topic(), self._coordinator_of, on_loaded=_tell_of_topics, served=served, topics=topics
        )
        self.config = config
        self._classic = config.classic
        self._metadata = metadata
        self._infos = TopicInfos(metadata)
        self._offload = offload
        self._clock = clock
        self.subscribers = subscribers
        self._names = {topic.topic_id: topic.name for topic in served.by_name.values()}

    def configure(self, config: GroupConfig) -> None:
        """Apply these settings from now on. What a member was told stays valid until its next answer."""
        self.config = config

    def _coordinator_of(self, partition: Partition) -> GroupCoordinator:
        from barnabas.core.groups.classic.state import ClassicSoft  # noqa: PLC0415 - loaded with the first group
        from barnabas.core.groups.consumer.regexes import all_visible  # noqa: PLC0415
        from barnabas.runtime.group_coordinator import GroupCoordinator  # noqa: PLC0415

        return GroupCoordinator(
            partition,
            soft=ClassicSoft(self._classic),
            topics=self._infos,
            config_of=self._consumer_config_of,
            share_config_of=self.share_config_of,
            visible=all_visible if self.subscribers is None else self.subscribers.visible,
            offload=self._offload,
            clock=self._clock,
        )

    def _consumer_config_of(self, group: str) -> ConsumerConfig:
        return self.config.consumer_of(self._metadata.image.config_of(GROUP_RESOURCE, group))

    def share_config_of(self, group: str) -> ShareConfig:
        """The settings of a share group, as of now."""
        image = self._metadata.image
        found = self.config.share_of(image.config_of(GROUP_RESOURCE, group))
        if found.letters is not None and not has_dead_letters(image):
            limits = found.limits._replace(has_letters=False)
            return msgspec.structs.replace(found, letters=None, limits=limits)
        return found

    def end_transaction(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """The marker of a transaction was appended to a partition of the topic of groups."""
        coordinator = self.following(partition)
        if coordinator is not None:  # else its log is being read, and it comes upon the marker by itself
            coordinator.end_transaction(producer_id, is_commit=is_commit)

    # Topics

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Topics have changed: update the groups that read them, and delete the offsets of deleted topics."""
        removed = [record.topic_id for record in records if isinstance(record, RemoveTopicRecord)]
        self._names |= {record.topic_id: record.name for record in records if isinstance(record, TopicRecord)}
        if not removed and not any(
            isinstance(record, TopicRecord | PartitionRecord | NodeRecord) for record in records
        ):
            return
        self._infos.forget()
        self.follow()
        gone = [(name, topic_id) for topic_id in removed if (name := self._names.pop(topic_id, None)) is not None]
        steps = self._follow_topics(gone)
        if not is_over(steps):
            self.tasks.create_task(finish(steps))

    def _follow_topics(self, gone: Sequence[tuple[str, UUID]]) -> Generator[None, None, None]:
        """Delete the offsets of deleted topics, and update the groups of changed ones: some in each step.

        Until an offset is deleted, its topic id distinguishes it from those of a later topic of that name.
        """
        left = CHANGES_PER_STEP
        for coordinator in list(self.available()):
            for name, topic_id in gone:
                while coordinator.is_available:
                    removed = coordinator.forget_topic(name, topic_id, limit=left)
                    if removed is None:
                        break
                    left -= removed
                    if left > 0:
                        break
                    yield
                    left = CHANGES_PER_STEP
            for group in [*coordinator.groups.consumer, *coordinator.groups.share]:
                if left <= 0:
                    yield
                    left = CHANGES_PER_STEP
                left -= 1
                if coordinator.is_available:
                    coordinator.tell_of_topics(group)


def _tell_of_topics(loaded: GroupCoordinator) -> None:
    """Topics may have changed since the log was written, and a node's rack while the node was down."""
    for group in [*loaded.groups.consumer, *loaded.groups.share]:
        loaded.tell_of_topics(group)
