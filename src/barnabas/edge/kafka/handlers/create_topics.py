"""CreateTopics, versions 2 to 7.

Differs from Kafka: the topics of a request are created one after another, each whole or not at all, and are served
when the answer comes; topics after the one that ran out of time are answered with REQUEST_TIMED_OUT, too. A timeout of
0 or less is the broker's `request.timeout.ms`, as nothing is created in the background. As in Kafka a request for too
many partitions is refused as a whole; here that is a setting, `max.new.partitions.per.request`. Each topic counts for
the quota `controller_mutation_rate` as it is created; one over it is refused from version 6 on, and before that its
client is only held.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.access.resources import topic as topic_of
from barnabas.core.errors import (
    BarnabasError,
    InvalidReplicaAssignment,
    InvalidRequest,
    TopicAuthorizationFailed,
)
from barnabas.core.metadata.topics import NewTopic
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, answered_by, deadline_of, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.settings import DescribedSetting
from barnabas.services.settings.resources import describe_overrides
from barnabas.wire.apis import CREATE_TOPICS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import create_topics as message

_PER_TURN = 5  # each is described, too
_NOT_TOLD = -1
_STRICT_FROM = 6  # the version from which on a client knows the error of a quota that is used up
_DESCRIBED_FROM = 5  # the version from which on a created topic is described


@serves(CREATE_TOPICS, 2, 7, on=On.ALL, is_forwarded=True)
async def handle(broker: Broker, request: message.CreateTopicsRequest, asked: Asked) -> message.CreateTopicsResponse:
    """See the module."""
    counts: Counter[str] = Counter()
    partition_count = 0
    async for topic in in_turns(request.topics):
        counts[topic.name] += 1
        partition_count += broker.topics.partition_count_of(topic.num_partitions, topic.assignments)
    deadline = deadline_of(broker, request.timeout)
    answers: list[message.CreatableTopicResult] = []
    async for topic in in_turns(request.topics, per_turn=_PER_TURN):
        if counts[topic.name] == 0:
            continue  # it was answered
        try:
            if not broker.access.allows_unnamed(asked.session, Operation.CREATE, CLUSTER):
                broker.access.authorize_topic(asked.session, Operation.CREATE, topic.name)
            broker.topics.check_new_partitions(partition_count)
            if counts[topic.name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            if broker.quotas.is_on and not request.validate_only:
                new_count = broker.topics.partition_count_of(topic.num_partitions, topic.assignments)
                broker.quotas.mutate(asked.session, new_count, is_strict=asked.version >= _STRICT_FROM)
            async with answered_by(deadline):
                answers.append(await _create(broker, _new(topic), asked, validate_only=request.validate_only))
        except BarnabasError as error:
            answers.append({"name": topic.name, "configs": (), **refused(error)})
        counts[topic.name] = 0
    return {"topics": answers}


def _new(topic: message.CreatableTopic) -> NewTopic:
    assignments: dict[int, tuple[int, ...]] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in assignments:
            raise InvalidReplicaAssignment(
                f"Found multiple manual partition assignments for partition {assignment.partition_index}"
            )
        assignments[assignment.partition_index] = assignment.broker_ids
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        assignments or None,
        {config.name: config.value for config in topic.configs},
    )


async def _create(broker: Broker, new: NewTopic, asked: Asked, *, validate_only: bool) -> message.CreatableTopicResult:
    created = broker.topics.decide_new(new).reply if validate_only else await broker.topics.create(new)
    answer: message.CreatableTopicResult = {
        "name": new.name,
        "topic_id": created.topic_id,
        "num_partitions": created.partition_count,
        "replication_factor": created.replication_factor,
        **DONE,
    }
    if asked.version < _DESCRIBED_FROM:
        return answer
    if broker.access.allows_unnamed(asked.session, Operation.DESCRIBE_CONFIGS, topic_of(new.name)):
        given = {name: value for name, value in new.configs.items() if value is not None}  # null was refused
        described = describe_overrides(broker.image, broker.config, given)
        answer["configs"] = [_config(setting) for setting in sorted(described, key=lambda each: each.name)]
    else:
        answer["configs"], answer["topic_config_error_code"] = None, TopicAuthorizationFailed.kafka_code
        answer["num_partitions"] = answer["replication_factor"] = _NOT_TOLD
    return answer


def _config(setting: DescribedSetting) -> message.CreatableTopicConfigs:
    return {
        "name": setting.name,
        "value": setting.value,
        "read_only": setting.is_read_only,
        "config_source": setting.source,
        "is_sensitive": setting.is_sensitive,
    }
