"""Leader changes when a broker starts or stops: the records that change partitions, for decisions about brokers.

A broker that stops leaves the ISR, and joins the eligible leader replicas (ELR) if too few are left; who leads then is
decided in `electing`. A partition with one replica, and any where ELRs are not in use, keeps its last in-sync replica:
only that one has everything acknowledged, so there is no leader until it is back.

A broker that starts leads what nobody leads and it may lead. If it stopped uncleanly it has lost nothing that was
acknowledged, where records are flushed before that: it keeps its place in the ELR, and by leaving and coming back it
gets new leader epochs, under which the records that it did lose are told from those that take their offsets. If it
comes with another data directory it has lost everything (decision 18): it is not even the last one in sync.
"""

from collections.abc import Callable, Iterator
from enum import Enum

from barnabas.core.metadata.electing import ElectionRules, PartitionChange, RulesOf, changed, rules_of, without_nodes
from barnabas.core.metadata.image import Image, PartitionState, Topic
from barnabas.core.metadata.records import NO_LEADER, PartitionRecord


class Loss(Enum):
    """What a broker that starts may have lost of its log."""

    NOTHING = "it stopped cleanly, or has not stopped"
    UNSYNCED = "it stopped uncleanly: what was not flushed"
    UNKNOWN = "it was removed, or is new, and nobody knows with which data directory it had its replicas, if any"
    SINCE_A_COPY = "its data directory is an older copy: what was written since"
    EVERYTHING = "it has another data directory"


def without(
    image: Image, node_id: int, *, rules: RulesOf = rules_of, loss: Loss = Loss.NOTHING
) -> Iterator[PartitionRecord]:
    """Every partition that a node leads or is in sync with, as it is when that node leads and follows nothing."""

    def may_lead(node: int) -> bool:
        return node != node_id and image.is_active(node)

    for topic in image.topics.values():
        settings = rules(image, topic)
        lost = _lost(node_id, settings, loss)
        for state in topic.partitions.values():
            if _involves(state, node_id, may_be_lost=bool(lost)):
                emptied = lost if _may_not_lead(loss, state) else ()
                change = PartitionChange(isr=without_nodes(state.isr, (node_id,)), lost=lost, emptied=emptied)
                after = changed(image, state, change, rules=settings, may_lead=may_lead)
                if after is not None:
                    yield after


def _lost(node_id: int, settings: ElectionRules, loss: Loss) -> tuple[int, ...]:
    """The node, if it may have lost acknowledged records."""
    is_lost = loss in (Loss.EVERYTHING, Loss.SINCE_A_COPY, Loss.UNKNOWN) or (
        loss is Loss.UNSYNCED and not settings.is_flushed
    )
    return (node_id,) if is_lost else ()


def _may_not_lead(loss: Loss, state: PartitionState) -> bool:
    """Whether a node must not lead even as the last that did: it has nothing, or another replica may have more."""
    return loss is Loss.EVERYTHING or (loss is Loss.SINCE_A_COPY and len(state.replicas) > 1)


def with_node(image: Image, node_id: int, *, rules: RulesOf = rules_of) -> Iterator[PartitionRecord]:
    """Every partition without a leader that has one when this node is active again."""
    for topic, state in _partitions(image):
        if state.leader == NO_LEADER and node_id in state.replicas:
            after = changed(image, state, rules=rules(image, topic), may_lead=_active_with(image, node_id))
            if after is not None:
                yield after


def forgetting(image: Image, node_id: int, *, loss: Loss, rules: RulesOf = rules_of) -> Iterator[PartitionRecord]:
    """Every partition in which a node that is active may have lost acknowledged records: it is in neither ISR nor ELR,
    and leads only where nobody has more; with nothing it leads nothing.
    """
    is_emptied = loss is Loss.EVERYTHING
    for topic, state in _partitions(image):
        if (is_emptied or len(state.replicas) > 1) and _involves(state, node_id, may_be_lost=True):
            settings = rules(image, topic)
            lost = _lost(node_id, settings, loss)
            change = PartitionChange(lost=lost, emptied=lost if _may_not_lead(loss, state) else ())
            after = changed(image, state, change, rules=settings, may_lead=_active_with(image, node_id))
            if after is not None:
                yield after


def _active_with(image: Image, node_id: int) -> Callable[[int], bool]:
    """Which nodes are active, when this one is, too."""
    return lambda node: node == node_id or image.is_active(node)


def leads(image: Image, node_id: int) -> bool:
    """Whether a node leads anything."""
    return any(state.leader == node_id for _, state in _partitions(image))


def _involves(state: PartitionState, node_id: int, *, may_be_lost: bool) -> bool:
    if node_id == state.leader or node_id in state.isr:
        return True
    return may_be_lost and (node_id in state.elr or node_id in state.last_known_elr)


def _partitions(image: Image) -> Iterator[tuple[Topic, PartitionState]]:
    for topic in image.topics.values():
        for state in topic.partitions.values():
            yield topic, state
