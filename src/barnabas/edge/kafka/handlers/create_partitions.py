"""CreatePartitions, versions 0 to 3. Differs from Kafka: topics are grown one after another.

As in Kafka a request for too many partitions is refused; here that is a setting, `max.new.partitions.per.request`.
"""

from collections import Counter
from typing import Any

from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, answered_by, deadline_of, refused
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    counts: Counter[str] = Counter()
    partition_count = 0
    async for topic in in_turns(request.topics):
        counts[topic.name] += 1
        partition_count += broker.topics.growth_of(topic.name, topic.count)
    deadline = deadline_of(broker, request)
    answers = []
    async for topic in in_turns(request.topics):
        if counts[topic.name] == 0:
            continue  # it was answered
        try:
            broker.topics.check_new_partitions(partition_count)
            if counts[topic.name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            async with answered_by(deadline):
                await _grow(broker, topic, validate_only=request.validate_only)
            answers.append({"name": topic.name, **DONE})
        except BarnabasError as error:
            answers.append({"name": topic.name, **refused(error)})
        counts[topic.name] = 0
    return {"throttle_time": 0, "results": answers}


async def _grow(broker: Broker, topic: Any, *, validate_only: bool) -> None:
    assignments = None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
    if validate_only:
        broker.topics.decide_partitions(topic.name, topic.count, assignments)
    else:
        await broker.topics.add_partitions(topic.name, topic.count, assignments)
