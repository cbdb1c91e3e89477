"""Creating, growing, configuring and deleting topics: requests become commits of the metadata log."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol
from uuid import UUID

import msgspec

from barnabas.core.errors import (
    BarnabasError,
    ControllerBusy,
    LeaderNotAvailable,
    NotController,
    PolicyViolation,
    RequestTimedOut,
    TopicDeletionDisabled,
    TopicExists,
)
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image, Topic
from barnabas.core.metadata.names import is_internal
from barnabas.core.metadata.topics import (
    NO_LIMIT,
    CreatedTopic,
    NewTopic,
    create_partitions,
    create_topic,
    create_topics,
    delete_topic,
)
from barnabas.runtime.cluster_metadata import ClusterMetadata
from barnabas.runtime.dice import Dice
from barnabas.runtime.turns import pieces
from barnabas.services.served import ServedTopics
from barnabas.services.session import Session
from barnabas.services.settings import check_topic_settings
from barnabas.services.settings.internal_topics import (
    INTERNAL_REPLICAS,
    check_may_alter,
    check_settings,
    internal_factor,
    with_internal_defaults,
)
from barnabas.services.settings.live_config import LiveConfig

DEFAULT = -1  # a count that is left to the broker
CREATED_AT_ONCE = 10  # in one commit, which is applied in one piece
ELSEWHERE_S: Final = 5.0  # how long a client that asked for something else waits for the controller; less than it would


class TopicForwarding(Protocol):
    """Has topics created by the active controller where that is another node."""

    @property
    def is_away(self) -> bool:
        """Whether another node decides, or none."""
        ...

    async def create(
        self, new: Sequence[NewTopic], *, caller: Session | None, timeout_s: float
    ) -> dict[str, BarnabasError]:
        """Have them created for a client, or for the node itself; returns those that are refused.

        Those that exist are not. What is created is applied on this node when this returns. `NotController`,
        `ControllerBusy` and `RequestTimedOut` are as in `ClusterMetadata`.
        """
        ...


class Topics:
    """The verbs on topics."""

    def __init__(self, live: LiveConfig, metadata: ClusterMetadata, served: ServedTopics, dice: Dice) -> None:
        self._live = live
        self._metadata = metadata
        self._served = served
        self._dice = dice
        self.forwarding: TopicForwarding | None = None
        """How another node is asked; None: there is none."""

    def decide_new(self, new: NewTopic) -> MetadataDecision[CreatedTopic]:
        """The decision to create a topic, with this broker's defaults for what the request leaves out."""
        return self._decide_new(self._metadata.image, new, self._dice.uuid())

    def _decide_new(self, image: Image, new: NewTopic, topic_id: UUID) -> MetadataDecision[CreatedTopic]:
        most = NO_LIMIT if is_internal(new.name) else self._max_partitions
        return create_topic(image, self._with_defaults(new), topic_id=topic_id, max_partitions=most)

    @property
    def _max_partitions(self) -> int:
        return self._live.current.limits.max_partitions

    async def create(self, new: NewTopic) -> CreatedTopic:
        """Create a topic; it is served when this returns."""
        self.decide_new(new)  # refuse before waiting for anything
        await self._served.wait_removed(new.name)
        topic_id = self._dice.uuid()
        return await self._metadata.commit(lambda image: self._decide_new(image, new, topic_id))

    async def ensure(self, new: NewTopic) -> None:
        """Create a topic that the node itself needs, unless it exists, whichever node is the controller."""
        if self.forwarding is None or not self.forwarding.is_away:
            with suppress(TopicExists):
                await self.create(new)
            return
        refused = await self.forwarding.create([self._with_defaults(new)], caller=None, timeout_s=ELSEWHERE_S)
        for refusal in refused.values():
            raise refusal

    def _with_defaults(self, new: NewTopic) -> NewTopic:
        check_settings(new.name, new.configs, self._live.current)
        configs = check_topic_settings(with_internal_defaults(new.name, new.configs), self._live.current)
        if new.assignments:
            return NewTopic(new.name, new.partition_count, new.replication_factor, new.assignments, configs)
        count = self._live.current.num_partitions if new.partition_count == DEFAULT else new.partition_count
        factor = self._default_factor(new.name) if new.replication_factor == DEFAULT else new.replication_factor
        return NewTopic(new.name, count, factor, None, configs)

    def _default_factor(self, name: str) -> int:
        """The replication factor of a topic that is created without one."""
        config = self._live.current
        if not is_internal(name):
            return config.default_replication_factor
        given = internal_factor(name, config)
        active = sum(node.is_active for node in self._metadata.image.nodes.values())
        return given if given is not None else max(min(INTERNAL_REPLICAS, active), 1)

    async def create_automatically(
        self, names: Sequence[str], *, caller: Session | None = None
    ) -> dict[str, BarnabasError]:
        """Create topics automatically, for a client; returns those that do not exist afterwards.

        Only so many at a time, and only while a controller answers: for the others the client retries.
        """
        config = self._live.current
        most = min(
            config.max_auto_created_topics_per_request,
            max(config.max_new_partitions_per_request // config.num_partitions, 1),
        )
        later = LeaderNotAvailable(
            f"a request creates at most {most} topics automatically "
            "(max.auto.created.topics.per.request, max.new.partitions.per.request); ask again"
        )
        chosen = names[:most]
        plain = self._with_defaults(NewTopic(chosen[0], DEFAULT, DEFAULT))
        new = [msgspec.structs.replace(plain, name=name) for name in chosen]
        try:
            if self.forwarding is None or not self.forwarding.is_away:
                refused = await self._create_some(new)
            else:
                refused = await self.forwarding.create(new, caller=caller, timeout_s=ELSEWHERE_S)
        except (ControllerBusy, NotController, RequestTimedOut) as error:
            not_yet = LeaderNotAvailable(f"not created yet: {error}; ask again")
            refused = {name: not_yet for name in chosen if name not in self._metadata.image.topics}
        return refused | dict.fromkeys(names[most:], later)

    async def _create_some(self, new: Sequence[NewTopic]) -> dict[str, BarnabasError]:
        """Create topics, some in each commit; returns those that are refused."""
        for each in new:
            await self._served.wait_removed(each.name)
        created: list[CreatedTopic | BarnabasError] = []
        async for some in pieces([(each, self._dice.uuid()) for each in new], per_turn=CREATED_AT_ONCE):
            decide = partial(create_topics, new=some, max_partitions=self._max_partitions)
            created += await self._metadata.commit(decide)
        return {
            each.name: outcome
            for each, outcome in zip(new, created, strict=True)
            if isinstance(outcome, BarnabasError) and not isinstance(outcome, TopicExists)  # then somebody else did
        }

    def check_new_partitions(self, count: int) -> None:
        """Refuse a request that would create too many partitions in all."""
        most = self._live.current.max_new_partitions_per_request
        if count > most:
            raise PolicyViolation(
                f"{count} new partitions in one request are more than max.new.partitions.per.request={most}; "
                "create them in several requests"
            )

    def partition_count_of(self, count: int, assignments: Sequence[object] | None) -> int:
        """How many partitions a new topic would have: those of its assignments, its count, or the default."""
        if assignments:
            return len(assignments)
        return self._live.current.num_partitions if count == DEFAULT else max(count, 0)

    def growth_of(self, name: str, count: int) -> int:
        """How many partitions would be added to a topic; 0 if it does not exist."""
        topic = self._metadata.image.topics.get(name)
        return 0 if topic is None else max(count - len(topic.partitions), 0)

    async def delete(self, name: str) -> Topic:
        """Delete a topic. Its records are no longer readable at once, its files are removed soon after."""
        self.check_deletable()
        return await self._metadata.commit(lambda image: self._decide_deletion(image, name))

    async def delete_by_id(self, topic_id: UUID) -> Topic:
        """The same for the topic of this id, not for a newer one of the same name."""
        self.check_deletable()
        return await self._metadata.commit(
            lambda image: self._decide_deletion(image, image.get_topic_by_id(topic_id).name)
        )

    def _decide_deletion(self, image: Image, name: str) -> MetadataDecision[Topic]:
        decision = delete_topic(image, name)
        check_may_alter(name, self._live.current, doing="deleting it")
        return decision

    def check_deletable(self) -> None:
        """Refuse if topics cannot be deleted."""
        if not self._live.current.delete_topic_enable:
            raise TopicDeletionDisabled("topics cannot be deleted: delete.topic.enable=false")

    def decide_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None
    ) -> MetadataDecision[range]:
        """The decision to add partitions."""
        return self._decide_growth(self._metadata.image, name, count, assignments)

    async def add_partitions(self, name: str, count: int, assignments: Sequence[Sequence[int]] | None) -> range:
        """Give a topic more partitions, `count` in all."""

        def decide(image: Image) -> MetadataDecision[range]:
            return self._decide_growth(image, name, count, assignments)

        return await self._metadata.commit(decide)

    def _decide_growth(
        self, image: Image, name: str, count: int, assignments: Sequence[Sequence[int]] | None
    ) -> MetadataDecision[range]:
        most = NO_LIMIT if is_internal(name) else self._max_partitions
        decision = create_partitions(image, name, count, assignments, max_partitions=most)
        check_may_alter(name, self._live.current, doing="adding partitions")
        return decision
