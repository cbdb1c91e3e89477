"""CreatePartitions, versions 0 to 3. Differs from Kafka: topics are grown one after another."""

from collections import Counter
from typing import Any

from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, answered_by, deadline_of, refused
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    counts = Counter(topic.name for topic in request.topics)
    deadline = deadline_of(broker, request)
    answers = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            if counts[topic.name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            async with answered_by(deadline):
                await _grow(broker, topic, validate_only=request.validate_only)
            answers.append({"name": topic.name, **DONE})
        except BarnabasError as error:
            answers.append({"name": topic.name, **refused(error)})
    return {"throttle_time": 0, "results": answers}


async def _grow(broker: Broker, topic: Any, *, validate_only: bool) -> None:
    assignments = None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
    if validate_only:
        broker.topics.decide_partitions(topic.name, topic.count, assignments)
    else:
        await broker.topics.add_partitions(topic.name, topic.count, assignments)
