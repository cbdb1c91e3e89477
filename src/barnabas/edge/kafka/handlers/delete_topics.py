"""DeleteTopics, versions 1 to 6: by name, and from version 6 on by id.

Differs from Kafka: topics are deleted one after another, and answered in the order of the request.
"""

from collections import Counter
from typing import Any
from uuid import UUID

from barnabas.core.errors import BarnabasError, InvalidRequest, TopicDeletionDisabled
from barnabas.core.metadata.image import Image
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, answered_by, deadline_of, refused
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values

_IDS_FROM = 6
_KNOWS_DISABLED_FROM = 3  # the version from which on a client knows that error

Key = tuple[str | None, UUID | None]


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    is_by_id = asked.version >= _IDS_FROM
    counts: Counter[Key] = Counter()
    async for topic in in_turns(request.topics if is_by_id else request.topic_names):
        counts[(topic.name, topic.topic_id) if is_by_id else (topic, None)] += 1
    twice = await _named_and_by_id(broker.image, counts)
    deadline = deadline_of(broker, request)
    answers = []
    async for name, topic_id in in_turns(counts):
        try:
            _check_key(name, topic_id, count=counts[name, topic_id], is_twice=(name, topic_id) in twice)
            async with answered_by(deadline):
                answers.append(await _delete(broker, name, topic_id))
        except BarnabasError as error:
            answers.append({"name": name, "topic_id": topic_id, **_refused(error, asked.version)})
    return {"throttle_time": 0, "responses": answers}


async def _named_and_by_id(image: Image, keys: Counter[Key]) -> set[Key]:
    """What is asked for by its name and by its id as well: neither counts."""
    both: set[Key] = set()
    async for name, topic_id in in_turns(keys):
        topic = image.topics.get(name or "") if topic_id is None else None
        if topic is not None and (None, topic.topic_id) in keys:
            both |= {(name, None), (None, topic.topic_id)}
    return both


def _check_key(name: str | None, topic_id: UUID | None, *, count: int, is_twice: bool) -> None:
    if name is None and topic_id is None:
        raise InvalidRequest("Neither topic name nor id were specified.")
    if name is not None and topic_id is not None:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    if count > 1:
        raise InvalidRequest("Duplicate topic name." if topic_id is None else "Duplicate topic id.")
    if is_twice:
        raise InvalidRequest("The provided topic name maps to an ID that was already supplied.")


async def _delete(broker: Broker, name: str | None, topic_id: UUID | None) -> Values:
    if topic_id is not None:
        topic = await broker.topics.delete_by_id(topic_id)
    else:
        topic = await broker.topics.delete(name or "")
    return {"name": topic.name, "topic_id": topic.topic_id, **DONE}


def _refused(error: BarnabasError, version: int) -> Values:
    if isinstance(error, TopicDeletionDisabled) and version < _KNOWS_DISABLED_FROM:
        return refused(InvalidRequest(str(error)))
    return refused(error)
