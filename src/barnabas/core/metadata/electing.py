"""How a partition changes: its replicas, its ISR, its eligible leader replicas (ELR, KIP-966), and with them its
leader.

Every change of a partition that exists goes through `changed`, in this order: a reassignment that is done by it ends;
the ELR follows the ISR; a leader is elected; the epochs say what happened.

**Who may lead.** A valid leader stays. Else the first replica, in the order of the replicas, that is active and in
sync, or in the ELR if nobody is in sync. Else, with ISR and ELR empty, the leader that was lost last, once it is
active. Else, where the topic allows it, any active replica. The last two may lack records: the leader begins as the
only one in sync, and recovering.

**The ELR** are the replicas that left the ISR while it was smaller than `min.insync.replicas`. Nothing is acknowledged
from then on (the leader's watermark stands still), so they keep everything acknowledged. When enough are in sync again
the watermark moves without them, and the ELR is empty.

**A restart after an unclean stop** takes nothing from the ELR of a topic whose records are flushed before they count:
see decision 18. Where flushing is left to the operating system, such a replica has lost its claim (`lost`).

A partition with a single replica has no ELR: its replica stays in the ISR for good, as nobody else can have more.

Invariants: ISR and ELR are disjoint and within the replicas; the partition epoch rises with every change, the leader
epoch with every change of the leader and whenever a replica is removed.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from barnabas.core.metadata.image import Image, PartitionState, Topic
from barnabas.core.metadata.levels import METADATA_VERSION, SEVERAL_REPLICAS, level_of
from barnabas.core.metadata.records import (
    ALL_NODES,
    BROKER_RESOURCE,
    MIN_INSYNC_REPLICAS,
    NO_LEADER,
    RECOVERING,
    TOPIC_RESOURCE,
    PartitionRecord,
)

ELR_VERSION: Final = "eligible.leader.replicas.version"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
FLUSH_POLICY: Final = "flush.policy"
BROKER_FLUSH_POLICY: Final = "log.flush.policy"


class ElectionRules(NamedTuple):
    """What the settings of a topic say about its leaders."""

    min_insync_replicas: int = 1
    may_be_unclean: bool = False
    """Whether a replica that may lack records leads if no other can (`unclean.leader.election.enable`)."""
    is_flushed: bool = True
    """Whether records are on disk before they are acknowledged (`flush.policy` is not `os`)."""


RulesOf: TypeAlias = Callable[[Image, Topic], ElectionRules]


def rules_of(image: Image, topic: Topic) -> ElectionRules:
    """The rules that are in the metadata: the topic's own, else those of all nodes. The settings that only the files of
    nodes have are not there: whoever knows them passes a function of its own.
    """
    own, common = image.config_of(TOPIC_RESOURCE, topic.name), image.config_of(BROKER_RESOURCE, ALL_NODES)
    return ElectionRules(
        min_insync_replicas=int(_setting(own, common, MIN_INSYNC_REPLICAS, "1")),
        may_be_unclean=_setting(own, common, UNCLEAN_ELECTION, "false").lower() == "true",
        is_flushed=own.get(FLUSH_POLICY, common.get(BROKER_FLUSH_POLICY, "fsync")) != "os",
    )


def _setting(own: Mapping[str, str], common: Mapping[str, str], name: str, default: str) -> str:
    return own.get(name, common.get(name, default))


def has_elr(image: Image) -> bool:
    """Whether new ELRs may be recorded."""
    if METADATA_VERSION not in image.features:
        return True
    return level_of(image) >= SEVERAL_REPLICAS and image.features.get(ELR_VERSION, 0) > 0


class Change(NamedTuple):
    """What is to change of a partition; None: nothing. Leaders, ELR and epochs follow from it."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    recovery_state: int | None = None
    lost: Collection[int] = ()
    """Replicas that may have lost acknowledged records: they leave ISR and ELR."""
    leader: int | None = None
    """The replica to elect, if it can lead; else as ever."""
    is_unclean: bool = False
    """Whether an operator asks for any leader, whatever the topic says."""


NO_CHANGE: Final = Change()


def changed(
    image: Image,
    state: PartitionState,
    change: Change = NO_CHANGE,
    *,
    rules: ElectionRules,
    may_lead: Callable[[int], bool] | None = None,
) -> PartitionRecord | None:
    """A partition after a change, with the leader that it has then; None if nothing changes.

    `may_lead` says which nodes are active, if that differs from the image: a node may be about to stop or start.
    """
    after = msgspec.structs.replace(
        state, **{name: value for name in _GIVEN if (value := getattr(change, name)) is not None}
    )
    if change.lost:
        after = msgspec.structs.replace(after, isr=_without(after.isr, change.lost))
    after = _with_finished_reassignment(after)
    after = _with_elr(image, state, after, change, rules)
    after = _with_leader(image, after, change, rules, image.is_active if may_lead is None else may_lead)
    after = _with_last_known(state, after)
    if after == state:
        return None
    is_new_epoch = after.leader != state.leader or not set(state.replicas) <= set(after.replicas)
    return msgspec.structs.replace(
        after, leader_epoch=state.leader_epoch + is_new_epoch, partition_epoch=state.partition_epoch + 1
    )


_GIVEN: Final = ("isr", "replicas", "adding", "removing", "recovery_state")


def _without(nodes: Collection[int], others: Collection[int]) -> tuple[int, ...]:
    return tuple(node for node in nodes if node not in others)


def needed_in_sync(state: PartitionState, rules: ElectionRules) -> int:
    """How many have to be in sync: `min.insync.replicas`, or all replicas if those are fewer."""
    return min(rules.min_insync_replicas, len(state.replicas))


def _with_finished_reassignment(after: PartitionState) -> PartitionState:
    """End a reassignment that is done: the target is in place.

    It is done when all replicas that were added are in sync. If the partition ends with fewer replicas than it had, all
    that stay must be in sync: those that go may be the only ones that have everything.
    """
    if not after.is_being_reassigned:
        return after
    isr, target = _without(after.isr, after.removing), _without(after.replicas, after.removing)
    needed = target if len(after.removing) > len(after.adding) else after.adding
    if not isr or not set(needed) <= set(isr):
        return after
    return msgspec.structs.replace(after, isr=isr, replicas=target, adding=(), removing=())


def _with_elr(
    image: Image, state: PartitionState, after: PartitionState, change: Change, rules: ElectionRules
) -> PartitionState:
    """The ELR that goes with the new ISR."""
    if len(after.isr) >= needed_in_sync(after, rules):
        return msgspec.structs.replace(after, elr=())
    # A partition that has an ELR goes by its rules to the end, though they may be switched off by now.
    if len(after.replicas) == 1 or not (has_elr(image) or state.elr or not state.isr):
        return msgspec.structs.replace(after, isr=after.isr or state.isr)  # the last one in sync stays
    had = sorted({*state.elr, *state.isr}, key=_order_in(after.replicas))
    elr = tuple(node for node in had if node in after.replicas and node not in after.isr and node not in change.lost)
    return msgspec.structs.replace(after, elr=elr)


def _order_in(replicas: tuple[int, ...]) -> Callable[[int], int]:
    places = {node: place for place, node in enumerate(replicas)}
    return lambda node: places.get(node, len(places))


def _with_leader(
    image: Image, after: PartitionState, change: Change, rules: ElectionRules, may_lead: Callable[[int], bool]
) -> PartitionState:
    """Elect a leader, if the one that is there cannot lead on or another is asked for."""
    eligible = after.isr or after.elr
    wanted = (*(() if change.leader is None else (change.leader,)), after.leader, *after.replicas)
    for node in wanted:
        if node in eligible and may_lead(node):
            if node in after.isr:
                return msgspec.structs.replace(after, leader=node)
            elr = () if needed_in_sync(after, rules) <= 1 else _without(after.elr, (node,))
            return msgspec.structs.replace(after, leader=node, isr=(node,), elr=elr)
    node = _unclean_leader(after, may_lead, may_be_any=rules.may_be_unclean or change.is_unclean)
    if node == NO_LEADER:
        return msgspec.structs.replace(after, leader=NO_LEADER)
    recovery_state = RECOVERING if level_of(image) >= SEVERAL_REPLICAS else after.recovery_state
    return msgspec.structs.replace(after, leader=node, isr=(node,), elr=(), recovery_state=recovery_state)


def _unclean_leader(after: PartitionState, may_lead: Callable[[int], bool], *, may_be_any: bool) -> int:
    """The leader when nobody has everything for certain: the one that was lost last, or any."""
    if not after.isr and not after.elr:
        # An active one alone (KAFKA-19522): a fenced leader would be deposed at once, and again, and again.
        known = after.last_known_elr if len(after.last_known_elr) == 1 else ()
        last = known or ((after.leader,) if after.leader != NO_LEADER else ())
        for node in last:
            if node in after.replicas and may_lead(node):
                return node
    return next((node for node in after.replicas if may_be_any and may_lead(node)), NO_LEADER)


def _with_last_known(state: PartitionState, after: PartitionState) -> PartitionState:
    """Remember the last leader of a partition that has none, as long as it has none."""
    known = after.last_known_elr
    if after.leader != NO_LEADER:
        known = ()
    elif not after.isr and state.leader != NO_LEADER:
        known = (state.leader,)
    return msgspec.structs.replace(after, last_known_elr=tuple(node for node in known if node in after.replicas))


def without_elr(topic: Topic) -> list[PartitionRecord]:
    """The partitions of a topic whose `min.insync.replicas` changes, without their ELR (KAFKA-16540).

    With a lower value the leader may acknowledge without those in the ELR, from the moment it hears of it. Where nobody
    is in sync nobody leads, and nothing can be acknowledged without them: they stay.
    """
    return [
        msgspec.structs.replace(state, elr=(), last_known_elr=(), partition_epoch=state.partition_epoch + 1)
        for state in topic.partitions.values()
        if state.isr and (state.elr or state.last_known_elr)
    ]
