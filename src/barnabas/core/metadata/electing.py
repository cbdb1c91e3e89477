"""How a partition changes: its replicas, its ISR, its eligible leader replicas (ELR, KIP-966), and with them its
leader.

Every change of a partition that exists goes through `changed`, in this order: a reassignment that is done by it ends;
the ELR follows the ISR; a leader is elected; the epochs say what happened.

**Who may lead.** A valid leader stays. Else the first replica, in the order of the replicas, that is active and in
sync, or in the ELR if nobody is in sync. Else, with ISR and ELR empty, the leader that was lost last, once it is
active; or, if that one has lost its log, who was eligible last. Else, where the topic allows it, any active replica.
The last two may lack records: the leader begins as the only one in sync, and recovering.

**The ELR** are the replicas that left the ISR while it was smaller than `min.insync.replicas`. Nothing is acknowledged
from then on (the leader's watermark stands still), so they keep everything acknowledged. When enough are in sync again
the watermark moves without them, and the ELR is empty.

**A restart after an unclean stop** takes nothing from the ELR of a topic whose records are flushed before they count:
see decision 18. Where flushing is left to the operating system, such a replica has lost its claim (`lost`).

A partition with a single replica has no ELR: its replica stays in the ISR, as nobody else can have more, unless it has
lost everything (`emptied`). Then nobody is in sync and nobody leads: the partition is offline until its topic is
deleted, or an operator elects an unclean leader. Going on from offset 0 is for nobody else to decide.

Invariants: ISR and ELR are disjoint and within the replicas; the partition epoch rises with every change, the leader
epoch with every change of the leader and whenever a replica is removed.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
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
NOTHING_GIVEN: Final[Mapping[str, str]] = MappingProxyType({})


class ElectionRules(NamedTuple):
    """What the settings of a topic say about its leaders."""

    min_insync_replicas: int = 1
    may_be_unclean: bool = False
    """Whether a replica that may lack records leads if no other can (`unclean.leader.election.enable`)."""
    is_flushed: bool = True
    """Whether records are on disk before they are acknowledged (`flush.policy` is not `os`)."""


RulesOf: TypeAlias = Callable[[Image, Topic], ElectionRules]


def rules_of(image: Image, topic: Topic, given: Mapping[str, str] = NOTHING_GIVEN) -> ElectionRules:
    """The rules of a topic: its own, else those of all nodes in the metadata, else what the file of the controller has
    (`given`, by the names of topic settings).
    """
    own, common = image.config_of(TOPIC_RESOURCE, topic.name), image.config_of(BROKER_RESOURCE, ALL_NODES)

    def setting(name: str, default: str, *, common_name: str) -> str:
        return own.get(name, common.get(common_name, given.get(name, default)))

    return ElectionRules(
        min_insync_replicas=int(setting(MIN_INSYNC_REPLICAS, "1", common_name=MIN_INSYNC_REPLICAS)),
        may_be_unclean=setting(UNCLEAN_ELECTION, "false", common_name=UNCLEAN_ELECTION).lower() == "true",
        is_flushed=setting(FLUSH_POLICY, "fsync", common_name=BROKER_FLUSH_POLICY) != "os",
    )


def rules_given(given: Mapping[str, str]) -> RulesOf:
    """The rules of a controller whose file has these settings of topics."""
    return lambda image, topic: rules_of(image, topic, given)


def stand_in(image: Image, state: PartitionState) -> int:
    """The node that the controller would most likely have lead in the place of the leader, or `NO_LEADER`."""
    for eligible in (state.isr, state.elr):
        for node in state.replicas:
            if node in eligible and node != state.leader and image.is_active(node):
                return node
    return NO_LEADER


def has_elr(image: Image) -> bool:
    """Whether new ELRs may be recorded."""
    if METADATA_VERSION not in image.features:
        return True
    return level_of(image) >= SEVERAL_REPLICAS and image.features.get(ELR_VERSION, 0) > 0


class PartitionChange(NamedTuple):
    """What is to change of a partition; None: nothing. Leaders, ELR and epochs follow from it."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    recovery_state: int | None = None
    lost: Collection[int] = ()
    """Replicas that may have lost acknowledged records: they leave ISR and ELR."""
    emptied: Collection[int] = ()
    """Those of them that have lost everything: not even the last one in sync, or the last leader, goes on with nothing.
    """
    leader: int | None = None
    """The replica to elect, if it can lead; else as ever."""
    is_unclean: bool = False
    """Whether an operator asks for any leader, whatever the topic says."""


NO_CHANGE: Final = PartitionChange()


def changed(
    image: Image,
    state: PartitionState,
    change: PartitionChange = NO_CHANGE,
    *,
    rules: ElectionRules,
    may_lead: Callable[[int], bool] | None = None,
) -> PartitionRecord | None:
    """A partition after a change, with the leader that it has then; None if nothing changes.

    `may_lead` says which nodes are active, if that differs from the image: a node may be about to stop or start.
    """
    draft = _Draft(state, change)
    _finish_reassignment(draft)
    _settle_elr(image, state, draft, change, rules)
    _remember(state, draft, change)
    _elect(image, draft, change, rules, image.is_active if may_lead is None else may_lead)
    after = PartitionRecord(
        state.topic_id,
        state.partition,
        draft.replicas,
        draft.isr,
        draft.leader,
        state.leader_epoch + _begins_epoch(state, draft),
        state.partition_epoch,
        draft.elr,
        draft.last_known_elr,
        draft.recovery_state,
        draft.adding,
        draft.removing,
    )
    if after == state:
        return None
    return msgspec.structs.replace(after, partition_epoch=state.partition_epoch + 1)


def _begins_epoch(state: PartitionState, draft: "_Draft") -> bool:
    """Whether a leader epoch begins: with another leader, and when a replica is removed. A removed one deletes its log,
    and may be added again; the leader must forget how far it was.
    """
    return draft.leader != state.leader or not set(state.replicas) <= set(draft.replicas)


class _Draft:
    """A partition while it is being changed. Many may change at once, when a broker stops: so it is one object, not one
    for each step.
    """

    __slots__ = ("adding", "elr", "isr", "last_known_elr", "leader", "recovery_state", "removing", "replicas")

    def __init__(self, state: PartitionState, change: PartitionChange) -> None:
        isr = state.isr if change.isr is None else change.isr
        self.isr = without_nodes(isr, change.lost) if change.lost else isr
        self.replicas = state.replicas if change.replicas is None else change.replicas
        self.adding = state.adding if change.adding is None else change.adding
        self.removing = state.removing if change.removing is None else change.removing
        self.recovery_state = state.recovery_state if change.recovery_state is None else change.recovery_state
        self.elr, self.last_known_elr, self.leader = state.elr, state.last_known_elr, state.leader

    def needed_in_sync(self, rules: ElectionRules) -> int:
        """How many have to be in sync: `min.insync.replicas`, or all replicas if those are fewer."""
        return min(rules.min_insync_replicas, len(self.replicas))


def without_nodes(nodes: Collection[int], others: Collection[int]) -> tuple[int, ...]:
    """The nodes that are not among the others."""
    return tuple([node for node in nodes if node not in others])


def _finish_reassignment(draft: _Draft) -> None:
    """End a reassignment that is done: the target is in place.

    It is done when all replicas that were added are in sync. If the partition ends with fewer replicas than it had, all
    that stay must be in sync: those that go may be the only ones that have everything.
    """
    if not draft.adding and not draft.removing:
        return
    isr, target = without_nodes(draft.isr, draft.removing), without_nodes(draft.replicas, draft.removing)
    needed = target if len(draft.removing) > len(draft.adding) else draft.adding
    if isr and set(needed) <= set(isr):
        draft.isr, draft.replicas, draft.adding, draft.removing = isr, target, (), ()


def _settle_elr(
    image: Image, state: PartitionState, draft: _Draft, change: PartitionChange, rules: ElectionRules
) -> None:
    """The ELR that goes with the new ISR."""
    if len(draft.isr) >= draft.needed_in_sync(rules):
        draft.elr = ()
    # A partition that has an ELR goes by its rules to the end, though they may be switched off by now.
    elif len(draft.replicas) == 1 or not (has_elr(image) or state.elr or not state.isr):
        draft.isr = draft.isr or without_nodes(state.isr, change.emptied)  # the last one in sync stays
    else:
        had = {*state.elr, *state.isr} - {*draft.isr, *change.lost}
        draft.elr = tuple(node for node in draft.replicas if node in had)


def _remember(state: PartitionState, draft: _Draft, change: PartitionChange) -> None:
    """Note who had everything last, for a partition in which nobody has it for certain: its last leader, then those
    that lost their claim since. As long as nobody leads, nothing is acknowledged that they never had. Who has lost
    everything is not among them.
    """
    known = draft.last_known_elr
    if not draft.isr:
        if state.leader != NO_LEADER:
            known = (state.leader,)
        doubtful = [node for node in change.lost if node in (*state.isr, *state.elr) and node not in known]
        known = (*known, *doubtful)
    kept = (node for node in known if node in draft.replicas and node not in change.emptied)
    draft.last_known_elr = tuple(kept) if known else ()


def _elect(
    image: Image, draft: _Draft, change: PartitionChange, rules: ElectionRules, may_lead: Callable[[int], bool]
) -> None:
    """Elect a leader, if the one that is there cannot lead on or another is asked for."""
    eligible = draft.isr or draft.elr
    asked = () if change.leader is None else (change.leader,)
    for node in (*asked, draft.leader, *draft.replicas):
        if node in eligible and may_lead(node):
            draft.leader, draft.last_known_elr = node, ()
            if node not in draft.isr:
                draft.isr = (node,)
                draft.elr = () if draft.needed_in_sync(rules) <= 1 else without_nodes(draft.elr, draft.isr)
            return
    draft.leader = _unclean_leader(draft, may_lead, may_be_any=rules.may_be_unclean or change.is_unclean)
    if draft.leader != NO_LEADER:
        draft.isr, draft.elr, draft.last_known_elr = (draft.leader,), (), ()
        if level_of(image) >= SEVERAL_REPLICAS:
            draft.recovery_state = RECOVERING


def _unclean_leader(draft: _Draft, may_lead: Callable[[int], bool], *, may_be_any: bool) -> int:
    """The leader when nobody has everything for certain: the one that had it last, or any."""
    # An active one alone (KAFKA-19522): a fenced leader would be deposed at once, and again, and again.
    if not draft.isr and not draft.elr and draft.last_known_elr and may_lead(draft.last_known_elr[0]):
        return draft.last_known_elr[0]
    return next((node for node in draft.replicas if may_be_any and may_lead(node)), NO_LEADER)


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
