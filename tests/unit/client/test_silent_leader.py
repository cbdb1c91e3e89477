"""Offsets of a partition whose leader does not answer in time: librdkafka gives an invalid offset then, no error."""

from collections.abc import Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import confluent_kafka
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from barnabas.client.errors import Unreachable
from barnabas.client.topics import LATEST, Topics


class SilentLeaderAdmin:
    """As much of librdkafka's admin client as a lookup of offsets needs; partition 0 has a leader that is away."""

    def list_offsets(self, wanted: Iterable[Any], **_options: object) -> dict[Any, "Future[SimpleNamespace]"]:
        return {each: _found(confluent_kafka.OFFSET_INVALID if each.partition == 0 else 7) for each in wanted}


def _found(offset: int) -> "Future[SimpleNamespace]":
    answer: Future[SimpleNamespace] = Future()
    answer.set_result(SimpleNamespace(offset=offset))
    return answer


def test_an_offset_that_no_leader_gave_is_refused() -> None:
    topics = Topics(cast("AdminClient", SilentLeaderAdmin()), 1.0)

    assert topics.offsets("orders", [1], LATEST) == {1: 7}
    with pytest.raises(Unreachable, match="cannot look up offsets of orders-0: its leader does not answer"):
        topics.offsets("orders", [0, 1], LATEST)


class WithoutControllerAdmin:
    """An admin client of a cluster whose brokers answer, and that has no controller."""

    def create_topics(self, new: Iterable[Any], **_options: object) -> dict[str, "Future[None]"]:
        answer: Future[None] = Future()
        answer.set_exception(confluent_kafka.KafkaException(confluent_kafka.KafkaError(KafkaError._TIMED_OUT)))
        return {each.topic: answer for each in new}

    def list_topics(self, **_options: object) -> SimpleNamespace:
        return SimpleNamespace(topics={})


def test_a_change_that_no_controller_decides_is_no_broker_that_is_away() -> None:
    topics = Topics(cast("AdminClient", WithoutControllerAdmin()), 1.0)

    with pytest.raises(Unreachable, match="cannot create topic 'x': brokers answer, but no controller has decided it"):
        topics.create("x")
