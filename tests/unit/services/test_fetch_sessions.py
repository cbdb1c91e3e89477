"""The rules of fetch sessions, one by one."""

from uuid import UUID

import pytest

from barnabas.core.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from barnabas.core.fetched import FetchPartition, PartitionKey
from barnabas.services.fetch_sessions import EVICT_IDLE_S, MAX_EPOCH, FetchSession, FetchSessions
from barnabas.testing.dice import SimulatedDice, derive_random

KEY = PartitionKey("t", 0)
OTHER = PartitionKey("t", 1)


def wanted(offset: int, max_bytes: int) -> FetchPartition:
    return FetchPartition(0, fetch_offset=offset, max_bytes=max_bytes)


WANTED = {KEY: wanted(0, 100)}


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(SimulatedDice(derive_random(1, "dice")), max_sessions=2)


def begin(sessions: FetchSessions, *, now_s: float = 0.0) -> FetchSession:
    session = sessions.begin(WANTED, uses_topic_ids=False, now_s=now_s)
    assert session is not None
    return session


def go_on(
    sessions: FetchSessions,
    session_id: int,
    epoch: int,
    changed: dict[PartitionKey, FetchPartition] | None = None,
    forgotten: list[PartitionKey] | None = None,
    *,
    uses_topic_ids: bool = False,
    now_s: float = 0.0,
) -> FetchSession:
    return sessions.go_on(session_id, epoch, changed or {}, forgotten or [], uses_topic_ids=uses_topic_ids, now_s=now_s)


def test_a_session_goes_on_from_epoch_to_epoch(sessions: FetchSessions) -> None:
    session = begin(sessions)
    for epoch in (1, 2, 3):
        assert go_on(sessions, session.session_id, epoch) is session


def test_epochs_go_round_without_the_one_that_begins(sessions: FetchSessions) -> None:
    session = begin(sessions)
    session.epoch = MAX_EPOCH
    go_on(sessions, session.session_id, MAX_EPOCH)
    assert session.epoch == 1


@pytest.mark.parametrize("epoch", [2, MAX_EPOCH, -2])
def test_a_request_out_of_turn_is_refused_and_changes_nothing(sessions: FetchSessions, epoch: int) -> None:
    session = begin(sessions)
    with pytest.raises(InvalidFetchSessionEpoch):
        go_on(sessions, session.session_id, epoch, {OTHER: wanted(5, 5)}, [KEY])
    assert list(session.partitions) == [KEY]
    assert go_on(sessions, session.session_id, 1) is session


def test_an_unknown_session_is_refused(sessions: FetchSessions) -> None:
    with pytest.raises(FetchSessionIdNotFound):
        go_on(sessions, 5, 1)


def test_names_and_ids_do_not_mix(sessions: FetchSessions) -> None:
    session = begin(sessions)
    with pytest.raises(FetchSessionTopicIdError):
        go_on(sessions, session.session_id, 1, {PartitionKey(UUID(int=1), 0): wanted(0, 1)}, uses_topic_ids=True)


def test_partitions_change_join_and_leave_and_keep_what_they_were_told(sessions: FetchSessions) -> None:
    session = begin(sessions)
    session.partitions[KEY].high_watermark = 9
    go_on(sessions, session.session_id, 1, {KEY: wanted(7, 100), OTHER: wanted(0, 100)})
    assert (session.partitions[KEY].wanted.fetch_offset, session.partitions[KEY].high_watermark) == (7, 9)
    assert list(session.partitions) == [KEY, OTHER]
    go_on(sessions, session.session_id, 2, {}, [KEY, PartitionKey("u", 3)])
    assert list(session.partitions) == [OTHER]


def test_a_session_for_nothing_is_none(sessions: FetchSessions) -> None:
    assert sessions.begin({}, uses_topic_ids=False, now_s=0.0) is None


def test_ids_are_positive_and_distinct() -> None:
    sessions = FetchSessions(SimulatedDice(derive_random(1, "dice")), max_sessions=500)
    ids = {begin(sessions).session_id for _ in range(500)}
    assert len(ids) == 500
    assert all(0 < each < 2**31 for each in ids)


def test_a_new_session_takes_the_place_of_one_that_was_idle_and_of_no_other(sessions: FetchSessions) -> None:
    first, second = begin(sessions), begin(sessions, now_s=1.0)
    assert sessions.begin(WANTED, uses_topic_ids=False, now_s=EVICT_IDLE_S - 1) is None
    go_on(sessions, first.session_id, 1, now_s=EVICT_IDLE_S - 1)
    third = begin(sessions, now_s=EVICT_IDLE_S + 1.0)
    assert len(sessions) == 2
    with pytest.raises(FetchSessionIdNotFound):
        go_on(sessions, second.session_id, 1)
    assert go_on(sessions, first.session_id, 2) is first
    assert go_on(sessions, third.session_id, 1) is third


def test_no_sessions_at_all_may_be_kept() -> None:
    sessions = FetchSessions(SimulatedDice(derive_random(1, "dice")), max_sessions=0)
    assert sessions.begin(WANTED, uses_topic_ids=False, now_s=0.0) is None


def test_a_session_that_ended_is_gone(sessions: FetchSessions) -> None:
    session = begin(sessions)
    sessions.end(session.session_id)
    sessions.end(session.session_id)
    assert len(sessions) == 0
