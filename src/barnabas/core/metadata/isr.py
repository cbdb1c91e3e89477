"""The controller's decision on AlterPartition, version 3: the leader of a partition asks for another ISR.

Only the current leader may ask, and only knowing the current state: the epochs in the request say what it knows.
Replicas come with the broker epochs under which they fetched (KIP-903), so that one that has restarted since, perhaps
with a shorter log, does not get in on the strength of what it had before.

A leader whose log cannot be opened asks to be replaced, in a field of our own: it has nothing for anybody. It leaves
ISR and ELR if another has everything acknowledged and can lead; else it stays, for it may be the last one that can be
repaired (decision 21).

A change may complete a reassignment, and by that another replica may lead: the change is made all the same, and the
answer is NEW_LEADER_ELECTED.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

import msgspec

from barnabas.core.errors import (
    BarnabasError,
    EligibleLeadersNotAvailable,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    NotController,
    StaleBrokerEpoch,
)
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.electing import PartitionChange, RulesOf, changed, rules_of, without_nodes
from barnabas.core.metadata.image import Image, PartitionState, Topic
from barnabas.core.metadata.records import RECOVERED, RECOVERING, PartitionRecord

UNCHECKED_EPOCH: Final = -1
"""The broker epoch of a replica that the leader does not vouch for: it was in sync before, and stays."""


class IsrChange(msgspec.Struct, frozen=True):
    """The ISR that the leader of a partition asks for, and the state that it knows."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    """Node ids and broker epochs."""
    recovery_state: int = RECOVERED
    resigns: bool = False
    """Whether the leader asks for another leader, since it cannot open its log; `isr` counts for nothing then."""


def alter_partitions(
    image: Image, node_id: int, *, broker_epoch: int, changes: Sequence[IsrChange], rules: RulesOf = rules_of
) -> MetadataDecision[list[PartitionState | BarnabasError]]:
    """Decide on what a broker asks for the partitions it leads.

    The reply has for each the state after it, or why not. A partition that is asked for twice is refused the second
    time: its state is another one then.
    """
    _check_broker(image, node_id, broker_epoch)
    records: list[PartitionRecord] = []
    replies: list[PartitionState | BarnabasError] = []
    seen: set[tuple[UUID, int]] = set()
    for change in changes:
        place = (change.topic_id, change.partition)
        try:
            if place in seen:
                raise InvalidRequest(f"partition {change.partition} of {change.topic_id} is asked for twice")
            seen.add(place)
            state, after = _alter(image, node_id, change, rules)
        except BarnabasError as refusal:
            replies.append(refusal.with_traceback(None))  # which would hold all replies
            continue
        if after is None:
            replies.append(state)
            continue
        records.append(after)
        replies.append(after if after.leader == node_id else _moved(after))
    return MetadataDecision(records, replies)


def _alter(
    image: Image, node_id: int, change: IsrChange, rules: RulesOf
) -> tuple[PartitionState, PartitionRecord | None]:
    topic = image.get_topic_by_id(change.topic_id)
    state = topic.get_partition(change.partition)
    _check_epochs(topic, state, node_id, change)
    if change.resigns:
        return state, _resigned(image, topic, state, rules)
    _check_isr(topic, state, change)
    _check_eligible(image, change)
    isr = tuple(node for node, _ in change.isr)
    wanted = PartitionChange(isr=isr, recovery_state=change.recovery_state)
    return state, changed(image, state, wanted, rules=rules(image, topic))


def _resigned(image: Image, topic: Topic, state: PartitionState, rules: RulesOf) -> PartitionRecord:
    """A partition that its leader cannot serve, led by another that has everything acknowledged."""
    leader = state.leader
    wanted = PartitionChange(isr=without_nodes(state.isr, (leader,)), lost=(leader,), emptied=(leader,))
    after = changed(
        image,
        state,
        wanted,
        rules=rules(image, topic),
        may_lead=lambda node: node != leader and image.is_active(node),
    )
    if after is None or after.leader not in (*state.isr, *state.elr):
        raise EligibleLeadersNotAvailable(f"nobody else can lead {topic.name}-{state.partition}")
    return after


def _moved(state: PartitionState) -> NewLeaderElected:
    return NewLeaderElected(f"the change is made, and the partition is now led by {state.leader}")


def _check_broker(image: Image, node_id: int, broker_epoch: int) -> None:
    node = image.nodes.get(node_id)
    if node is None:
        raise StaleBrokerEpoch(f"broker {node_id} is not registered")
    if node.epoch != broker_epoch:
        raise StaleBrokerEpoch(f"broker {node_id} is registered with epoch {node.epoch}, not {broker_epoch}")


def _check_epochs(topic: Topic, state: PartitionState, node_id: int, change: IsrChange) -> None:
    """Refuse a request from a leader that does not lead, or knows another state."""
    name = f"{topic.name}-{state.partition}"
    if change.leader_epoch > state.leader_epoch or change.partition_epoch > state.partition_epoch:
        # Its metadata come from a later controller.
        raise NotController(
            f"{name} has leader epoch {state.leader_epoch} and partition epoch {state.partition_epoch} here; the "
            f"leader knows {change.leader_epoch} and {change.partition_epoch}"
        )
    if change.leader_epoch < state.leader_epoch:
        raise FencedLeaderEpoch(f"{name} has leader epoch {state.leader_epoch}; {change.leader_epoch} is stale")
    if state.leader != node_id:
        raise InvalidRequest(f"{name} is led by {state.leader}, not by {node_id}")
    if change.partition_epoch < state.partition_epoch:
        raise InvalidUpdateVersion(
            f"{name} has partition epoch {state.partition_epoch}; {change.partition_epoch} is stale"
        )


def _check_isr(topic: Topic, state: PartitionState, change: IsrChange) -> None:
    """Refuse an ISR that the partition cannot have."""
    name, isr = f"{topic.name}-{state.partition}", [node for node, _ in change.isr]
    if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(state.replicas):
        raise InvalidRequest(f"{isr} are not replicas of {name}, which is on {list(state.replicas)}")
    if state.leader not in isr:
        raise InvalidRequest(f"the leader of {name}, {state.leader}, is not in the ISR {isr}")
    if change.recovery_state not in (RECOVERED, RECOVERING):
        raise InvalidRequest(f"recovery state {change.recovery_state} does not exist")
    if change.recovery_state == RECOVERING and len(isr) > 1:
        raise InvalidRequest(f"the ISR of {name} cannot grow while its leader recovers")
    if change.recovery_state == RECOVERING and state.recovery_state == RECOVERED:
        raise InvalidRequest(f"the leader of {name} has recovered already")


def _check_eligible(image: Image, change: IsrChange) -> None:
    problems = list(_ineligible(image, change))
    if problems:
        raise IneligibleReplica(f"not eligible for the ISR: {'; '.join(problems)}")


def _ineligible(image: Image, change: IsrChange) -> Iterator[str]:
    for node_id, broker_epoch in change.isr:
        node = image.nodes.get(node_id)
        if node is None:
            yield f"broker {node_id} is not registered"
        elif node.is_fenced:
            yield f"broker {node_id} is fenced"
        elif node.is_leaving:
            yield f"broker {node_id} is shutting down"
        elif broker_epoch not in (UNCHECKED_EPOCH, node.epoch):
            yield f"broker {node_id} has epoch {node.epoch}, not {broker_epoch}"
