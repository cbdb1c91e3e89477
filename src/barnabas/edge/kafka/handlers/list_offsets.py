"""ListOffsets, versions 1 to 11: the first and the last offset of partitions, and offsets by time.

Differs from Kafka: a debugging consumer gets the offsets that consumers may read. A client that asks (`wants_lease`) is
told whether nobody else led these partitions as their offsets were found: by the lease of this broker (decision 23).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import (
    BarnabasError,
    InvalidRequest,
    LeaderNotAvailable,
    OffsetNotAvailable,
    TopicAuthorizationFailed,
)
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.letting_go import let_go_flat
from barnabas.runtime.partition import Partition
from barnabas.runtime.turns import next_turn, pieces
from barnabas.services.broker import Broker
from barnabas.services.fetch import check_leader_epoch
from barnabas.services.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    NEWEST_TIMESTAMP,
    NOT_FOUND,
    Lookup,
    find_offset,
)
from barnabas.services.syncing import wait_synced
from barnabas.storage.lookup import TimedOffset
from barnabas.wire.apis import LIST_OFFSETS
from barnabas.wire.errors import UnservedVersion
from barnabas.wire.own_fields import LEASED, NOT_LEASED

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import list_offsets as message

PER_TURN: Final = 250
"""Partitions in one turn, of which each takes a microsecond or two."""

_READ_COMMITTED: Final = 1
_FROM_VERSION: Final = {
    LATEST: 1,
    EARLIEST: 1,
    NEWEST_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

_NOT_AVAILABLE_FROM: Final = 5

Key = tuple[str, int]
Outcome = TimedOffset | BarnabasError


@serves(LIST_OFFSETS, 1, 11)
async def handle(broker: Broker, request: message.ListOffsetsRequest, asked: Asked) -> message.ListOffsetsResponse:
    """See the module."""
    is_committed, is_replica = request.isolation_level == _READ_COMMITTED, request.replica_id >= 0
    may_all = is_replica and broker.access.allows(asked.session, Operation.CLUSTER_ACTION, CLUSTER)
    twice = await _wait_for_ends(broker, request, is_replica=is_replica)
    outcomes: dict[Key, Outcome] = {}
    is_leased = True
    lookups: dict[Key, Lookup] = {}
    async for name, partitions in _in_pieces(request):
        for wanted in partitions:
            key = (name, wanted.partition_index)
            try:
                if is_replica and not may_all:
                    raise TopicAuthorizationFailed(f"not allowed: replicating topic '{name}'")
                if not is_replica:
                    broker.access.authorize_topic(asked.session, Operation.DESCRIBE, name)
                if key in twice:
                    raise InvalidRequest(f"partition {wanted.partition_index} of '{name}' is named twice")
                found = _find(
                    broker, key, wanted, version=asked.version, is_committed=is_committed, is_replica=is_replica
                )
            except BarnabasError as error:
                outcomes[key] = error.with_traceback(None)  # which would keep this very frame, and all that is in it
                continue
            if request.wants_lease:  # in the turn in which it was found
                is_leased &= broker.served.get_partition(*key).may_answer
            if not isinstance(found, TimedOffset):
                lookups[key] = found
                found = NOT_FOUND  # in its place until it was looked up
            outcomes[key] = found
    async for keys in pieces(list(lookups)):
        outcomes.update(await _look_all(broker, {key: lookups[key] for key in keys}))
    topics = await _topics(outcomes)
    let_go_flat(outcomes, lookups)
    if not request.wants_lease:
        return {"topics": topics}
    return {"topics": topics, "leased": LEASED if is_leased else NOT_LEASED}


async def _in_pieces(
    request: message.ListOffsetsRequest,
) -> AsyncIterator[tuple[str, Sequence[message.ListOffsetsPartition]]]:
    """All partitions with the name of their topic, some of them in each turn."""
    left = PER_TURN
    for topic in request.topics:
        left -= 1
        at = 0
        while at < len(topic.partitions):
            if left <= 0:
                await next_turn()
                left = PER_TURN
            piece = topic.partitions[at : at + left]
            yield topic.name, piece
            at += len(piece)
            left -= len(piece)


async def _wait_for_ends(broker: Broker, request: message.ListOffsetsRequest, *, is_replica: bool) -> set[Key]:
    """Wait for the sync in progress of partitions asked for more than their start, which it may change. A replica does
    not: it is what is waited for. Returns the partitions named more than once.
    """
    seen: set[Key] = set()
    twice: set[Key] = set()
    behind: list[Partition] = []
    async for name, wanted in _in_pieces(request):
        served = broker.served.by_name.get(name)
        there = {} if served is None else served.partitions
        for each in wanted:
            key = (name, each.partition_index)
            if key in seen:
                twice.add(key)
            seen.add(key)
            partition = there.get(each.partition_index)
            if partition is not None and partition.is_behind and _is_end(each.timestamp):
                behind.append(partition)
    if behind and not is_replica:
        await wait_synced(behind)
    let_go_flat(seen)
    return twice


def _is_end(timestamp: int) -> bool:
    return timestamp >= NEWEST_TIMESTAMP and timestamp != EARLIEST


def _find(
    broker: Broker,
    key: Key,
    wanted: message.ListOffsetsPartition,
    *,
    version: int,
    is_committed: bool,
    is_replica: bool,
) -> TimedOffset | Lookup:
    if wanted.timestamp < 0 and version < _FROM_VERSION.get(wanted.timestamp, 2**15):
        raise UnservedVersion(f"version {version} has no timestamp {wanted.timestamp}")
    partition = broker.served.get_partition(*key)
    check_leader_epoch(partition, wanted.current_leader_epoch)
    try:
        return find_offset(partition, wanted.timestamp, is_committed=is_committed, is_replica=is_replica)
    except OffsetNotAvailable as refusal:
        if version >= _NOT_AVAILABLE_FROM:
            raise
        raise LeaderNotAvailable(str(refusal)) from None


async def _look_all(broker: Broker, lookups: Mapping[Key, Lookup]) -> dict[Key, Outcome]:
    return await broker.threads.compute.run(lambda: {key: _look(lookup) for key, lookup in lookups.items()})


def _look(lookup: Lookup) -> Outcome:
    try:
        return lookup()
    except BarnabasError as error:
        return error.with_traceback(None)


async def _topics(outcomes: dict[Key, Outcome]) -> list[message.ListOffsetsTopicResponse]:
    """The answers by topic, in the order of the request."""
    partitions: dict[str, list[message.ListOffsetsPartitionResponse]] = {}
    async for keys in pieces(list(outcomes), per_turn=PER_TURN):
        for name, index in keys:
            partitions.setdefault(name, []).append(_partition(index, outcomes[name, index]))
    return [{"name": name, "partitions": answers} for name, answers in partitions.items()]


def _partition(index: int, outcome: Outcome) -> message.ListOffsetsPartitionResponse:
    error_code = outcome.kafka_code if isinstance(outcome, BarnabasError) else 0
    timestamp, offset, leader_epoch = NOT_FOUND if isinstance(outcome, BarnabasError) else outcome
    return {
        "partition_index": index,
        "error_code": error_code,
        "timestamp": timestamp,
        "offset": offset,
        "leader_epoch": leader_epoch,
    }
