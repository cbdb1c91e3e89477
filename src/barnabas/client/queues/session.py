"""A share session with one broker: its epoch, and the partitions that the broker knows of it.

Pure: makes the values of requests, of which one is under way at a time. A session begins with a fetch; every request
counts its epoch up, also one that acknowledges; one with epoch -1 ends it.
"""

from collections.abc import Iterable
from typing import Any, Final

from barnabas.client.queues.locks import Ack, Lock, Place, ack_batches
from barnabas.wire.writing import Values

_FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1
_STRICT: Final = 1  # no more than max_records (KIP-1206)
_MAX_BYTES: Final = 8 * 1024 * 1024


class ShareSession:
    """What one broker knows of this member."""

    def __init__(self, group: str, member_id: str) -> None:
        self._group = group
        self._member_id = member_id
        self._epoch = 0
        self._known: set[Place] = set()

    @property
    def is_open(self) -> bool:
        """Whether the broker has the session: only then can it be told anything but a fetch."""
        return self._epoch > 0

    def fetch(self, wanted: Iterable[Place], *, max_records: int, max_wait_ms: int) -> Values:
        """A fetch of these partitions: what is new is named, and what is no longer wanted is forgotten."""
        places = set(wanted)
        added, gone = sorted(places - self._known), sorted(self._known - places)
        self._known = places
        return {
            **self._head(),
            "max_wait": max_wait_ms,
            "min_bytes": 1,
            "max_bytes": _MAX_BYTES,
            "max_records": max_records,
            "batch_size": max_records,
            "share_acquire_mode": _STRICT,
            "is_renew_ack": False,
            "topics": _topics({place: [] for place in added}),
            "forgotten_topics_data": [
                {"topic_id": topic_id, "partitions": [each.partition for each in gone if each.topic_id == topic_id]}
                for topic_id in dict.fromkeys(each.topic_id for each in gone)
            ],
        }

    def acknowledge(self, locks: Iterable[Lock]) -> Values:
        """What became of records."""
        return self._acknowledge(locks, None)

    def renew(self, locks: Iterable[Lock]) -> Values:
        """That they are still worked on."""
        return self._acknowledge(locks, Ack.RENEW)

    def close(self, locks: Iterable[Lock]) -> Values:
        """The last acknowledgements, and the end of the session."""
        values = {**self._acknowledge(locks, None), "share_session_epoch": _FINAL_EPOCH}
        self._epoch = 0
        self._known.clear()
        return values

    def _acknowledge(self, locks: Iterable[Lock], kind: Ack | None) -> Values:
        assert self.is_open, "a session begins with a fetch"
        by_place: dict[Place, list[Lock]] = {}
        for lock in locks:
            by_place.setdefault(lock.place, []).append(lock)
        self._known.update(by_place)  # also those that are named only here stay in the session
        batches = {place: ack_batches(by_place[place], kind) for place in sorted(by_place)}
        return {**self._head(), "is_renew_ack": kind is Ack.RENEW, "topics": _topics(batches)}

    def _head(self) -> Values:
        epoch = self._epoch
        self._epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        return {"group_id": self._group, "member_id": self._member_id, "share_session_epoch": epoch}


def _topics(batches: dict[Place, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    topics: dict[Any, list[dict[str, Any]]] = {}
    for place, each in batches.items():
        topics.setdefault(place.topic_id, []).append(
            {"partition_index": place.partition, "acknowledgement_batches": each}
        )
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]
