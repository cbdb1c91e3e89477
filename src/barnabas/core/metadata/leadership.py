"""Leader changes when a broker starts or stops: the records that change partitions, for decisions about brokers.

A valid leader stays. Else the first replica that is in sync and active becomes the leader, under a new leader epoch. A
broker that stops leaves the ISR, unless it is the last in it: only an in-sync replica has everything acknowledged, so a
partition whose last in-sync replica is gone has no leader until that one is back.
"""

from collections.abc import Iterator

import msgspec

from barnabas.core.metadata.image import Image, PartitionState
from barnabas.core.metadata.records import NO_LEADER, PartitionRecord


def without(image: Image, node_id: int) -> Iterator[PartitionRecord]:
    """Every partition that is led by a node, or has it in sync, as it is when that node leads and follows nothing."""
    for state in _partitions(image):
        if node_id == state.leader or node_id in state.isr:
            isr = tuple(each for each in state.isr if each != node_id) or state.isr
            leader = state.leader if state.leader != node_id else _first_of(image, state, isr, but=node_id)
            changed = _changed(state, leader=leader, isr=isr)
            if changed is not None:
                yield changed


def with_node(image: Image, node_id: int) -> Iterator[PartitionRecord]:
    """Every partition without a leader that a node can lead, as it is when that node is active again."""
    for state in _partitions(image):
        if state.leader == NO_LEADER and node_id in state.isr:
            changed = _changed(state, leader=node_id, isr=state.isr)
            assert changed is not None
            yield changed


def leads(image: Image, node_id: int) -> bool:
    """Whether a node leads anything."""
    return any(state.leader == node_id for state in _partitions(image))


def _partitions(image: Image) -> Iterator[PartitionState]:
    for topic in image.topics.values():
        yield from topic.partitions.values()


def _first_of(image: Image, state: PartitionState, isr: tuple[int, ...], *, but: int) -> int:
    candidates = (node for node in state.replicas if node in isr and node != but and image.is_active(node))
    return next(candidates, NO_LEADER)


def _changed(state: PartitionState, *, leader: int, isr: tuple[int, ...]) -> PartitionRecord | None:
    if (leader, isr) == (state.leader, state.isr):
        return None
    return msgspec.structs.replace(
        state,
        leader=leader,
        isr=isr,
        leader_epoch=state.leader_epoch + (leader != state.leader),
        partition_epoch=state.partition_epoch + 1,
    )
