"""DeleteRecords, versions 0 to 2: move the start of partitions forward. As Kafka does it."""

from typing import Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import answered_by, deadline_of
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.delete_records import delete_records
from barnabas.wire.responses import Values

_NO_WATERMARK: Final = -1


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    deadline = deadline_of(broker, request)
    answers: list[Values] = []
    wanted = ((topic, each) for topic in request.topics for each in (None, *topic.partitions))
    async for topic, each in in_turns(wanted):
        if each is None:
            answers.append({"name": topic.name, "partitions": []})
        else:
            answer = await _delete(broker, topic.name, each.partition_index, each.offset, deadline)
            answers[-1]["partitions"].append(answer)
    return {"throttle_time": 0, "topics": answers}


async def _delete(broker: Broker, name: str, index: int, offset: int, deadline: float) -> Values:
    try:
        topic = broker.served.get(name)
        async with answered_by(deadline):
            low_watermark = await delete_records(broker.logs, topic, topic.get(index), offset)
    except BarnabasError as error:
        return {"partition_index": index, "low_watermark": _NO_WATERMARK, "error_code": error.kafka_code}
    return {"partition_index": index, "low_watermark": low_watermark, "error_code": 0}
