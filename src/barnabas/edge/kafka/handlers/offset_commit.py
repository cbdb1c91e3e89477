"""OffsetCommit, versions 2 to 10: keep how far a group has read. From version 10 on topics are named by their ids.

As Kafka does it: what is not there is refused by itself, and what is there is still committed. Versions below 9 do not
know GROUP_ID_NOT_FOUND, and hear ILLEGAL_GENERATION.
"""

from typing import Any, Final

from barnabas.core.errors import (
    BarnabasError,
    GroupIdNotFound,
    IllegalGeneration,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from barnabas.core.groups.offsets import DEFAULT_RETENTION, CommitRequest, NewOffset
from barnabas.core.model import NO_EPOCH
from barnabas.edge.kafka.asked import Asked
from barnabas.services.broker import Broker
from barnabas.services.served import ServedTopic
from barnabas.wire.requests import to_ms
from barnabas.wire.responses import Values

_EPOCHS_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 10

# The code of each partition of each topic, in the order of the request; None while it is not known.
Codes = list[list[int | None]]


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    new_offsets: list[NewOffset] = []
    codes: Codes = [_take(broker, topic, asked.version, new_offsets) for topic in request.topics]
    committed = iter(await _commit(broker, request, asked.version, new_offsets) if new_offsets else ())
    return {
        "throttle_time": 0,
        "topics": [
            {
                "name": getattr(topic, "name", None),
                "topic_id": getattr(topic, "topic_id", None),
                "partitions": [
                    {
                        "partition_index": partition.partition_index,
                        "error_code": next(committed) if code is None else code,
                    }
                    for partition, code in zip(topic.partitions, topic_codes, strict=True)
                ],
            }
            for topic, topic_codes in zip(request.topics, codes, strict=True)
        ],
    }


def _take(broker: Broker, topic: Any, version: int, new_offsets: list[NewOffset]) -> list[int | None]:
    """Put what can be committed of a topic into `new_offsets`, and refuse the rest."""
    served = _find(broker, topic, version)
    if served is None:
        error = UnknownTopicId if version >= _TOPIC_IDS_FROM else UnknownTopicOrPartition
        return [error.kafka_code] * len(topic.partitions)
    codes: list[int | None] = []
    for partition in topic.partitions:
        if partition.partition_index not in served.partitions:
            codes.append(UnknownTopicOrPartition.kafka_code)
            continue
        codes.append(None)
        new_offsets.append(
            NewOffset(
                served.name,
                partition.partition_index,
                partition.committed_offset,
                getattr(partition, "committed_leader_epoch", NO_EPOCH),
                partition.committed_metadata,
                served.topic_id,
            )
        )
    return codes


def _find(broker: Broker, topic: Any, version: int) -> ServedTopic | None:
    if version >= _TOPIC_IDS_FROM:
        return None if topic.topic_id is None else broker.served.by_id.get(topic.topic_id)
    return broker.served.by_name.get(topic.name)


async def _commit(broker: Broker, request: Any, version: int, new_offsets: list[NewOffset]) -> list[int]:
    retention = getattr(request, "retention_time", None)
    try:
        errors = await broker.groups.commit_offsets(
            CommitRequest(
                group=request.group_id,
                offsets=new_offsets,
                generation=request.generation_id_or_member_epoch,
                member_id=request.member_id,
                instance_id=getattr(request, "group_instance_id", None),
                retention_ms=DEFAULT_RETENTION if retention is None else to_ms(retention),
                knows_epochs=version >= _EPOCHS_FROM,
            )
        )
    except GroupIdNotFound as error:
        code = error.kafka_code if version >= _EPOCHS_FROM else IllegalGeneration.kafka_code
        return [code] * len(new_offsets)
    except BarnabasError as error:
        return [error.kafka_code] * len(new_offsets)
    return [0 if error is None else error.kafka_code for error in errors]
