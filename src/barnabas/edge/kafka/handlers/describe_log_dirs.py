"""DescribeLogDirs, versions 1 to 5: the data directory, its partitions and their sizes.

Differs from Kafka: there is one directory; a partition that was never written to is listed with size 0; the space of a
file system that does not report any is -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.log_dirs import LogDir, describe_log_dir
from barnabas.wire.apis import DESCRIBE_LOG_DIRS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import describe_log_dirs as message


@serves(DESCRIBE_LOG_DIRS, 1, 5)
async def handle(
    broker: Broker, request: message.DescribeLogDirsRequest, asked: Asked
) -> message.DescribeLogDirsResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.DESCRIBE, CLUSTER)
    except BarnabasError as error:
        return {"error_code": error.kafka_code}
    wanted: dict[str, list[int]] | None = None
    if request.topics is not None:
        wanted = {}
        async for topic in in_turns(request.topics):
            wanted.setdefault(topic.topic, []).extend(topic.partitions)
    described = await describe_log_dir(broker.logs, broker.served, broker.threads.reads, wanted)
    return {"error_code": 0, "results": [await _result(described)]}


async def _result(log_dir: LogDir) -> message.DescribeLogDirsResult:
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


def _partition(index: int, size: int) -> message.DescribeLogDirsPartition:
    return {"partition_index": index, "partition_size": size, "offset_lag": 0, "is_future_key": False}
