from uuid import UUID

import pytest

from barnabas.client.queues.locks import Ack, Locks, Place
from barnabas.client.queues.session import ShareSession

A, B = Place(UUID(int=1), 0), Place(UUID(int=2), 1)


def test_a_session_counts_every_request_and_ends_with_minus_one() -> None:
    session = ShareSession("workers", "me")
    locks = Locks(linger_s=0.0, max_hold_s=10.0)
    lock = locks.add(A, 5, since=0.0, lock_s=1.0)
    requests = [session.fetch([A], max_records=1, max_wait_ms=5), session.renew([lock])]
    locks.finish(lock, Ack.ACCEPT, now=0.0)
    requests += [session.acknowledge([lock]), session.fetch([A], max_records=1, max_wait_ms=5), session.close([])]
    assert [each["share_session_epoch"] for each in requests] == [0, 1, 2, 3, -1]
    assert [each["is_renew_ack"] for each in requests] == [False, True, False, False, False]
    assert {(each["group_id"], each["member_id"]) for each in requests} == {("workers", "me")}
    assert not session.is_open


def test_a_fetch_names_what_is_new_and_forgets_what_is_gone() -> None:
    session = ShareSession("workers", "me")
    first = session.fetch([A], max_records=3, max_wait_ms=5)
    same = session.fetch([A], max_records=3, max_wait_ms=5)
    moved = session.fetch([B], max_records=3, max_wait_ms=5)
    named = {"topic_id": A.topic_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}
    assert (first["topics"], first["max_records"], first["share_acquire_mode"]) == ([named], 3, 1)
    assert (same["topics"], same["forgotten_topics_data"]) == ([], [])
    assert [each["topic_id"] for each in moved["topics"]] == [B.topic_id]
    assert moved["forgotten_topics_data"] == [{"topic_id": A.topic_id, "partitions": [0]}]


def test_a_partition_that_was_only_acknowledged_is_forgotten_too() -> None:
    session = ShareSession("workers", "me")
    session.fetch([B], max_records=1, max_wait_ms=5)
    lock = Locks(linger_s=0.0, max_hold_s=10.0).add(A, 5, since=0.0, lock_s=1.0)
    session.renew([lock])
    after = session.fetch([B], max_records=1, max_wait_ms=5)
    assert after["forgotten_topics_data"] == [{"topic_id": A.topic_id, "partitions": [0]}]


def test_nothing_is_acknowledged_before_a_fetch() -> None:
    with pytest.raises(AssertionError):
        ShareSession("workers", "me").acknowledge([])
