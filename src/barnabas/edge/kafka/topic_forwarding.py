"""Topics that a node creates of its own accord, when a client asks for them or groups and transactions need them.

The active controller creates them: CreateTopics, in an `Envelope`. Sending that again does no harm: a topic that exists
is what is wanted.
"""

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from barnabas.core.errors import BarnabasError, TopicExists
from barnabas.core.metadata.topics import NewTopic
from barnabas.edge.kafka.envelopes import NODE_ITSELF, Caller, Envelopes
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire.apis import CREATE_TOPICS
from barnabas.wire.frame import LENGTH_SIZE
from barnabas.wire.requests import frame_request
from barnabas.wire.responses import Values, read_response

_VERSION: Final = 7


class ForwardedTopics:
    """See `services.topics.TopicForwarding`."""

    def __init__(self, broker: Broker, envelopes: Envelopes) -> None:
        self._broker = broker
        self._envelopes = envelopes

    @property
    def is_away(self) -> bool:
        """Whether another node decides, or none."""
        return self._broker.link is not None and not self._broker.link.is_here

    async def create(
        self, new: Sequence[NewTopic], *, caller: Session | None, timeout_s: float
    ) -> dict[str, BarnabasError]:
        """Have topics created; returns those that are refused."""
        values = {"timeout": round(timeout_s * 1000), "topics": [_topic(each) for each in new]}
        request = frame_request(CREATE_TOPICS.key, _VERSION, values, correlation_id=0, client_id=None)
        data = await self._envelopes.send(
            request[LENGTH_SIZE:],
            NODE_ITSELF if caller is None else Caller.of(caller),
            deadline=asyncio.get_running_loop().time() + timeout_s,
            may_repeat=True,
        )
        answer = read_response(CREATE_TOPICS.key, _VERSION, data)
        return {
            topic.name: _kind_of(topic.error_code)(topic.error_message or f"error {topic.error_code}")
            for topic in answer.topics
            if topic.error_code not in (0, TopicExists.kafka_code)
        }


def _topic(new: NewTopic) -> Values:
    configs: list[Any] = [{"name": name, "value": value} for name, value in new.configs.items()]
    return {
        "name": new.name,
        "num_partitions": new.partition_count,
        "replication_factor": new.replication_factor,
        "configs": configs,
    }


@cache
def _kind_of(code: int) -> type[BarnabasError]:
    """A refusal that another node has decided."""
    return type("RefusedByController", (BarnabasError,), {"kafka_code": code})
