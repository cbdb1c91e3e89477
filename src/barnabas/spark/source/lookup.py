"""The driver's requests to a cluster: the partitions, their first and end offsets, the size of their records.

Over connections of our own, which are kept: a question takes a fraction of a millisecond. A leader that moves and a
connection that breaks are tried again until a deadline; a cluster that was never reached is given up sooner, with a
line that says so.
"""

import time
from collections.abc import Callable, Iterable, KeysView, Mapping
from typing import Any, Final, TypeVar

from barnabas.client.brokers import Address, Brokers
from barnabas.client.errors import Passing, Unreachable, check, refusal_of
from barnabas.client.offset_listing import OffsetQuestion
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import iter_whole_batches
from barnabas.spark.source.offsets import LATEST, Offsets
from barnabas.wire.apis import FETCH

_T = TypeVar("_T")

PATIENCE_S: Final = 30.0
_RETRY_S: Final = 0.1
_READ_UNCOMMITTED: Final = 0
_UNKNOWN_TOPIC: Final = 3
_INVALID_TOPIC: Final = 17
_SAMPLE_BYTES: Final = 64 * 1024


class Lookup:
    """One cluster, asked by one thread."""

    def __init__(self, settings: Settings, *, is_committed: bool, patience_s: float) -> None:
        self._bootstrap = settings.bootstrap
        self._brokers = Brokers(settings)
        self._isolation = int(is_committed)
        self._patience_s = patience_s
        self._leaders: dict[TopicPartition, Address] = {}
        self.topic_ids: dict[str, str] = {}  # of the topics that were looked for, as they were found last
        self.internal_topics: set[str] = set()
        # What was asked last, of which isolation, and the questions that came of it, while leaders stay the same.
        self._asked_last: tuple[dict[TopicPartition, int], int, list[tuple[Address, OffsetQuestion]]] | None = None
        self._was_reached = False

    def close(self) -> None:
        self._brokers.close()
        self._leaders.clear()
        self._asked_last = None

    def partitions(self, topics: Iterable[str] | None) -> dict[str, KeysView[int]]:
        """The partitions of these topics, or of all, in order; a topic that does not exist is left out."""
        wanted = None if topics is None else sorted(set(topics))
        return self._trying(lambda: self._ask_partitions(wanted))

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """The offset for a time, or for EARLIEST or LATEST, of each partition; -1 where there is none.

        A partition that does not exist is `UnknownTopicOrPartition`. What may not be read yet, because a transaction
        is open before it, is not there for a reader of what is committed.
        """
        return self._trying(lambda: self._ask_offsets(wanted, self._isolation)) if wanted else {}

    def high_watermarks(self, keys: Iterable[TopicPartition]) -> Offsets:
        """Where partitions end, open transactions included."""
        wanted = dict.fromkeys(keys, LATEST)
        return self._trying(lambda: self._ask_offsets(wanted, _READ_UNCOMMITTED)) if wanted else {}

    def bytes_per_offset(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """About how much of the log one offset takes, from a look at the first batches; without those it cannot say."""
        return self._trying(lambda: self._sample(starts)) if starts else {}

    def _trying(self, attempt: Callable[[], _T]) -> _T:
        """What an attempt gives; tried again, over new connections, while it fails for a reason that may pass."""
        deadline = time.monotonic() + (max(PATIENCE_S, self._patience_s) if self._was_reached else self._patience_s)
        while True:
            try:
                found = attempt()
                self._was_reached = True
                return found
            except (Passing, Unreachable) as error:
                self.close()
                if time.monotonic() + _RETRY_S > deadline:
                    raise self._gave_up(error) from None
                time.sleep(_RETRY_S)

    def _gave_up(self, error: BarnabasError) -> BarnabasError:
        if self._was_reached or not isinstance(error, Unreachable):
            return error
        return Unreachable(
            f"no broker at {self._bootstrap} answered within {self._patience_s:g} s: {error}; is one running there?"
        )

    def _ask_partitions(self, topics: list[str] | None) -> dict[str, KeysView[int]]:
        found: dict[str, KeysView[int]] = {}
        for name, topic in self._brokers.metadata(topics).topics.items():
            if topic.error_code in (_UNKNOWN_TOPIC, _INVALID_TOPIC):
                self.topic_ids.pop(name, None)
                continue
            check(topic.error_code, f"read topic {name!r}")
            if topic.topic_id is not None:
                self.topic_ids[name] = topic.topic_id
            if topic.is_internal:
                self.internal_topics.add(name)
            found[name] = dict.fromkeys(sorted(topic.leaders)).keys()
            for id_, leader in topic.leaders.items():
                self._note_leader(TopicPartition(name, id_), None if leader is None else leader.address)
        return found

    def _note_leader(self, key: TopicPartition, leader: Address | None) -> None:
        if self._leaders.get(key) == leader:
            return
        self._asked_last = None
        if leader is None:
            del self._leaders[key]
        else:
            self._leaders[key] = leader

    def _ask_offsets(self, wanted: Mapping[TopicPartition, int], isolation: int) -> Offsets:
        found: Offsets = {}
        for leader, question in self._questions(wanted, isolation):
            found |= question.ask(self._brokers.at(leader))
        return found

    def _questions(self, wanted: Mapping[TopicPartition, int], isolation: int) -> list[tuple[Address, OffsetQuestion]]:
        """One for each leader; those of the last time, if that is what was asked then."""
        if self._asked_last is None or self._asked_last[:2] != (wanted, isolation):
            questions = [
                (leader, OffsetQuestion({key: wanted[key] for key in keys}, isolation=isolation))
                for leader, keys in self._by_leader(wanted).items()
            ]
            self._asked_last = dict(wanted), isolation, questions
        return self._asked_last[2]

    def _sample(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        found = {}
        for leader, keys in self._by_leader(starts).items():
            connection = self._brokers.at(leader)
            for key in keys:  # one by one: an answer is bounded as a whole, and the first partition would fill it
                answer = connection.call(FETCH.key, self._sample_values(key, starts[key]))
                for topic in answer.responses:
                    for each in topic.partitions:
                        size = _bytes_per_offset(each.records or b"")
                        if int(each.error_code) == 0 and size is not None:
                            found[key] = size
        return found

    def _sample_values(self, key: TopicPartition, offset: int) -> Mapping[str, object]:
        partition = {"partition": key.partition, "fetch_offset": offset, "partition_max_bytes": _SAMPLE_BYTES}
        return {
            "replica_id": -1,
            "max_bytes": _SAMPLE_BYTES,
            "isolation_level": self._isolation,
            "topics": [{"topic": key.topic, "partitions": [partition]}],
        }

    def _by_leader(self, keys: Iterable[TopicPartition]) -> dict[Address, list[TopicPartition]]:
        wanted = sorted(keys)
        if any(key not in self._leaders for key in wanted):
            there = self._ask_partitions(sorted({key.topic for key in wanted}))
            for key in wanted:
                if key.partition not in there.get(key.topic, ()):
                    raise refusal_of(_UNKNOWN_TOPIC, f"{key} does not exist")
        grouped: dict[Address, list[TopicPartition]] = {}
        for key in wanted:
            if key not in self._leaders:
                raise Passing(f"{key} has no leader")
            grouped.setdefault(self._leaders[key], []).append(key)
        return grouped


def _bytes_per_offset(records: Any) -> float | None:
    first, end, size = None, 0, 0
    for _, header in iter_whole_batches(records):
        first = header.base_offset if first is None else first
        end, size = header.next_offset, size + header.size
    return None if first is None else size / max(end - first, 1)
