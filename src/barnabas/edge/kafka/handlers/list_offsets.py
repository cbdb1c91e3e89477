"""ListOffsets, versions 1 to 11: the first and the last offset of partitions, and offsets by time.

Differs from Kafka: whoever asks, a replica or a debugging consumer included, is told of what consumers may read.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.core.model import NO_EPOCH
from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.partition import Partition
from barnabas.runtime.turns import in_turns, pieces
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
from barnabas.wire.errors import UnsupportedVersion
from barnabas.wire.responses import Values

_READ_COMMITTED: Final = 1
_FROM_VERSION: Final = {
    LATEST: 1,
    EARLIEST: 1,
    NEWEST_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

Key = tuple[str, int]
Outcome = TimedOffset | BarnabasError


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    is_committed = getattr(request, "isolation_level", 0) == _READ_COMMITTED
    counts: Counter[Key] = Counter()
    async for topic, each in in_turns(_places(request)):
        counts[topic.name, each.partition_index] += 1
    ends = [_asked_for_end(broker, topic.name, each) async for topic, each in in_turns(_places(request))]
    await wait_synced(each for each in ends if each is not None)
    outcomes: dict[Key, Outcome] = {}
    lookups: dict[Key, Lookup] = {}
    async for topic, wanted in in_turns(_places(request)):
        key = (topic.name, wanted.partition_index)
        try:
            if counts[key] > 1:
                raise InvalidRequest(f"partition {wanted.partition_index} of '{topic.name}' is asked for twice")
            found = _find(broker, key, wanted, version=asked.version, is_committed=is_committed)
        except BarnabasError as error:
            outcomes[key] = error.with_traceback(None)  # which would keep this very frame, and all that is in it
        else:
            if isinstance(found, TimedOffset):
                outcomes[key] = found
            else:
                lookups[key] = found
    async for keys in pieces(list(lookups)):
        outcomes.update(await _look_all(broker, {key: lookups[key] for key in keys}))
    return {"throttle_time": 0, "topics": await _topics(counts, outcomes)}


def _places(request: Any) -> Iterator[tuple[Any, Any]]:
    return ((topic, each) for topic in request.topics for each in topic.partitions)


def _asked_for_end(broker: Broker, topic: str, wanted: Any) -> Partition | None:
    """A partition of which more than the beginning is asked for, if it has what is being synced: that may be it."""
    if wanted.timestamp < NEWEST_TIMESTAMP or wanted.timestamp == EARLIEST:
        return None
    served = broker.served.by_name.get(topic)
    partition = None if served is None else served.partitions.get(wanted.partition_index)
    return partition if partition is not None and partition.is_behind else None


def _find(broker: Broker, key: Key, wanted: Any, *, version: int, is_committed: bool) -> TimedOffset | Lookup:
    if wanted.timestamp < 0 and version < _FROM_VERSION.get(wanted.timestamp, 2**15):
        raise UnsupportedVersion(f"version {version} has no timestamp {wanted.timestamp}")
    partition = broker.served.get_partition(*key)
    check_leader_epoch(partition, getattr(wanted, "current_leader_epoch", NO_EPOCH))
    return find_offset(partition, wanted.timestamp, is_committed=is_committed)


async def _look_all(broker: Broker, lookups: Mapping[Key, Lookup]) -> dict[Key, Outcome]:
    return await broker.threads.compute.run(lambda: {key: _look(lookup) for key, lookup in lookups.items()})


def _look(lookup: Lookup) -> Outcome:
    try:
        return lookup()
    except BarnabasError as error:
        return error.with_traceback(None)


async def _topics(keys: Counter[Key], outcomes: dict[Key, Outcome]) -> list[Values]:
    """The answers by topic, in the order of the request."""
    partitions: dict[str, list[Values]] = {}
    async for name, index in in_turns(keys):
        partitions.setdefault(name, []).append(_partition(index, outcomes[name, index]))
    return [{"name": name, "partitions": answers} for name, answers in partitions.items()]


def _partition(index: int, outcome: Outcome) -> Values:
    error_code = outcome.kafka_code if isinstance(outcome, BarnabasError) else 0
    timestamp, offset, leader_epoch = NOT_FOUND if isinstance(outcome, BarnabasError) else outcome
    return {
        "partition_index": index,
        "error_code": error_code,
        "timestamp": timestamp,
        "offset": offset,
        "leader_epoch": leader_epoch,
    }
