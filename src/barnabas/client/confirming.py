"""Where partitions end, according to leaders that are confirmed to lead: reads with the consistency `leader`.

A leader that is cut off from the others goes on answering until it hears of its successor, and knows nothing of what
that one has acknowledged. So the end that a leader tells counts only if nobody else led when it was told. A leader
knows that while it has a lease of the controller's, and says so.

A broker without leases does not say: one of another implementation, or of an earlier version. Then every replica of the
partition has to say, afterwards, that no later leader epoch has begun: a successor knows of its own before it
acknowledges anything. Only a replica that nobody counts as in sync may be out of reach. That is weaker: who is in sync
may be known wrongly by all that answer, and a replica that has just started may not know yet what it knew before.

Must not know: records. For one thread.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.client.brokers import Address, Brokers
from barnabas.client.errors import Passing, Unreachable, check
from barnabas.client.settings import Settings
from barnabas.core.errors import UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.wire.apis import LIST_OFFSETS, METADATA
from barnabas.wire.own_fields import LEASED, NOT_LEASED

_LATEST: Final = -1
_CONSUMER: Final = -1  # in the place of a replica's id
_TAGGED: Final = 6  # the version of ListOffsets from which on it has room for what brokers tell beyond Kafka
_RETRY_S: Final = 0.1
_ANSWER_S: Final = 5.0  # one that hangs leaves those in sync some seconds later


class Led(NamedTuple):
    """A partition, as one broker knows it."""

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class _View(NamedTuple):
    """These partitions, and where brokers are, as one broker knows them."""

    addresses: Mapping[int, Address]
    partitions: Mapping[TopicPartition, Led]


def confirmed_ends(
    settings: Settings, partitions: Sequence[TopicPartition], *, committed: bool, timeout_s: float
) -> dict[TopicPartition, int]:
    """The end of each partition: everything that was acknowledged before this was called is before it."""
    deadline = time.monotonic() + timeout_s
    brokers = Brokers(settings)
    try:
        while True:
            try:
                return _confirm(brokers, partitions, committed=committed)
            except (Unreachable, Passing) as error:
                if time.monotonic() >= deadline:
                    raise Unreachable(f"it cannot be confirmed who leads: {error}") from error
            brokers.close()
            time.sleep(_RETRY_S)
    finally:
        brokers.close()


def _confirm(brokers: Brokers, partitions: Sequence[TopicPartition], *, committed: bool) -> dict[TopicPartition, int]:
    first = _ask_view(brokers, None, partitions)
    ends, unsaid = _ask_ends(brokers, first, committed=committed)
    doubted = _View(first.addresses, {key: first.partitions[key] for key in unsaid})
    views, silent = _ask_replicas(brokers, doubted)
    for key, led in doubted.partitions.items():
        check_leads(key, led, [view.partitions[key] for view in views if key in view.partitions], silent)
    return ends


def check_leads(key: TopicPartition, led: Led, others: Iterable[Led], silent: Iterable[int]) -> None:
    """Refuse a leadership that is over as far as the replicas know, or that one in sync says nothing about."""
    known = [led, *others]
    if any(each.leader_epoch > led.leader_epoch for each in known):
        raise Passing(f"{key} has just got another leader")
    in_sync = {node_id for each in known for node_id in each.in_sync}
    for node_id in silent:
        if node_id in in_sync and node_id in led.replicas:
            raise Unreachable(f"node {node_id} is in sync in {key}, and does not answer")


def _ask_replicas(brokers: Brokers, first: _View) -> tuple[list[_View], list[int]]:
    """What all replicas but the leaders say, and which of them are silent."""
    wanted: dict[int, list[TopicPartition]] = {}
    for key, led in first.partitions.items():
        for node_id in led.replicas:
            if node_id != led.leader_id:
                wanted.setdefault(node_id, []).append(key)
    views, silent = [], []
    for node_id, keys in sorted(wanted.items()):
        address = first.addresses.get(node_id)
        try:
            if address is None:
                raise Unreachable(f"node {node_id} is not running")
            views.append(_ask_view(brokers, address, keys))
        except Unreachable:
            silent.append(node_id)
    return views, silent


def _ask_view(brokers: Brokers, address: Address | None, partitions: Sequence[TopicPartition]) -> _View:
    connection = brokers.any() if address is None else brokers.at(address)
    names = dict.fromkeys(key.topic for key in partitions)
    values = {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False}
    answer = connection.call(METADATA.key, values, timeout_s=_ANSWER_S)
    found = {
        TopicPartition(str(topic.name), int(each.partition_index)): _led(each)
        for topic in answer.topics
        for each in topic.partitions
    }
    known = {key: found[key] for key in partitions if key in found}
    if address is None and len(known) != len(set(partitions)):
        missing = next(key for key in partitions if key not in known)
        raise UnknownTopicOrPartition(f"partition {missing} does not exist")
    return _View({int(each.node_id): (str(each.host), int(each.port)) for each in answer.brokers}, known)


def _led(partition: Any) -> Led:
    return Led(
        int(partition.leader_id),
        int(getattr(partition, "leader_epoch", -1)),
        tuple(int(each) for each in partition.replica_nodes),
        tuple(int(each) for each in partition.isr_nodes),
    )


def _ask_ends(
    brokers: Brokers, view: _View, *, committed: bool
) -> tuple[dict[TopicPartition, int], list[TopicPartition]]:
    """The ends as leaders tell them; and the partitions whose leaders do not say whether nobody else leads."""
    unsaid: list[TopicPartition] = []
    by_leader: dict[int, list[TopicPartition]] = {}
    for key, led in view.partitions.items():
        by_leader.setdefault(led.leader_id, []).append(key)
    ends: dict[TopicPartition, int] = {}
    for leader_id, keys in by_leader.items():
        address = view.addresses.get(leader_id)
        if address is None:
            raise Passing(f"{keys[0]} has no leader")
        topics: dict[str, list[dict[str, int]]] = {}
        for key in keys:
            epoch = view.partitions[key].leader_epoch
            asked = {"partition_index": key.partition, "current_leader_epoch": epoch, "timestamp": _LATEST}
            topics.setdefault(key.topic, []).append(asked)
        values = {
            "replica_id": _CONSUMER,
            "isolation_level": int(committed),
            "wants_lease": 1,
            "topics": [{"name": name, "partitions": asked} for name, asked in topics.items()],
        }
        answer = brokers.at(address).call(LIST_OFFSETS.key, values, timeout_s=_ANSWER_S, up_to=_TAGGED)
        if is_unsaid(getattr(answer, "leased", 0), leader_id):
            unsaid += keys
        for topic in answer.topics:
            for each in topic.partitions:
                key = TopicPartition(str(topic.name), int(each.partition_index))
                check(each.error_code, f"look up the end of {key}")
                ends[key] = int(each.offset)
    return ends, unsaid


def is_unsaid(leased: int, leader_id: int) -> bool:
    """Whether a leader did not say if nobody else leads. Refused, to be tried again, if it cannot tell for now."""
    if leased == NOT_LEASED:
        raise Passing(f"no controller confirms that node {leader_id} leads")
    return leased != LEASED
