"""A topic that was just created, looked up at brokers that have not all heard of it."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from barnabas.client import topics
from barnabas.client.topics import Topics
from barnabas.core.errors import UnknownTopicOrPartition

KNOWN = SimpleNamespace(topic="new", error=None, partitions={0: SimpleNamespace(replicas=[1], isrs=[1], leader=1)})
UNKNOWN = SimpleNamespace(topic="new", error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), partitions={})


class Admin:
    """Brokers that answer in turn: whether the one that is asked knows the topic."""

    def __init__(self, brokers: int, known: list[bool]) -> None:
        self._brokers = dict.fromkeys(range(brokers))
        self._known = known
        self.asked = 0

    def list_topics(self, name: str, timeout: float) -> Any:
        return SimpleNamespace(brokers=self._brokers, topics={name: KNOWN if self._next() else UNKNOWN})

    def list_offsets(self, wanted: dict[Any, Any], **_options: Any) -> dict[Any, "Future[Any]"]:
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(offset=0))
        return dict.fromkeys(wanted, answer)

    def describe_configs(self, resources: list[Any], **_options: Any) -> dict[Any, "Future[Any]"]:
        answer: Future[Any] = Future()
        if self._next():
            answer.set_result({})
        else:
            answer.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return dict.fromkeys(resources, answer)

    def _next(self) -> bool:
        self.asked += 1
        return self._known.pop(0) if len(self._known) > 1 else self._known[0]


def topics_of(admin: Admin) -> Topics:
    return Topics(admin)  # type: ignore[arg-type]  # of which three calls are used


def test_one_of_several_brokers_is_asked_again_for_a_topic_that_it_does_not_know() -> None:
    admin = Admin(2, [False, False, True])
    assert topics_of(admin).partition_ids("new") == [0]
    assert admin.asked == 3


def test_a_topic_that_nobody_knows_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_DOUBT_S", 0.2)
    admin = Admin(2, [False])
    with pytest.raises(UnknownTopicOrPartition, match="topic 'new' does not exist"):
        topics_of(admin).partition_ids("new")
    assert admin.asked > 1


def test_the_only_broker_is_believed_at_once() -> None:
    admin = Admin(1, [False, True])
    with pytest.raises(UnknownTopicOrPartition):
        topics_of(admin).partition_ids("new")
    assert admin.asked == 1


def test_settings_are_asked_for_again_where_another_broker_knows_the_topic() -> None:
    admin = Admin(2, [True, False, True])
    assert topics_of(admin).describe("new").config == {}
    assert admin.asked == 3
