"""The fetch session with a leader: it is told what changes, once."""

from typing import Any
from uuid import UUID

from barnabas.core.replica.follower import FollowerFetch
from barnabas.runtime.replicating.session import FollowerSession, Limits, Self, TopicIdPartition

WHO = Self(2, 77)
LIMITS = Limits(max_wait_ms=500, min_bytes=1, max_bytes=1000, partition_max_bytes=100)
A, B, C = (TopicIdPartition(UUID(int=1), 0), TopicIdPartition(UUID(int=1), 1), TopicIdPartition(UUID(int=2), 0))


def fetch(offset: int = 0, *, durable: int = 0) -> FollowerFetch:
    return FollowerFetch(1, 5, offset, 4, 0, durable)


def told(values: Any) -> dict[TopicIdPartition, int]:
    return {
        TopicIdPartition(topic["topic_id"], each["partition"]): each["fetch_offset"]
        for topic in values["topics"]
        for each in topic["partitions"]
    }


def forgotten(values: Any) -> set[TopicIdPartition]:
    return {
        TopicIdPartition(topic["topic_id"], each)
        for topic in values["forgotten_topics_data"]
        for each in topic["partitions"]
    }


def begun() -> FollowerSession:
    session = FollowerSession()
    session.request(WHO, {A: fetch(), B: fetch(), C: fetch()}, set(), LIMITS)
    session.note_answer(9)
    return session


def test_a_new_session_names_everything_and_who_asks() -> None:
    values = FollowerSession().request(WHO, {A: fetch(3), C: fetch(4, durable=2)}, set(), LIMITS)

    assert (values["session_id"], values["session_epoch"]) == (0, 0)
    assert values["replica_state"] == {"replica_id": 2, "replica_epoch": 77}
    assert told(values) == {A: 3, C: 4}
    ((asked,),) = [topic["partitions"] for topic in values["topics"] if topic["topic_id"] == C.topic_id]
    assert (asked["current_leader_epoch"], asked["last_fetched_epoch"], asked["flushed_offset"]) == (5, 4, 2)


def test_a_session_that_goes_on_names_what_has_changed() -> None:
    session = begun()

    values = session.request(WHO, {B: fetch(8)}, set(), LIMITS)

    assert (values["session_id"], values["session_epoch"]) == (9, 1)
    assert told(values) == {B: 8}
    assert forgotten(values) == set()


def test_the_epoch_of_a_session_rises_with_each_answer() -> None:
    session = begun()
    epochs = []
    for _ in range(3):
        epochs.append(session.request(WHO, {}, set(), LIMITS)["session_epoch"])
        session.note_answer(9)
    assert epochs == [1, 2, 3]


def test_what_is_fetched_no_longer_is_forgotten_once() -> None:
    session = begun()

    assert forgotten(session.request(WHO, {}, {A, C}, LIMITS)) == {A, C}
    session.note_answer(9)
    assert forgotten(session.request(WHO, {}, {A, C}, LIMITS)) == set()


def test_what_was_answered_and_is_left_out_is_forgotten_too() -> None:
    session = begun()
    assert session.take(A) == fetch()

    assert forgotten(session.request(WHO, {}, {A}, LIMITS)) == {A}


def test_what_the_leader_never_heard_of_is_not_forgotten() -> None:
    session = FollowerSession()
    session.request(WHO, {A: fetch()}, set(), LIMITS)
    session.note_answer(9)

    assert forgotten(session.request(WHO, {}, {B}, LIMITS)) == set()


def test_what_is_asked_for_again_is_not_forgotten() -> None:
    session = begun()

    values = session.request(WHO, {A: fetch(5)}, {A}, LIMITS)

    assert (told(values), forgotten(values)) == ({A: 5}, set())


def test_an_answer_is_taken_once() -> None:
    session = begun()

    assert session.take(B) == fetch()
    assert session.take(B) is None


def test_a_session_that_begins_anew_says_what_nobody_will_answer() -> None:
    session = begun()
    session.take(A)

    assert set(session.reset()) == {B, C}
    assert session.is_new
    assert told(session.request(WHO, {A: fetch()}, set(), LIMITS)) == {A: 0}


def test_a_leader_without_a_session_is_told_everything_again() -> None:
    session = FollowerSession()
    session.request(WHO, {A: fetch()}, set(), LIMITS)
    session.note_answer(0)

    assert session.is_new
