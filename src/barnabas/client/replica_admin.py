"""Administration of replicas: where they are moved, what is under way, and that preferred leaders lead.

Any broker passes these requests on to the active controller.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.errors import Passing, is_passing, refusal_of, words_of
from barnabas.client.settings import Settings
from barnabas.core.errors import ElectionNotNeeded, NoReassignmentInProgress, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.wire.apis import (
    ALTER_PARTITION_REASSIGNMENTS,
    DESCRIBE_CONFIGS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_PARTITION_REASSIGNMENTS,
)
from barnabas.wire.writing import Values

_T = TypeVar("_T")
_PREFERRED: Final = 0
_UNCLEAN: Final = 1
_TOPIC: Final = 2  # types of resources
_BROKERS: Final = 4
_ALL_BROKERS: Final = ""
_SET: Final = 0
_DELETE: Final = 1
_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_THROTTLED: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_ALL_REPLICAS: Final = "*"
_SET_BY_SOMEBODY: Final = (1, 3)  # sources of settings: that of a topic itself, and that of all brokers


@dataclass(frozen=True, slots=True)
class ReassignmentInfo:
    """A partition that is being moved: all its replicas, those that copy it, and those that will go."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Elections:
    """What became of elections; a partition that has the right leader already is in neither."""

    elected: Sequence[TopicPartition]
    refused: Mapping[TopicPartition, str]
    """Why, in words."""


@dataclass(frozen=True, slots=True)
class Throttles:
    """Settings of throttles; None: not set."""

    rates: Mapping[str, str | None]
    """Of all brokers."""
    replicas: Mapping[str, Mapping[str, str | None]]
    """Of topics, by their names."""


class ReplicaAdmin:
    """The administration of replicas. Each call has its own connections, and retries what may pass."""

    def __init__(self, settings: Settings, timeout_s: float = 30.0) -> None:
        self._settings = settings
        self._timeout_s = timeout_s

    def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Move partitions to these nodes, the preferred leader first; None cancels a move. A cancelled move that is not
        under way is no error: it may have been completed meanwhile.
        """
        rows = _by_topic(
            "name",
            {key: {"partition_index": key.partition, "replicas": target} for key, target in targets.items()},
        )

        def ask(cluster: Cluster) -> None:
            values: Values = {"timeout": round(self._timeout_s * 1000), "topics": rows}
            answer = cluster.ask(ALTER_PARTITION_REASSIGNMENTS.key, values)
            _check(answer, "reassign partitions")
            for topic in answer.responses:
                for each in topic.partitions:
                    if int(each.error_code) != NoReassignmentInProgress.kafka_code:
                        _check(each, f"reassign {topic.name}-{each.partition_index}")

        self._trying(ask)

    def reassignments(self) -> list[ReassignmentInfo]:
        """The moves under way."""

        def ask(cluster: Cluster) -> list[ReassignmentInfo]:
            answer = cluster.ask(LIST_PARTITION_REASSIGNMENTS.key, {"timeout": 30_000, "topics": None})
            _check(answer, "list reassignments")
            return [
                ReassignmentInfo(
                    TopicPartition(str(topic.name), int(each.partition_index)),
                    tuple(map(int, each.replicas)),
                    tuple(map(int, each.adding_replicas)),
                    tuple(map(int, each.removing_replicas)),
                )
                for topic in answer.topics
                for each in topic.partitions
            ]

        return self._trying(ask)

    def elect_preferred(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Have preferred leaders lead; returns the partitions where they cannot, because they are not in sync."""
        return list(self.elect(partitions).refused)

    def elect(self, partitions: Sequence[TopicPartition], *, is_unclean: bool = False) -> Elections:
        """Have preferred leaders lead; with `is_unclean`, any replica that runs, of partitions that nobody leads."""
        wanted: dict[str, list[int]] = {}
        for key in partitions:
            wanted.setdefault(key.topic, []).append(key.partition)

        def ask(cluster: Cluster) -> Elections:
            rows: list[Any] = [{"topic": topic, "partitions": numbers} for topic, numbers in wanted.items()]
            kind = _UNCLEAN if is_unclean else _PREFERRED
            values: Values = {"election_type": kind, "topic_partitions": rows, "timeout": 30_000}
            answer = cluster.ask(ELECT_LEADERS.key, values)
            _check(answer, "elect leaders")
            return _elections(answer)

        return self._trying(ask)

    def throttle(self, topics: Sequence[str], rate: int) -> Throttles:
        """Have replicas of these topics that are not in sync copied at so many bytes a second, at every broker.

        Returns what was set before, for `restore`. What an earlier call has left behind counts as not set.
        """
        before = self._throttles(topics)
        self._alter(
            {name: str(rate) for name in _RATES},
            {topic: dict.fromkeys(_THROTTLED, _ALL_REPLICAS) for topic in topics},
        )
        is_left_behind = any(_ALL_REPLICAS in settings.values() for settings in before.replicas.values())
        return Throttles(
            dict.fromkeys(_RATES) if is_left_behind else before.rates,
            {
                topic: {name: None if value == _ALL_REPLICAS else value for name, value in settings.items()}
                for topic, settings in before.replicas.items()
            },
        )

    def restore(self, before: Throttles) -> None:
        """Set what was set before `throttle`."""
        self._alter(before.rates, before.replicas)

    def unthrottle(self, topics: Sequence[str]) -> None:
        """Take back what `throttle` has set. Lists of replicas that were made otherwise stay; the rates, if all are."""
        found = self._throttles(topics).replicas
        ours = {
            topic: {name: None for name, value in settings.items() if value == _ALL_REPLICAS}
            for topic, settings in found.items()
            if _ALL_REPLICAS in settings.values()
        }
        if ours:
            self._alter(dict.fromkeys(_RATES), ours)

    def _throttles(self, topics: Sequence[str]) -> Throttles:
        """What is set now, of all brokers and of topics; a topic that does not exist is left out."""
        resources: list[Any] = [
            {"resource_type": _BROKERS, "resource_name": _ALL_BROKERS, "configuration_keys": _RATES}
        ]
        resources += [
            {"resource_type": _TOPIC, "resource_name": name, "configuration_keys": _THROTTLED} for name in topics
        ]
        values = {"resources": resources, "include_synonyms": False, "include_documentation": False}

        def ask(cluster: Cluster) -> Throttles:
            rates: dict[str, str | None] = dict.fromkeys(_RATES)
            replicas: dict[str, Mapping[str, str | None]] = {}
            for each in cluster.ask(DESCRIBE_CONFIGS.key, values).results:
                if int(each.error_code) == UnknownTopicOrPartition.kafka_code:
                    continue
                _check(each, f"read the throttles of {each.resource_name or 'the brokers'}")
                found = {str(one.name): one.value for one in each.configs if int(one.config_source) in _SET_BY_SOMEBODY}
                if int(each.resource_type) == _TOPIC:
                    replicas[str(each.resource_name)] = dict.fromkeys(_THROTTLED) | found
                else:
                    rates |= found
            return Throttles(rates, replicas)

        return self._trying(ask)

    def _alter(self, brokers: Mapping[str, str | None], topics: Mapping[str, Mapping[str, str | None]]) -> None:
        """Set settings of all brokers and of topics; None: the default. A topic that is gone is no error."""
        resources: list[Any] = [_altered(_BROKERS, _ALL_BROKERS, brokers)]
        resources += [_altered(_TOPIC, name, settings) for name, settings in topics.items()]

        def ask(cluster: Cluster) -> None:
            answer = cluster.ask(INCREMENTAL_ALTER_CONFIGS.key, {"resources": resources, "validate_only": False})
            for each in answer.responses:
                if int(each.error_code) != UnknownTopicOrPartition.kafka_code:
                    _check(each, f"throttle {each.resource_name or 'the brokers'}")

        self._trying(ask)

    def _trying(self, ask: Callable[[Cluster], _T]) -> _T:
        with Cluster(self._settings, self._timeout_s) as cluster:
            return cluster.trying(lambda: ask(cluster))


def _elections(answer: Any) -> Elections:
    codes = {
        TopicPartition(str(topic.topic), int(each.partition_id)): each
        for topic in answer.replica_election_results
        for each in topic.partition_result
        if int(each.error_code) != ElectionNotNeeded.kafka_code
    }
    return Elections(
        sorted(key for key, each in codes.items() if int(each.error_code) == 0),
        {
            key: getattr(each, "error_message", None) or words_of(int(each.error_code))
            for key, each in sorted(codes.items())
            if int(each.error_code) != 0
        },
    )


def _altered(kind: int, name: str, settings: Mapping[str, str | None]) -> Values:
    configs = [
        {"name": key, "config_operation": _DELETE if value is None else _SET, "value": value}
        for key, value in settings.items()
    ]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def _by_topic(name: str, rows: Mapping[TopicPartition, Values]) -> list[Any]:
    topics: dict[str, list[Values]] = {}
    for key, row in rows.items():
        topics.setdefault(key.topic, []).append(row)
    return [{name: topic, "partitions": partitions} for topic, partitions in topics.items()]


def _check(answer: Any, doing: str) -> None:
    """Raise the refusal in an answer, in the words of the node that refused."""
    code = int(answer.error_code)
    if code == 0:
        return
    refusal = refusal_of(code, f"cannot {doing}: {getattr(answer, 'error_message', None) or words_of(code)}")
    if is_passing(code):
        raise Passing(str(refusal)) from refusal
    raise refusal
