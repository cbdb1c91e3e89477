"""Decisions about the brokers of a cluster: registration, fencing and shutdown.

A broker that starts registers, and gets an epoch, which all its requests carry: requests of a former incarnation are
refused. It starts fenced, unless the controller is in the same process, and asks to be unfenced by its heartbeats; that
is granted once it has applied the metadata up to its own registration. Missing heartbeats fence it (see `sessions`). It
asks for a controlled shutdown: its leaderships move first, and it may stop when it leads nothing and every active
broker knows that.

A broker that was killed and starts again need not wait for its old session: the same data directory means that the
process before it is gone, for a directory has one process at a time.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

import msgspec

from barnabas.core.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRequest,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from barnabas.core.metadata.cluster import allocate_producer_ids
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.electing import RulesOf, rules_of
from barnabas.core.metadata.elections import led_anew
from barnabas.core.metadata.image import Image, Node, PartitionState
from barnabas.core.metadata.leadership import Loss, forgetting, leads, with_node, without
from barnabas.core.metadata.levels import SEVERAL_NODES, SEVERAL_REPLICAS, level_of, node_at
from barnabas.core.metadata.records import Endpoint, MetadataRecord, NodeRecord, PartitionRecord, RemoveNodeRecord

NO_LEASE_SAID: Final = -1
"""The answer of a controller of an earlier version."""


NO_GENERATION: Final = 0


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """The registration of a broker."""

    node_id: int
    incarnation: UUID
    directory_id: UUID | None
    """The id of its data directory; None if the broker did not say."""
    endpoints: tuple[Endpoint, ...]
    """The endpoints of all its listeners, the one for clients first."""
    cluster_id: str | None = None
    """The cluster that it belongs to; None if it does not know yet, as a node that forms one."""
    previous_epoch: int | None = None
    """The epoch that it had when it stopped cleanly; None after any other stop."""
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()
    """The supported features: name, lowest and highest level."""
    generation: int = NO_GENERATION
    """The generation of its data directory from this start on."""
    previous_generation: int | None = None
    """The generation that its data directory had before this start; None if the broker did not say."""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A heartbeat of a broker."""

    node_id: int
    epoch: int
    metadata_offset: int
    """The offset of the last record of the metadata log that it has applied."""
    wants_fence: bool = False
    wants_shutdown: bool = False


class HeartbeatReply(msgspec.Struct, frozen=True):
    """The reply to a heartbeat."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    lease_ms: int = NO_LEASE_SAID
    """For how long after it was sent the heartbeat keeps others from leading what the broker leads."""
    decided_offset: int = 0
    """Where the controller's log ended, which had all that it had decided."""


def register(
    image: Image,
    registration: Registration,
    *,
    epoch: int,
    has_session: bool,
    is_local: bool = False,
    rules: RulesOf = rules_of,
) -> MetadataDecision[int]:
    """Register a broker; the reply is its epoch.

    `epoch` is higher than all before it: the offset at which the registration is written. `has_session`: whether an
    incarnation of this broker has a session. `is_local`: whether it runs in the process of the controller, and so has
    applied whatever is committed; any other incarnation of it is gone, for the controller is the same node.
    """
    known = image.nodes.get(registration.node_id)
    _check_cluster(image, registration)
    if known is not None and known.incarnation != registration.incarnation and has_session and not is_local:
        _check_same_directory(known, registration)
    _check_features(image, registration)
    if not registration.endpoints:
        raise InvalidRequest(f"broker {registration.node_id} has no listener")
    is_amended = known is not None and known.incarnation == registration.incarnation
    node = NodeRecord(
        registration.node_id,
        registration.endpoints[0].host,
        registration.endpoints[0].port,
        registration.rack,
        registration.incarnation,
        registration.endpoints,
        epoch=known.epoch if known is not None and is_amended else epoch,
        is_fenced=known.is_fenced if known is not None and is_amended else not is_local,
        is_leaving=known is not None and is_amended and known.is_leaving,
        directory_id=registration.directory_id,
        features=registration.features,
        generation=registration.generation,
    )
    if is_local or level_of(image) >= SEVERAL_NODES:  # others cannot register at a level that does not know of them
        node = node_at(node, level_of(image))
    if node == known:
        return MetadataDecision([], node.epoch)
    loss = Loss.NOTHING if is_amended else _loss_of(image, registration)
    records: list[MetadataRecord] = [node]
    if node.is_fenced:
        if (known is not None and not known.is_fenced) or loss is not Loss.NOTHING:
            # It leads again, under new epochs, once it is let in.
            records += without(image, node.node_id, rules=rules, loss=loss)
        return MetadataDecision(records, node.epoch)
    is_unclean = known is not None and not is_amended and registration.previous_epoch != known.epoch
    return MetadataDecision([node, *_there(image, node.node_id, loss, rules, is_unclean=is_unclean)], node.epoch)


def _loss_of(image: Image, registration: Registration) -> Loss:
    """What a broker that has restarted, or is back after it was removed, may have lost."""
    known = image.nodes.get(registration.node_id)
    directory_id = image.removed.get(registration.node_id) if known is None else known.directory_id
    if None not in (directory_id, registration.directory_id) and directory_id != registration.directory_id:
        return Loss.EVERYTHING
    if is_older_copy(image, registration):
        return Loss.SINCE_A_COPY
    if known is None and directory_id is None:
        return Loss.UNKNOWN
    return Loss.NOTHING if known is not None and registration.previous_epoch == known.epoch else Loss.UNSYNCED


def is_older_copy(image: Image, registration: Registration) -> bool:
    """Whether the data directory of a broker is an older copy of the one that it was last registered with."""
    known, previous = image.nodes.get(registration.node_id), registration.previous_generation
    return (
        known is not None
        and known.incarnation != registration.incarnation
        and known.directory_id == registration.directory_id
        and previous is not None
        and previous < known.generation
    )


def left_without_records(image: Image, records: Iterable[MetadataRecord]) -> list[str]:
    """The partitions, by name, of which these records of a registration leave nobody who has everything."""
    return [
        f"{image.topics_by_id[record.topic_id].name}-{record.partition}"
        for record in records
        if isinstance(record, PartitionRecord) and not record.isr and not record.elr and not record.last_known_elr
    ]


def _there(image: Image, node_id: int, loss: Loss, rules: RulesOf, *, is_unclean: bool) -> Iterator[PartitionRecord]:
    """The partitions that change as a broker is active from its registration on, each once.

    What it has led before an unclean stop it leads in a new epoch, whatever else changes: it may have lost records that
    others have, and writes others in their place.
    """
    changes = itertools.chain(
        forgetting(image, node_id, loss=loss, rules=rules) if loss is not Loss.NOTHING else (),
        with_node(image, node_id, rules=rules),
        led_anew(image, node_id) if is_unclean else (),
    )
    changed = set()
    for state in changes:
        if _place_of(state) not in changed:
            changed.add(_place_of(state))
            before = image.get_topic_by_id(state.topic_id).get_partition(state.partition)
            is_same = is_unclean and state.leader == node_id and state.leader_epoch == before.leader_epoch
            yield msgspec.structs.replace(state, leader_epoch=before.leader_epoch + 1) if is_same else state


def _place_of(state: PartitionState) -> tuple[UUID, int]:
    return state.topic_id, state.partition


def heartbeat(
    image: Image, beat: Heartbeat, *, is_known_to_leave: bool, rules: RulesOf = rules_of
) -> MetadataDecision[HeartbeatReply]:
    """Decide on a heartbeat: unfence or shut down the broker, if it asks for that and it is possible now.

    `is_known_to_leave`: whether every active broker has applied the records by which this one began to leave.
    """
    node = _registered_as(image, beat.node_id, epoch=beat.epoch)
    is_caught_up = beat.metadata_offset >= node.epoch
    if beat.wants_shutdown:
        return _leave(image, node, is_caught_up=is_caught_up, is_known_to_leave=is_known_to_leave, rules=rules)
    if node.is_fenced and not beat.wants_fence and is_caught_up:
        return _let_in(image, node, rules=rules)
    if not node.is_fenced and beat.wants_fence:
        records = fence(image, node.node_id, rules=rules).records
        return MetadataDecision(records, HeartbeatReply(is_caught_up, is_fenced=True, should_shut_down=False))
    return MetadataDecision([], HeartbeatReply(is_caught_up, node.is_fenced, should_shut_down=False))


def fence(image: Image, node_id: int, *, rules: RulesOf = rules_of) -> MetadataDecision[None]:
    """Fence a broker whose session has ended: it leads nothing and is in no ISR."""
    node = _registered(image, node_id)
    if node.is_fenced:
        return MetadataDecision([], None)
    return MetadataDecision(
        [msgspec.structs.replace(node, is_fenced=True), *without(image, node_id, rules=rules)], None
    )


def unregister(image: Image, node_id: int, *, has_session: bool, rules: RulesOf = rules_of) -> MetadataDecision[None]:
    """Remove a broker from the cluster permanently. Its replica assignments stay."""
    node = _registered(image, node_id)
    if has_session:
        raise InvalidRequest(f"broker {node_id} is running: only one that is gone for good can be unregistered")
    directory_id = node.directory_id if level_of(image) >= SEVERAL_REPLICAS else None
    return MetadataDecision([*without(image, node_id, rules=rules), RemoveNodeRecord(node_id, directory_id)], None)


def take_producer_ids(image: Image, node_id: int, *, epoch: int, count: int) -> MetadataDecision[range]:
    """Allocate a block of producer ids to a broker."""
    _registered_as(image, node_id, epoch=epoch)
    return allocate_producer_ids(image, count)


def _leave(
    image: Image, node: Node, *, is_caught_up: bool, is_known_to_leave: bool, rules: RulesOf
) -> MetadataDecision[HeartbeatReply]:
    if node.is_fenced:
        return MetadataDecision([], HeartbeatReply(is_caught_up, is_fenced=True, should_shut_down=True))
    if not node.is_leaving:
        records: list[MetadataRecord] = [msgspec.structs.replace(node, is_leaving=True)]
        records += without(image, node.node_id, rules=rules)
        return MetadataDecision(records, HeartbeatReply(is_caught_up, is_fenced=False, should_shut_down=False))
    if not is_known_to_leave or leads(image, node.node_id):
        return MetadataDecision([], HeartbeatReply(is_caught_up, is_fenced=False, should_shut_down=False))
    # It is fenced as it goes, not when its session is over: until then clients would be sent to it.
    fenced = fence(image, node.node_id, rules=rules).records
    return MetadataDecision(fenced, HeartbeatReply(is_caught_up, is_fenced=True, should_shut_down=True))


def _let_in(image: Image, node: Node, *, rules: RulesOf) -> MetadataDecision[HeartbeatReply]:
    there = msgspec.structs.replace(node, is_fenced=False, is_leaving=False)
    reply = HeartbeatReply(is_caught_up=True, is_fenced=False, should_shut_down=False)
    return MetadataDecision([there, *with_node(image, node.node_id, rules=rules)], reply)


def _registered(image: Image, node_id: int) -> Node:
    node = image.nodes.get(node_id)
    if node is None:
        raise BrokerIdNotRegistered(f"Broker ID {node_id} is not currently registered")
    return node


def _registered_as(image: Image, node_id: int, *, epoch: int) -> Node:
    node = _registered(image, node_id)
    if node.epoch != epoch:
        raise StaleBrokerEpoch(f"broker {node_id} is registered with epoch {node.epoch}, not {epoch}")
    return node


def _check_cluster(image: Image, registration: Registration) -> None:
    if registration.cluster_id not in (None, image.cluster_id):
        raise InconsistentClusterId(
            f"broker {registration.node_id} belongs to cluster {registration.cluster_id}, and this is cluster "
            f"{image.cluster_id}"
        )


def _check_same_directory(known: Node, registration: Registration) -> None:
    if known.directory_id is None or known.directory_id != registration.directory_id:
        raise DuplicateBrokerRegistration(
            f"another broker {known.node_id} is running, at {known.host}:{known.port}; give this one another node.id"
        )


def _check_features(image: Image, registration: Registration) -> None:
    """Refuse a broker that does not support a feature level in use: it could not read what others write."""
    known = {name: (lowest, highest) for name, lowest, highest in registration.features}
    for name, level in sorted(image.features.items()):
        lowest, highest = known.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise UnsupportedVersion(
                f"the cluster uses level {level} of {name}, and broker {registration.node_id} knows levels "
                f"{lowest} to {highest}; upgrade that broker"
            )
