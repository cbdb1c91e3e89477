"""The fetch session with one leader (KIP-227): what it was told already, and so need not be told again.

One request is under way at a time. The leader keeps what each partition was last asked for, and answers with what has
changed; a partition that is in neither is still being waited for.

Must not know: what is in the records, how a request is sent.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from barnabas.core.replica.follower import FollowerFetch
from barnabas.wire.writing import Values

NEW_SESSION: Final = 0
_LAST_EPOCH: Final = 2**31 - 1


class TopicIdPartition(NamedTuple):
    """A partition, by the id of its topic."""

    topic_id: UUID
    partition: int


class Limits(NamedTuple):
    """How much a follower asks for, and how long the leader may wait for it."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


class Self(NamedTuple):
    """Who fetches: a node, and the broker epoch of its registration."""

    node_id: int
    broker_epoch: int


class FollowerSession:
    """What a leader knows of what this node fetches from it."""

    def __init__(self) -> None:
        self._id = NEW_SESSION
        self._epoch = 0
        self._told: dict[TopicIdPartition, FollowerFetch] = {}  # what is not answered yet
        self._known: set[TopicIdPartition] = set()  # to the leader

    @property
    def is_new(self) -> bool:
        """Whether the leader has to be told everything."""
        return self._id == NEW_SESSION

    def reset(self) -> dict[TopicIdPartition, FollowerFetch]:
        """Begin anew; returns what was asked for, which nobody will answer."""
        told, self._told = self._told, {}
        self._known.clear()
        self._id, self._epoch = NEW_SESSION, 0
        return told

    def request(
        self,
        who: Self,
        wanted: Mapping[TopicIdPartition, FollowerFetch],
        forgotten: set[TopicIdPartition],
        limits: Limits,
    ) -> Values:
        """The next request: these partitions are asked for anew, those no longer, all others as before."""
        gone = [] if self.is_new else sorted(forgotten & self._known - wanted.keys())
        for place in gone:
            self._told.pop(place, None)
        self._told.update(wanted)
        self._known.difference_update(gone)
        self._known.update(wanted)
        return {
            "replica_id": who.node_id,
            "replica_state": {"replica_id": who.node_id, "replica_epoch": who.broker_epoch},
            "max_wait": limits.max_wait_ms,
            "min_bytes": limits.min_bytes,
            "max_bytes": limits.max_bytes,
            "session_id": self._id,
            "session_epoch": self._epoch,
            "topics": [
                {"topic_id": topic_id, "partitions": [_asked(number, fetch, limits) for number, fetch in some]}
                for topic_id, some in _by_topic(wanted).items()
            ],
            "forgotten_topics_data": [
                {"topic_id": topic_id, "partitions": [number for number, _ in some]}
                for topic_id, some in _by_topic(dict.fromkeys(gone)).items()
            ],
        }

    def note_answer(self, session_id: int) -> None:
        """The leader has answered, and has this session; 0: none, so that it is to be told everything again."""
        if session_id == NEW_SESSION:
            self._known.clear()
            self._id, self._epoch = NEW_SESSION, 0
        else:
            self._epoch = 1 if session_id != self._id or self._epoch == _LAST_EPOCH else self._epoch + 1
            self._id = session_id

    def take(self, place: TopicIdPartition) -> FollowerFetch | None:
        """What a partition that is in an answer was asked for: it is answered now."""
        return self._told.pop(place, None)


def _asked(number: int, fetch: FollowerFetch, limits: Limits) -> dict[str, Any]:
    return {
        "partition": number,
        "current_leader_epoch": fetch.leader_epoch,
        "fetch_offset": fetch.fetch_offset,
        "last_fetched_epoch": fetch.last_fetched_epoch,
        "log_start_offset": fetch.log_start_offset,
        "partition_max_bytes": limits.partition_max_bytes,
        "flushed_offset": fetch.durable_end_offset,
        "damaged_offset": fetch.damaged_offset,
    }


def _by_topic(places: Mapping[TopicIdPartition, Any]) -> dict[UUID, list[tuple[int, Any]]]:
    found: dict[UUID, list[tuple[int, Any]]] = defaultdict(list)
    for place, each in places.items():
        found[place.topic_id].append((place.partition, each))
    return found
