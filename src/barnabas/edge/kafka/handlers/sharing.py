"""What ShareFetch and ShareAcknowledge have in common: whose partitions a client may read, and who leads instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from barnabas.core.access.resources import Operation
from barnabas.core.errors import BarnabasError, InvalidRequest, NotLeaderOrFollower, TopicAuthorizationFailed
from barnabas.core.groups.records import NO_TOPIC_ID
from barnabas.edge.kafka.current_leaders import CurrentLeaders
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.services.share_fetch import Allowed, RawAcks
from barnabas.services.share_sessions import MAX_PARTITIONS, Place
from barnabas.wire.endpoints import NodeEndpoint

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    from barnabas.edge.kafka.messages import share_acknowledge, share_fetch

    class Leader(TypedDict, closed=True):
        """Who leads a partition; -1 if nobody needs to know."""

        leader_id: int
        leader_epoch: int


NOBODY: Final = (-1, -1)


async def acks_of(
    topics: Iterable[share_fetch.FetchTopic] | Iterable[share_acknowledge.AcknowledgeTopic],
) -> dict[Place, RawAcks]:
    """The partitions of a request, with what it acknowledges of each."""
    found: dict[Place, RawAcks] = {}
    for topic in topics:
        async for partition in in_turns(topic.partitions):
            if len(found) >= MAX_PARTITIONS:
                raise InvalidRequest(f"a request of a share session names more than {MAX_PARTITIONS} partitions")
            place = (topic.topic_id or NO_TOPIC_ID, partition.partition_index)
            if place in found:
                raise InvalidRequest(f"partition {place[1]} of topic {place[0]} is named twice")
            found[place] = [
                (each.first_offset, each.last_offset, each.acknowledge_types)
                for each in partition.acknowledgement_batches
            ]
    return found


class TopicAccess(Allowed):
    """Allows the topics that a client may read. Of one that does not exist the service says so."""

    def __init__(self, broker: Broker, session: Session) -> None:
        super().__init__({})
        self._broker = broker
        self._session = session

    def check(self, place: Place) -> None:
        """Refuse a partition."""
        if self._broker.access.is_open:
            return
        topic = self._broker.served.by_id.get(place[0])
        if topic is not None and not self._broker.access.allows_topic(self._session, Operation.READ, topic.name):
            raise TopicAuthorizationFailed("not allowed: read on this topic")  # without its name: it was not named


class Leaders:
    """The leaders that an answer names."""

    def __init__(self, broker: Broker, session: Session) -> None:
        self._leaders = CurrentLeaders(broker)
        self._listener = session.listener
        self._endpoints: dict[int, NodeEndpoint] = {}

    def name(self, topic_id: UUID, partition: int, *errors: BarnabasError | None) -> Leader:
        """Who leads a partition, if one of these errors makes that matter."""
        leader_id, leader_epoch = NOBODY
        if any(isinstance(error, NotLeaderOrFollower) for error in errors):
            leader_id, leader_epoch = self._leaders.find(topic_id, partition)
            self._leaders.locate(leader_id, self._listener, self._endpoints)
        return {"leader_id": leader_id, "leader_epoch": leader_epoch}

    def endpoints(self) -> list[NodeEndpoint]:
        """Where those leaders are."""
        return list(self._endpoints.values())


def code_of(error: BarnabasError | None) -> int:
    """The error code of a partition."""
    return 0 if error is None else error.kafka_code


def text_of(error: BarnabasError | None) -> str | None:
    """The error message of a partition."""
    return None if error is None else str(error)
