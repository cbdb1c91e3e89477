"""DeleteTopics, versions 1 to 6: by name, and from version 6 on by id.

Differs from Kafka: topics are deleted one after another, and answered in the order of the request. Their partitions
count for the quota `controller_mutation_rate`; a topic over it is refused from version 5 on, and before that its client
is only held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.access.resources import topic as topic_of
from barnabas.core.errors import BarnabasError, InvalidRequest, TopicAuthorizationFailed, TopicDeletionDisabled
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, answered_by, deadline_of, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire.apis import DELETE_TOPICS

if TYPE_CHECKING:
    from barnabas.edge.kafka.handlers.outcome import Outcome
    from barnabas.edge.kafka.messages import delete_topics as message

_STRICT_FROM = 5  # the version from which on a client knows the error of a quota that is used up
_KNOWS_DISABLED_FROM = 3  # the version from which on a client knows that error

Key = tuple[str | None, UUID | None]


@serves(DELETE_TOPICS, 1, 6, on=On.ALL, is_forwarded=True)
async def handle(broker: Broker, request: message.DeleteTopicsRequest, asked: Asked) -> message.DeleteTopicsResponse:
    """See the module."""
    counts: Counter[Key] = Counter()
    async for key in in_turns(_keys(request)):
        counts[key] += 1
    twice = await _named_and_by_id(broker, counts)
    deadline = deadline_of(broker, request.timeout)
    answers: list[message.DeletableTopicResult] = []
    async for name, topic_id in in_turns(counts):
        try:
            _check_key(name, topic_id, count=counts[name, topic_id])
            _authorize(broker, asked.session, name, topic_id)
            if (name, topic_id) in twice:  # only now: it says which id a name has
                raise InvalidRequest("The provided topic name maps to an ID that was already supplied.")
            if broker.quotas.is_on:
                _count(broker, asked, name, topic_id)
            async with answered_by(deadline):
                answers.append(await _delete(broker, name, topic_id))
        except BarnabasError as error:
            told = _seen_name(broker, asked.session, topic_id) if isinstance(error, TopicAuthorizationFailed) else None
            answers.append({"name": name or told, "topic_id": topic_id, **_refused(error, asked.version)})
    return {"responses": answers}


def _keys(request: message.DeleteTopicsRequest) -> Iterator[Key]:
    """The topics of the request: older versions have names only, newer ones have topics instead."""
    yield from ((name, None) for name in request.topic_names)
    yield from ((topic.name, topic.topic_id) for topic in request.topics)


async def _named_and_by_id(broker: Broker, keys: Counter[Key]) -> set[Key]:
    """Topics named both by name and by id: both are refused."""
    both: set[Key] = set()
    async for name, topic_id in in_turns(keys):
        topic = broker.image.topics.get(name or "") if topic_id is None else None
        if topic is not None and (None, topic.topic_id) in keys:
            both |= {(name, None), (None, topic.topic_id)}
    return both


def _check_key(name: str | None, topic_id: UUID | None, *, count: int) -> None:
    if name is None and topic_id is None:
        raise InvalidRequest("Neither topic name nor id were specified.")
    if name is not None and topic_id is not None:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    if count > 1:
        raise InvalidRequest("Duplicate topic name." if topic_id is None else "Duplicate topic id.")


def _authorize(broker: Broker, session: Session, name: str | None, topic_id: UUID | None) -> None:
    topic = None if topic_id is None else broker.image.topics_by_id.get(topic_id)
    known = name if topic is None else topic.name
    if known is None or broker.access.allows_unnamed(session, Operation.DELETE, CLUSTER):
        return
    if not broker.access.allows_topic(session, Operation.DELETE, known):
        raise TopicAuthorizationFailed("not allowed: delete on this topic")  # whose name, by its id, stays unknown


def _seen_name(broker: Broker, session: Session, topic_id: UUID | None) -> str | None:
    """The name of a topic that the client may see, and not delete."""
    topic = None if topic_id is None else broker.image.topics_by_id.get(topic_id)
    if topic is None or not broker.access.permits(session, Operation.DESCRIBE, topic_of(topic.name)):
        return None
    return topic.name


def _count(broker: Broker, asked: Asked, name: str | None, topic_id: UUID | None) -> None:
    image = broker.image
    topic = image.topics.get(name or "") if topic_id is None else image.topics_by_id.get(topic_id)
    if topic is not None:
        broker.quotas.mutate(asked.session, len(topic.partitions), is_strict=asked.version >= _STRICT_FROM)


async def _delete(broker: Broker, name: str | None, topic_id: UUID | None) -> message.DeletableTopicResult:
    if topic_id is not None:
        topic = await broker.topics.delete_by_id(topic_id)
    else:
        topic = await broker.topics.delete(name or "")
    return {"name": topic.name, "topic_id": topic.topic_id, **DONE}


def _refused(error: BarnabasError, version: int) -> Outcome:
    if isinstance(error, TopicDeletionDisabled) and version < _KNOWS_DISABLED_FROM:
        return refused(InvalidRequest(str(error)))
    return refused(error)
