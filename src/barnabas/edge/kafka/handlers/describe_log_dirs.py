"""DescribeLogDirs, versions 1 to 5: the data directory, its partitions and their sizes.

Differs from Kafka: there is one directory; a partition that nobody has written to takes no room, and is listed with
that; the room of a file system that does not say is -1.
"""

from typing import Any

from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.log_dirs import LogDir, describe_log_dir
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    wanted: dict[str, list[int]] | None = None
    if request.topics is not None:
        wanted = {}
        async for topic in in_turns(request.topics):
            wanted.setdefault(topic.topic, []).extend(topic.partitions)
    described = await describe_log_dir(broker.logs, broker.served, broker.threads.reads, wanted)
    return {"throttle_time": 0, "error_code": 0, "results": [await _result(described)]}


async def _result(log_dir: LogDir) -> Values:
    return {
        "error_code": 0 if log_dir.error is None else log_dir.error.kafka_code,
        "log_dir": log_dir.path,
        "topics": [
            {"name": name, "partitions": [_partition(index, size) async for index, size in in_turns(sizes)]}
            for name, sizes in log_dir.sizes.items()
        ],
        "total_bytes": log_dir.space.total_bytes,
        "usable_bytes": log_dir.space.usable_bytes,
        "is_cordoned": False,
    }


def _partition(index: int, size: int) -> Values:
    return {"partition_index": index, "partition_size": size, "offset_lag": 0, "is_future_key": False}
