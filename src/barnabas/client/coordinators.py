"""The coordinators of groups and transactions: finding them, and retrying requests while they move or load.

Every request may be repeated without harm. One that is not answered in time is `Unreachable`. For one thread.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from barnabas.client.batch_producer import failure_of
from barnabas.client.brokers import Address, Brokers, CoordinatorKind
from barnabas.client.errors import Unreachable, is_passing, words_of
from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.wire.apis import OFFSET_COMMIT, OFFSET_FETCH
from barnabas.wire.writing import Values

_RETRY_S: Final = 0.02
_NOT_THERE: Final = frozenset({15, 16})
_OPERATION_NOT_ATTEMPTED: Final = 55
_NO_OFFSET: Final = -1

CodesOf = Callable[[Any], Iterable[int]]


class Coordinators:
    """The coordinators of a cluster, looked up when they are needed."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._found: dict[tuple[CoordinatorKind, str], Address] = {}
        self.lost_count = 0
        """How often a connection was lost. A request sent over it may still arrive, at any time."""

    def ask(
        self,
        kind: CoordinatorKind,
        name: str,
        api_key: int,
        values: Values,
        codes_of: CodesOf,
        *,
        doing: str,
        patience_s: float,
    ) -> Any:
        """The response to a request; its error codes are all 0."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                answer = self._ask_once(kind, name, api_key, values)
                codes = [code for code in codes_of(answer) if code not in (0, _OPERATION_NOT_ATTEMPTED)]
            except Unreachable as error:
                self._start_over()
                problem: BarnabasError = error
            else:
                if not codes:
                    return answer
                problem = failure_of(codes[0], f"cannot {doing}: {words_of(codes[0])}")
                if not is_passing(codes[0]):
                    raise problem
                if codes[0] in _NOT_THERE:
                    self._found.pop((kind, name), None)
            if time.monotonic() >= deadline:
                raise Unreachable(f"cannot {doing} within {patience_s:.0f} s: {problem}") from None
            time.sleep(_RETRY_S)

    def _ask_once(self, kind: CoordinatorKind, name: str, api_key: int, values: Values) -> Any:
        if (kind, name) not in self._found:
            code, broker = self._brokers.coordinator(name, kind)
            if is_passing(code):
                raise Unreachable(f"{name!r} has no coordinator")
            if code:
                raise failure_of(code, f"cannot find the coordinator of {name!r}: {words_of(code)}")
            self._found[kind, name] = broker.address
        return self._brokers.at(self._found[kind, name]).call(api_key, values)

    def _start_over(self) -> None:
        self.lost_count += 1
        self._brokers.close()
        self._found.clear()


def read_committed_offset(
    coordinators: Coordinators, group: str, key: TopicPartition, patience_s: float
) -> tuple[int, str] | None:
    """The offset and metadata that a group has committed, waiting for a transaction that may change it; or None."""
    return read_committed_offsets(coordinators, group, [key], patience_s).get(key)


def read_committed_offsets(
    coordinators: Coordinators,
    group: str,
    keys: Iterable[TopicPartition],
    patience_s: float,
    *,
    require_stable: bool = True,
) -> dict[TopicPartition, tuple[int, str]]:
    """The offsets and metadata that a group has committed, all as of one moment.

    With `require_stable`, transactions that may change them are waited for.
    """
    by_topic: dict[str, list[int]] = {}
    for key in keys:
        by_topic.setdefault(key.topic, []).append(key.partition)

    values = {
        "group_id": group,
        "topics": [{"name": topic, "partition_indexes": partitions} for topic, partitions in by_topic.items()],
        "require_stable": require_stable,
    }

    def codes(answer: Any) -> Iterable[int]:
        return [int(answer.error_code)] + [int(each.error_code) for topic in answer.topics for each in topic.partitions]

    answer = coordinators.ask(
        CoordinatorKind.GROUP,
        group,
        OFFSET_FETCH.key,
        values,
        codes,
        doing=f"read the progress of group {group!r}",
        patience_s=patience_s,
    )
    return {
        TopicPartition(str(topic.name), int(each.partition_index)): (int(each.committed_offset), each.metadata or "")
        for topic in answer.topics
        for each in topic.partitions
        if int(each.committed_offset) != _NO_OFFSET
    }


def commit_offsets(
    coordinators: Coordinators, group: str, offsets: Mapping[TopicPartition, int], patience_s: float, *, doing: str
) -> None:
    """Commit offsets of a group without being a member, which is allowed while the group has none."""
    by_topic: dict[str, list[TopicPartition]] = {}
    for key in sorted(offsets):
        by_topic.setdefault(key.topic, []).append(key)

    topics = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": key.partition, "committed_offset": offsets[key], "committed_metadata": ""}
                for key in keys
            ],
        }
        for topic, keys in by_topic.items()
    ]
    values = {"group_id": group, "member_id": "", "topics": topics}

    def codes(answer: Any) -> Iterable[int]:
        return [int(each.error_code) for topic in answer.topics for each in topic.partitions]

    coordinators.ask(CoordinatorKind.GROUP, group, OFFSET_COMMIT.key, values, codes, doing=doing, patience_s=patience_s)
