"""AlterReplicaLogDirs, versions 1 and 2: move partitions to other data directories of this node.

There is one directory. A partition is there already, and any other directory is refused with LOG_DIR_NOT_FOUND.
"""

from typing import Any

from barnabas.core.errors import BarnabasError, ReplicaNotAvailable, UnknownTopicOrPartition
from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.log_dirs import check_log_dir
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    codes: dict[str, dict[int, int]] = {}
    wanted = (
        (directory.path, topic.name, partition)
        for directory in request.dirs
        for topic in directory.topics
        for partition in topic.partitions
    )
    async for path, topic, partition in in_turns(wanted):
        codes.setdefault(topic, {})[partition] = _move(broker, path, topic, partition)
    results = [
        {
            "topic_name": name,
            "partitions": [{"partition_index": index, "error_code": code} for index, code in partitions.items()],
        }
        for name, partitions in codes.items()
    ]
    return {"throttle_time": 0, "results": results}


def _move(broker: Broker, path: str, topic: str, partition: int) -> int:
    try:
        check_log_dir(broker.logs, path)
        broker.served.get_partition(topic, partition)
    except UnknownTopicOrPartition:
        return ReplicaNotAvailable.kafka_code
    except BarnabasError as error:
        return error.kafka_code
    return 0
