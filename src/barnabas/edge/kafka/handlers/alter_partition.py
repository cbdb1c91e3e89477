"""AlterPartition, versions 2 and 3: the leader of partitions asks for other ISRs.

Version 2 has no broker epochs: what it names is not checked against them, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from uuid import UUID

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, NotController
from barnabas.core.metadata.isr import UNCHECKED_EPOCH, IsrChange
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.services.controller_partitions import Outcome
from barnabas.wire.apis import ALTER_PARTITION

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import alter_partition as message

_NO_ID: Final = UUID(int=0)
_EPOCHS_FROM: Final = 3


@serves(ALTER_PARTITION, 2, 3, on=On.CONTROLLERS)
async def handle(
    broker: Broker, request: message.AlterPartitionRequest, asked: Asked
) -> message.AlterPartitionResponse:
    """See the module."""
    changes = list(_changes(request, asked.version))
    try:
        broker.access.authorize(asked.session, Operation.CLUSTER_ACTION, CLUSTER)
        if broker.controller is None:
            raise NotController("this node is not a controller")
        outcomes = await broker.controller.alter_partitions(
            request.broker_id, broker_epoch=request.broker_epoch, changes=changes
        )
    except BarnabasError as error:
        return {"error_code": error.kafka_code, "topics": ()}
    topics: dict[UUID, list[message.PartitionDataAnswer]] = {}
    for change, outcome in zip(changes, outcomes, strict=True):
        topics.setdefault(change.topic_id, []).append(_answer(change.partition, outcome))
    return {
        "error_code": 0,
        "topics": [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()],
    }


def _changes(request: message.AlterPartitionRequest, version: int) -> Iterator[IsrChange]:
    for topic in request.topics:
        for each in topic.partitions:
            if version >= _EPOCHS_FROM:
                isr = tuple((state.broker_id, state.broker_epoch) for state in each.new_isr_with_epochs)
            else:
                isr = tuple((node_id, UNCHECKED_EPOCH) for node_id in each.new_isr)
            yield IsrChange(
                topic.topic_id or _NO_ID,
                each.partition_index,
                each.leader_epoch,
                each.partition_epoch,
                isr,
                each.leader_recovery_state,
                resigns=bool(each.resigns),
            )


def _answer(partition: int, outcome: Outcome) -> message.PartitionDataAnswer:
    if isinstance(outcome, BarnabasError):
        return {
            "partition_index": partition,
            "error_code": outcome.kafka_code,
            "leader_id": 0,
            "leader_epoch": 0,
            "isr": (),
            "leader_recovery_state": 0,
            "partition_epoch": 0,
        }
    return {
        "partition_index": partition,
        "error_code": 0,
        "leader_id": outcome.leader,
        "leader_epoch": outcome.leader_epoch,
        "isr": outcome.isr,
        "leader_recovery_state": outcome.recovery_state,
        "partition_epoch": outcome.partition_epoch,
    }
