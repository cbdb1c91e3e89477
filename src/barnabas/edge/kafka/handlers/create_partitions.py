"""CreatePartitions, versions 0 to 3. Differs from Kafka: topics are grown one after another.

As in Kafka a request for too many partitions is refused; here that is a setting, `max.new.partitions.per.request`. New
partitions count for the quota `controller_mutation_rate`; a topic over it is refused from version 3 on, and before that
its client is only held.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.core.access.resources import Operation
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, answered_by, deadline_of, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import CREATE_PARTITIONS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import create_partitions as message

_STRICT_FROM = 3  # the version from which on a client knows the error of a quota that is used up


@serves(CREATE_PARTITIONS, 0, 3, on=On.ALL, is_forwarded=True)
async def handle(
    broker: Broker, request: message.CreatePartitionsRequest, asked: Asked
) -> message.CreatePartitionsResponse:
    """See the module."""
    counts: Counter[str] = Counter()
    partition_count = 0
    async for topic in in_turns(request.topics):
        counts[topic.name] += 1
        partition_count += broker.topics.growth_of(topic.name, topic.count)
    deadline = deadline_of(broker, request.timeout)
    answers: list[message.CreatePartitionsTopicResult] = []
    async for topic in in_turns(request.topics):
        if counts[topic.name] == 0:
            continue  # it was answered
        try:
            broker.access.authorize_topic(asked.session, Operation.ALTER, topic.name)
            broker.topics.check_new_partitions(partition_count)
            if counts[topic.name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            if broker.quotas.is_on and not request.validate_only:
                growth = broker.topics.growth_of(topic.name, topic.count)
                broker.quotas.mutate(asked.session, growth, is_strict=asked.version >= _STRICT_FROM)
            async with answered_by(deadline):
                await _grow(broker, topic, validate_only=request.validate_only)
            answers.append({"name": topic.name, **DONE})
        except BarnabasError as error:
            answers.append({"name": topic.name, **refused(error)})
        counts[topic.name] = 0
    return {"results": answers}


async def _grow(broker: Broker, topic: message.CreatePartitionsTopic, *, validate_only: bool) -> None:
    assignments = None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
    if validate_only:
        broker.topics.decide_partitions(topic.name, topic.count, assignments)
    else:
        await broker.topics.add_partitions(topic.name, topic.count, assignments)
