"""Decisions about who leads a partition, on request and in rounds. The rules of elections are in `electing`."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from barnabas.core.errors import (
    BarnabasError,
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    PreferredLeaderNotAvailable,
)
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.electing import PartitionChange, RulesOf, changed, rules_of
from barnabas.core.metadata.image import Image, PartitionState
from barnabas.core.metadata.records import NO_LEADER, MetadataRecord, PartitionRecord

MAX_BALANCED: Final = 1_000
"""How many preferred leaders come back in one round."""


def elect_preferred(
    image: Image, topic: str, partition: int, *, rules: RulesOf = rules_of
) -> MetadataDecision[PartitionState]:
    """Elect the preferred replica, if it is in sync."""
    found = image.get_topic(topic)
    state = found.get_partition(partition)
    preferred = state.replicas[0]
    if state.leader == preferred:
        raise ElectionNotNeeded(f"{topic}-{partition} is already led by its preferred leader, {preferred}")
    led = changed(image, state, PartitionChange(leader=preferred), rules=rules(image, found))
    if led is None or led.leader != preferred:
        raise PreferredLeaderNotAvailable(f"the preferred leader of {topic}-{partition}, {preferred}, is not in sync")
    return MetadataDecision([led], led)


def elect_unclean(
    image: Image, topic: str, partition: int, *, rules: RulesOf = rules_of
) -> MetadataDecision[PartitionState]:
    """Elect a leader of a partition without one: one that has everything if there is any, else one that may lack
    records.
    """
    found = image.get_topic(topic)
    state = found.get_partition(partition)
    if state.leader != NO_LEADER:
        raise ElectionNotNeeded(f"{topic}-{partition} is led by {state.leader} already")
    led = changed(image, state, PartitionChange(is_unclean=True), rules=rules(image, found))
    if led is None or led.leader == NO_LEADER:
        raise EligibleLeadersNotAvailable(f"no replica of {topic}-{partition} is available")
    return MetadataDecision([led], led)


def elect_leaders(
    image: Image, wanted: Sequence[tuple[str, int]], *, is_unclean: bool = False, rules: RulesOf = rules_of
) -> MetadataDecision[list[PartitionState | BarnabasError]]:
    """Elect the leaders of many partitions in one commit, the preferred ones or any; each may be refused separately.

    The reply has for each the state after it, or why not. One that is named twice is elected once.
    """
    elect = elect_unclean if is_unclean else elect_preferred
    records: list[MetadataRecord] = []
    replies: dict[tuple[str, int], PartitionState | BarnabasError] = {}
    for place in wanted:
        if place in replies:
            continue
        try:
            decision = elect(image, *place, rules=rules)
        except BarnabasError as refusal:
            replies[place] = refusal.with_traceback(None)  # which would hold all replies
        else:
            records += decision.records
            replies[place] = decision.reply
    return MetadataDecision(records, [replies[place] for place in wanted])


def elect_where_allowed(image: Image, *, limit: int = MAX_BALANCED, rules: RulesOf = rules_of) -> MetadataDecision[int]:
    """Elect leaders of partitions that have none and may have one that lacks records: that may have been allowed since
    their leader was lost. So many in one round; the reply is how many.
    """
    records: list[PartitionRecord] = []
    for topic in image.topics.values():
        settings = None
        for state in topic.partitions.values():
            if state.leader != NO_LEADER or len(records) == limit:
                continue
            settings = settings or rules(image, topic)
            led = changed(image, state, rules=settings) if settings.may_be_unclean else None
            if led is not None and led.leader != NO_LEADER:
                records.append(led)
    return MetadataDecision(records, len(records))


def balance(image: Image, *, limit: int = MAX_BALANCED, rules: RulesOf = rules_of) -> MetadataDecision[int]:
    """Have preferred leaders that are in sync and active lead again, so many in one round; the reply is how many."""
    records: list[PartitionRecord] = []
    for led in _balanced(image, rules):
        if len(records) == limit:
            break
        records.append(led)
    return MetadataDecision(records, len(records))


def _balanced(image: Image, rules: RulesOf) -> Iterator[PartitionRecord]:
    for topic in image.topics.values():
        for state in topic.partitions.values():
            preferred = state.replicas[0]
            if preferred not in (state.leader, *state.removing) and preferred in state.isr:
                led = changed(image, state, PartitionChange(leader=preferred), rules=rules(image, topic))
                if led is not None and led.leader == preferred:
                    yield led


def led_anew(image: Image, node_id: int) -> Iterator[PartitionRecord]:
    """Everything that a node leads, in a new leader epoch: unsynced records may be lost, and clients can tell."""
    for topic in image.topics.values():
        for state in topic.partitions.values():
            if state.leader == node_id:
                yield msgspec.structs.replace(
                    state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1
                )
