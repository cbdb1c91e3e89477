"""DeleteRecords, versions 0 to 2: move the start of partitions forward. As Kafka does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation
from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import answered_by, deadline_of
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.delete_records import delete_records
from barnabas.services.session import Session
from barnabas.wire.apis import DELETE_RECORDS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import delete_records as message

_NO_WATERMARK: Final = -1


@serves(DELETE_RECORDS, 0, 2)
async def handle(broker: Broker, request: message.DeleteRecordsRequest, asked: Asked) -> message.DeleteRecordsResponse:
    """See the module."""
    deadline = deadline_of(broker, request.timeout)
    answers: list[message.DeleteRecordsTopicResult] = []
    partitions: list[message.DeleteRecordsPartitionResult] = []
    wanted = ((topic, each) for topic in request.topics for each in (None, *topic.partitions))
    async for topic, each in in_turns(wanted):
        if each is None:
            partitions = []
            answers.append({"name": topic.name, "partitions": partitions})
        else:
            answer = await _delete(broker, asked.session, topic.name, each.partition_index, each.offset, deadline)
            partitions.append(answer)
    return {"topics": answers}


async def _delete(
    broker: Broker, session: Session, name: str, index: int, offset: int, deadline: float
) -> message.DeleteRecordsPartitionResult:
    try:
        broker.access.authorize_topic(session, Operation.DELETE, name)
        topic = broker.served.get(name)
        async with answered_by(deadline):
            low_watermark = await delete_records(broker.logs, topic, topic.get(index), offset)
    except BarnabasError as error:
        return {"partition_index": index, "low_watermark": _NO_WATERMARK, "error_code": error.kafka_code}
    return {"partition_index": index, "low_watermark": low_watermark, "error_code": 0}
