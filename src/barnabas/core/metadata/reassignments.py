"""Decisions about moving the replicas of a partition to other nodes.

While a partition moves, its replicas are the target and, after it, those that will be removed. Added replicas copy the
log like any follower, and the change of the ISR that makes the last of them in sync completes the move (`electing`):
the others go, and if the leader was one of them another is elected. To cancel is to remove what was added and keep what
was to be removed.

A new target replaces one that is under way: what is being added for neither goes at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from barnabas.core.errors import (
    BarnabasError,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    NoReassignmentInProgress,
)
from barnabas.core.metadata.assignments import check_replicas
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.electing import PartitionChange, RulesOf, changed, rules_of
from barnabas.core.metadata.image import Image, PartitionState, Topic
from barnabas.core.metadata.records import MetadataRecord


class Reassignment(NamedTuple):
    """A reassignment that is under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    """All that are there meanwhile: the target, then those that will be removed."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def alter(
    image: Image,
    topic: str,
    partition: int,
    target: Sequence[int] | None,
    *,
    may_change_factor: bool = True,
    rules: RulesOf = rules_of,
) -> MetadataDecision[PartitionState]:
    """Move a partition to these nodes, the first of them its preferred leader; None cancels.

    The reply is the state after that. A target that needs no copying, because it is another order of the same nodes or
    fewer of them, all in sync, is there at once.
    """
    found = image.get_topic(topic)
    state = found.get_partition(partition)
    if target is None:
        return _cancel(image, found, state, rules)
    _check_target(image, found, state, target, may_change_factor=may_change_factor)
    old = originals(state)
    adding = tuple(node for node in target if node not in old)
    removing = tuple(node for node in old if node not in target)
    replicas = (*target, *removing)
    isr = tuple(node for node in state.isr if node in replicas)
    if not isr and state.isr:
        raise InvalidReplicaAssignment(
            f"{topic}-{partition} cannot be moved to {list(target)}: none of its in-sync replicas "
            f"{list(state.isr)} would stay meanwhile"
        )
    after = changed(
        image,
        state,
        PartitionChange(isr=isr, replicas=replicas, adding=adding, removing=removing),
        rules=rules(image, found),
    )
    return MetadataDecision([] if after is None else [after], state if after is None else after)


class Target(NamedTuple):
    """Where a partition is to be moved."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None
    """The first is the preferred leader; None cancels."""


def alter_all(
    image: Image, targets: Sequence[Target], *, may_change_factor: bool = True, rules: RulesOf = rules_of
) -> MetadataDecision[list[PartitionState | BarnabasError]]:
    """Move many partitions in one commit; each may be refused separately.

    The reply has for each the state after it, or why not. One that is named twice is refused the second time.
    """
    records: list[MetadataRecord] = []
    replies: list[PartitionState | BarnabasError] = []
    seen: set[tuple[str, int]] = set()
    for target in targets:
        place = (target.topic, target.partition)
        try:
            if place in seen:
                raise InvalidRequest(f"{target.topic}-{target.partition} is named twice")
            seen.add(place)
            decision = alter(image, *target, may_change_factor=may_change_factor, rules=rules)
        except BarnabasError as refusal:
            replies.append(refusal.with_traceback(None))  # which would hold all replies
        else:
            records += decision.records
            replies.append(decision.reply)
    return MetadataDecision(records, replies)


def list_reassignments(image: Image, wanted: Mapping[str, Sequence[int]] | None = None) -> Iterator[Reassignment]:
    """The reassignments under way, of these partitions of these topics, or all. What does not exist is left out."""
    for name in sorted(image.topics) if wanted is None else wanted:
        topic = image.topics.get(name)
        if topic is not None:
            for partition in topic.partitions if wanted is None else wanted[name]:
                state = topic.partitions.get(partition)
                if state is not None and state.is_being_reassigned:
                    yield Reassignment(name, partition, state.replicas, state.adding, state.removing)


def originals(state: PartitionState) -> tuple[int, ...]:
    """The replicas that a partition had before it was reassigned: what cancelling brings back. Those that stay come
    first, as in Kafka: the order that they had is not kept.
    """
    return tuple(node for node in state.replicas if node not in state.adding)


def _cancel(image: Image, topic: Topic, state: PartitionState, rules: RulesOf) -> MetadataDecision[PartitionState]:
    if not state.is_being_reassigned:
        raise NoReassignmentInProgress(f"no reassignment of {topic.name}-{state.partition} is in progress")
    replicas = originals(state)
    isr = tuple(node for node in state.isr if node in replicas)
    if not isr and state.isr:
        # Only an unclean election leads here: those that were added have what is left of the records.
        raise InvalidReplicaAssignment(
            f"the reassignment of {topic.name}-{state.partition} cannot be cancelled: none of "
            f"{list(replicas)} is in sync"
        )
    after = changed(
        image, state, PartitionChange(isr=isr, replicas=replicas, adding=(), removing=()), rules=rules(image, topic)
    )
    assert after is not None
    return MetadataDecision([after], after)


def _check_target(
    image: Image, topic: Topic, state: PartitionState, target: Sequence[int], *, may_change_factor: bool
) -> None:
    check_replicas(image, target)
    factor = len(originals(state))
    if not may_change_factor and len(target) != factor:
        raise InvalidReplicationFactor(
            f"{topic.name}-{state.partition} has {factor} replica(s), and the request does not allow {len(target)}"
        )
