"""AlterReplicaLogDirs, versions 1 and 2: move partitions to other data directories of this node.

There is one directory. It is accepted as a target, and any other directory is refused with LOG_DIR_NOT_FOUND.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, ReplicaNotAvailable, UnknownTopicOrPartition
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.log_dirs import check_log_dir
from barnabas.services.session import Session
from barnabas.wire.apis import ALTER_REPLICA_LOG_DIRS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import alter_replica_log_dirs as message


@serves(ALTER_REPLICA_LOG_DIRS, 1, 2)
async def handle(
    broker: Broker, request: message.AlterReplicaLogDirsRequest, asked: Asked
) -> message.AlterReplicaLogDirsResponse:
    """See the module."""
    codes: dict[str, dict[int, int]] = {}
    wanted = (
        (directory.path, topic.name, partition)
        for directory in request.dirs
        for topic in directory.topics
        for partition in topic.partitions
    )
    async for path, topic, partition in in_turns(wanted):
        codes.setdefault(topic, {})[partition] = _move(broker, asked.session, path, topic, partition)
    results: list[message.AlterReplicaLogDirTopicResult] = [
        {
            "topic_name": name,
            "partitions": [{"partition_index": index, "error_code": code} for index, code in partitions.items()],
        }
        for name, partitions in codes.items()
    ]
    return {"results": results}


def _move(broker: Broker, session: Session, path: str, topic: str, partition: int) -> int:
    try:
        broker.access.authorize(session, Operation.ALTER, CLUSTER)
        check_log_dir(broker.logs, path)
        broker.served.get_partition(topic, partition)
    except UnknownTopicOrPartition:
        return ReplicaNotAvailable.kafka_code
    except BarnabasError as error:
        return error.kafka_code
    return 0
