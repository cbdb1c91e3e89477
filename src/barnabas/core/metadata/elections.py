"""Decisions about who leads a partition."""

from collections.abc import Sequence

import msgspec

from barnabas.core.errors import ElectionNotNeeded, EligibleLeadersNotAvailable, PreferredLeaderNotAvailable
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image, PartitionState
from barnabas.core.metadata.records import NO_LEADER


def elect_preferred(image: Image, topic: str, partition: int) -> MetadataDecision[PartitionState]:
    """Elect the preferred replica, if it is in sync."""
    state = image.get_topic(topic).get_partition(partition)
    preferred = state.replicas[0]
    if state.leader == preferred:
        raise ElectionNotNeeded(f"{topic}-{partition} is already led by its preferred leader, {preferred}")
    if preferred not in state.isr or not image.is_active(preferred):
        raise PreferredLeaderNotAvailable(f"the preferred leader of {topic}-{partition}, {preferred}, is not in sync")
    return _led_by(state, preferred, isr=state.isr)


def elect_unclean(image: Image, topic: str, partition: int) -> MetadataDecision[PartitionState]:
    """Elect a leader of a partition without one: in sync if there is any, else one that may lack records."""
    state = image.get_topic(topic).get_partition(partition)
    if state.leader != NO_LEADER:
        raise ElectionNotNeeded(f"{topic}-{partition} is led by {state.leader} already")
    there = [node for node in state.replicas if image.is_active(node)]
    in_sync = [node for node in there if node in state.isr]
    if in_sync:
        return _led_by(state, in_sync[0], isr=state.isr)
    if not there:
        raise EligibleLeadersNotAvailable(f"no replica of {topic}-{partition} is available")
    return _led_by(state, there[0], isr=there[:1])


def _led_by(state: PartitionState, leader: int, *, isr: Sequence[int]) -> MetadataDecision[PartitionState]:
    led = msgspec.structs.replace(
        state,
        leader=leader,
        isr=tuple(isr),
        leader_epoch=state.leader_epoch + 1,
        partition_epoch=state.partition_epoch + 1,
    )
    return MetadataDecision([led], led)


def lead_anew(image: Image, node_id: int) -> MetadataDecision[None]:
    """Start a new leader epoch of everything a node leads: unsynced records may be lost, and clients can tell."""
    led = [
        msgspec.structs.replace(state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)
        for topic in image.topics.values()
        for state in topic.partitions.values()
        if state.leader == node_id
    ]
    return MetadataDecision(led, None)
