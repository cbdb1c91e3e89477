"""Throttles that a move sets, beside those that somebody has set by hand."""

from collections.abc import Iterator

import pytest

from barnabas import Bus
from barnabas.client.replica_admin import ReplicaAdmin, Throttles
from barnabas.client.settings import Settings
from barnabas.testing.embedded import EmbeddedBroker

LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
LEADERS_RATE, FOLLOWERS_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"


@pytest.fixture
def admin(broker: EmbeddedBroker) -> Iterator[ReplicaAdmin]:
    admin = ReplicaAdmin(Settings(broker.bootstrap))
    yield admin
    admin._alter({LEADERS_RATE: None, FOLLOWERS_RATE: None}, {})


@pytest.fixture
def topic(real_bus: Bus, name: str) -> str:
    real_bus.create_topic(name)
    return name


def rates(value: str | None) -> dict[str, str | None]:
    return {LEADERS_RATE: value, FOLLOWERS_RATE: value}


def test_what_was_set_by_hand_is_set_again(admin: ReplicaAdmin, real_bus: Bus, topic: str) -> None:
    real_bus.alter_topic(topic, set_={LEADERS: "0:1"})
    admin._alter(rates("500"), {})

    before = admin.throttle([topic], 1000)
    assert admin._throttles([topic]) == Throttles(rates("1000"), {topic: {LEADERS: "*", FOLLOWERS: "*"}})
    admin.restore(before)

    assert admin._throttles([topic]) == Throttles(rates("500"), {topic: {LEADERS: "0:1", FOLLOWERS: None}})


def test_what_an_interrupted_move_has_left_is_taken_back_by_the_next(admin: ReplicaAdmin, topic: str) -> None:
    admin.throttle([topic], 1000)

    admin.restore(admin.throttle([topic], 2000))

    assert admin._throttles([topic]) == Throttles(rates(None), {topic: {LEADERS: None, FOLLOWERS: None}})


def test_a_move_that_is_cancelled_leaves_lists_that_somebody_made(
    admin: ReplicaAdmin, real_bus: Bus, topic: str
) -> None:
    real_bus.alter_topic(topic, set_={LEADERS: "0:1"})
    admin._alter(rates("500"), {})

    admin.unthrottle([topic, "nonexistent"])
    assert admin._throttles([topic]) == Throttles(rates("500"), {topic: {LEADERS: "0:1", FOLLOWERS: None}})

    admin.throttle([topic], 1000)
    admin.unthrottle([topic])
    assert admin._throttles([topic]) == Throttles(rates(None), {topic: {LEADERS: None, FOLLOWERS: None}})
