"""The options of reads, as a client gives them: checked, with defaults, as values."""

from dataclasses import dataclass
from typing import Final

from barnabas.core.errors import InvalidRequest
from barnabas.edge.grpc.routing import Reading
from barnabas.services.offsets import EARLIEST, LATEST
from barnabas.v1 import bus_pb2

MAX_OUTSTANDING_RECORDS: Final = 10_000
MAX_OUTSTANDING_BYTES: Final = 16 * 1024 * 1024
MAX_BATCH_RECORDS: Final = 1_000
MAX_BATCH_BYTES: Final = 1024 * 1024
COMMIT_INTERVAL_MS: Final = 1_000
_MOST_RECORDS: Final = 1_000_000
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_BATCH_RECORDS: Final = 10_000
_MOST_BATCH_BYTES: Final = 4_000_000  # what clients take by default is 4 MiB
MAX_TOPICS: Final = 1_000
MAX_PARTITIONS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where reading starts: at an offset, or at the offset for a time or a name of `services.offsets`."""

    offset: int | None = None
    timestamp: int = EARLIEST


@dataclass(frozen=True, slots=True)
class Consuming:
    """What a Consume stream asks for."""

    topics: dict[str, dict[int, Beginning]]  # the partitions that are named; none: all
    group: str
    instance_id: str | None
    start: Beginning
    reading: Reading
    is_sure: bool
    is_automatic: bool
    max_outstanding_records: int
    max_outstanding_bytes: int
    max_batch_records: int
    max_batch_bytes: int
    until_end: bool
    commit_interval_s: float


def read_isolation(isolation: int) -> bool:
    """Whether only committed records are read."""
    if isolation not in bus_pb2.Isolation.values():
        raise InvalidRequest(f"isolation {isolation} is unknown")
    return isolation != bus_pb2.ISOLATION_READ_UNCOMMITTED


def read_consistency(consistency: int) -> tuple[bool, bool]:
    """Whether any replica will do, and whether the leader must be confirmed."""
    if consistency not in bus_pb2.Consistency.values():
        raise InvalidRequest(f"consistency {consistency} is unknown")
    return consistency == bus_pb2.CONSISTENCY_ANY, consistency == bus_pb2.CONSISTENCY_LEADER


def read_start(start: bus_pb2.Start) -> Beginning:
    """Where to start."""
    match start.WhichOneof("at"):
        case "latest":
            return Beginning(timestamp=LATEST)
        case "offset":
            if start.offset < 0:
                raise InvalidRequest(f"a start at offset {start.offset}; the first offset is 0")
            return Beginning(offset=start.offset)
        case "timestamp_ms":
            if start.timestamp_ms < 0:
                raise InvalidRequest(f"a start at time {start.timestamp_ms}, before 1970")
            return Beginning(timestamp=start.timestamp_ms)
        case _:
            return Beginning()


def read_options(options: bus_pb2.ConsumeOptions) -> Consuming:
    """The options of a stream."""
    at_any, is_sure = read_consistency(options.consistency)
    if options.ack_mode not in bus_pb2.AckMode.values():
        raise InvalidRequest(f"ack_mode {options.ack_mode} is unknown")
    if options.group and options.until_end:
        raise InvalidRequest("until_end is for readers without a group")
    if options.instance_id and not options.group:
        raise InvalidRequest("instance_id is for members of a group")
    if options.group and options.start.WhichOneof("at") == "offset":
        raise InvalidRequest("a group starts where it has committed, or at the earliest, the latest, or a time")
    return Consuming(
        topics=_topics(options),
        group=options.group,
        instance_id=options.instance_id or None,
        start=read_start(options.start),
        reading=Reading(is_committed=read_isolation(options.isolation), at_any=at_any),
        is_sure=is_sure,
        is_automatic=options.ack_mode == bus_pb2.ACK_MODE_AUTOMATIC,
        max_outstanding_records=_limit(
            "max_outstanding_records", options.max_outstanding_records, MAX_OUTSTANDING_RECORDS, _MOST_RECORDS
        ),
        max_outstanding_bytes=_limit(
            "max_outstanding_bytes", options.max_outstanding_bytes, MAX_OUTSTANDING_BYTES, _MOST_BYTES
        ),
        max_batch_records=_limit(
            "max_batch_records", options.max_batch_records, MAX_BATCH_RECORDS, _MOST_BATCH_RECORDS
        ),
        max_batch_bytes=_limit("max_batch_bytes", options.max_batch_bytes, MAX_BATCH_BYTES, _MOST_BATCH_BYTES),
        until_end=options.until_end,
        commit_interval_s=_limit("commit_interval_ms", options.commit_interval_ms, COMMIT_INTERVAL_MS, 3_600_000)
        / 1000,
    )


def _topics(options: bus_pb2.ConsumeOptions) -> dict[str, dict[int, Beginning]]:
    if not options.topics:
        raise InvalidRequest("name at least one topic")
    if len(options.topics) > MAX_TOPICS:
        raise InvalidRequest(f"a stream reads at most {MAX_TOPICS} topics, not {len(options.topics)}")
    found: dict[str, dict[int, Beginning]] = {}
    start = read_start(options.start)
    for each in options.topics:
        if not each.topic or each.topic in found:
            raise InvalidRequest("each topic is named once" if each.topic else "a topic needs a name")
        if each.partitions and options.group:
            raise InvalidRequest("the partitions of a group's member are assigned to it: name topics only")
        found[each.topic] = {
            one.partition: read_start(one.start) if one.HasField("start") else start for one in each.partitions
        }
        if len(found[each.topic]) != len(each.partitions):
            raise InvalidRequest(f"a partition of '{each.topic}' is named twice")
    return found


def _limit(name: str, given: int, default: int, most: int) -> int:
    if not 0 <= given <= most:
        raise InvalidRequest(f"{name} is {given}; allowed: 1 to {most}, or 0 for {default}")
    return given or default
