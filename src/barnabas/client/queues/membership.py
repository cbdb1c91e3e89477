"""The membership in a share group: heartbeats to its coordinator, in a thread of its own.

Owns the member's epoch and what it is assigned. A coordinator that moves or is away is looked for until it is found; a
member that was removed joins again. After an answer that was lost the member names its topics, so that it is told all
that it is assigned: that may have been in the lost one. Any other refusal ends it, and is handed on.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from barnabas.client.brokers import Brokers, CoordinatorKind
from barnabas.client.coordinators import Coordinators
from barnabas.client.errors import Unreachable
from barnabas.client.queues.locks import Place
from barnabas.core.errors import BarnabasError
from barnabas.wire.apis import SHARE_GROUP_HEARTBEAT
from barnabas.wire.writing import Values

_JOINING: Final = 0
_LEAVING: Final = -1
_REMOVED: Final = frozenset({25, 110})  # UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH
_NO_GROUP: Final = 69  # GROUP_ID_NOT_FOUND: for a member, that its group was deleted; else that it is of another type
_PATIENCE_S: Final = 1.0
_CLOSE_S: Final = 10.0
_EAGER_S: Final = 0.1  # until something is assigned
_EAGER_COUNT: Final = 50


class Member:
    """What a member says, and what it knows. Pure."""

    def __init__(self, group: str, member_id: str, topics: Iterable[str]) -> None:
        self.group = group
        self.member_id = member_id
        self._topics = sorted(topics)
        self._epoch = _JOINING
        self._eager_left = _EAGER_COUNT
        self._is_unsure = False  # an answer was lost
        self._has_named = False  # the last heartbeat had the topics
        self.assigned: frozenset[Place] = frozenset()

    @property
    def is_in(self) -> bool:
        return self._epoch > _JOINING

    def heartbeat(self) -> Values:
        self._has_named = self._epoch == _JOINING or self._is_unsure
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self._epoch,
            "subscribed_topic_names": self._topics if self._has_named else None,
        }

    def farewell(self) -> Values:
        return {**self.heartbeat(), "member_epoch": _LEAVING, "subscribed_topic_names": None}

    def accept(self, answer: Any) -> float:
        """Take over an answer; returns in how many seconds the next heartbeat is due."""
        self._epoch = int(answer.member_epoch)
        if answer.assignment is not None:
            self.assigned = frozenset(
                Place(topic.topic_id, int(partition))
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            )
        interval_s = float(answer.heartbeat_interval.total_seconds())
        if self._is_unsure and not self._has_named:
            return 0.0
        self._is_unsure = False
        if self.assigned or not self._eager_left:
            return interval_s
        # Partitions are assigned once their state is there, which takes a moment for a new group.
        self._eager_left -= 1
        return min(_EAGER_S, interval_s)

    def note_unanswered(self) -> None:
        """What the coordinator has answered may be lost."""
        self._is_unsure = True

    def note_removed(self) -> None:
        self._epoch = _JOINING
        self._eager_left = _EAGER_COUNT


class Membership:
    """Keeps a member in its group until it is closed."""

    def __init__(
        self,
        brokers: Brokers,
        member: Member,
        *,
        on_assigned: Callable[[frozenset[Place]], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._brokers = brokers
        self._coordinators = Coordinators(brokers)
        self._member = member
        self._on_assigned = on_assigned
        self._on_failure = on_failure
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="barnabas-queue-member", daemon=True)
        self._ended = threading.Event()  # not a join, which a signal may end too early (`queue`)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Leave the group, if its coordinator can be reached."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._ended.wait(_CLOSE_S)

    def _run(self) -> None:
        try:
            wait_s = 0.0
            while not self._stop.wait(wait_s):
                wait_s = self._beat()
            self._leave()
        except BaseException as error:  # also a bug: it is seen where jobs are waited for
            is_unseen = self._stop.is_set()  # nobody waits for jobs any more
            self._on_failure(error)
            if is_unseen and not isinstance(error, BarnabasError):
                raise
        finally:
            self._brokers.close()
            self._ended.set()

    def _beat(self) -> float:
        before, lost_count = self._member.assigned, self._coordinators.lost_count
        try:
            answer = self._ask(self._member.heartbeat(), f"join group {self._member.group!r}")
        except Unreachable:
            self._member.note_unanswered()
            return _EAGER_S
        except BarnabasError as error:
            if not self._is_removal(error):
                raise
            self._member.note_removed()
            return _EAGER_S
        if self._coordinators.lost_count != lost_count:
            self._member.note_unanswered()
        wait_s = self._member.accept(answer)
        if self._member.assigned != before:
            self._on_assigned(self._member.assigned)
        return wait_s

    def _leave(self) -> None:
        if not self._member.is_in:
            return
        try:
            self._ask(self._member.farewell(), f"leave group {self._member.group!r}")
        except Unreachable:
            return  # it is removed when its session times out
        except BarnabasError as error:
            if not self._is_removal(error):
                raise

    def _is_removal(self, error: BarnabasError) -> bool:
        code = code_of(error)
        return code in _REMOVED or (code == _NO_GROUP and self._member.is_in)

    def _ask(self, values: Values, doing: str) -> Any:
        return self._coordinators.ask(
            CoordinatorKind.GROUP,
            self._member.group,
            SHARE_GROUP_HEARTBEAT.key,
            values,
            lambda answer: [int(answer.error_code)],
            doing=doing,
            patience_s=_PATIENCE_S,
        )


def code_of(error: BarnabasError) -> int:
    """Kafka's code of a refusal, also of one without a class of its own."""
    return int(getattr(error, "code", error.kafka_code))
