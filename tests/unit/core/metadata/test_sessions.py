"""Whom the controller hears of, and who is overdue."""

from uuid import UUID

import pytest

from barnabas.core.metadata import Image
from barnabas.core.metadata.records import NodeRecord
from barnabas.core.metadata.sessions import Sessions


def image_with(*nodes: NodeRecord) -> Image:
    image = Image()
    for node in nodes:
        image.apply(node)
    return image


def node(node_id: int, *, epoch: int = 0, is_fenced: bool = False) -> NodeRecord:
    return NodeRecord(node_id, "h", 1, None, UUID(int=node_id), epoch=epoch, is_fenced=is_fenced)


@pytest.mark.parametrize(("silence_ms", "left_ms"), [(0, 100), (30, 70), (50, 50), (10**9, 50)])
def test_the_silence_of_the_controller_before_counts_and_leaves_it_half_a_session(
    silence_ms: int, left_ms: int
) -> None:
    sessions = Sessions(image_with(node(1), node(2), node(3, is_fenced=True)), timeout_ms=100, now_ms=1000)
    sessions.note_silence(1, silence_ms)
    sessions.note_silence(3, silence_ms)

    assert sessions.overdue(now_ms=1000 + left_ms - 1) == []
    assert sessions.overdue(now_ms=1000 + left_ms)[0] == 1
    assert sessions.overdue(now_ms=1099) == ([] if left_ms == 100 else [1])


def test_a_new_controller_gives_everybody_who_is_not_fenced_a_new_session() -> None:
    sessions = Sessions(image_with(node(1), node(2, is_fenced=True)), timeout_ms=100, now_ms=1000)

    assert sessions.has(1, now_ms=1099)
    assert not sessions.has(2, now_ms=1000)
    assert sessions.overdue(now_ms=1099) == []
    assert sessions.next_overdue_ms() == 1100
    assert sessions.overdue(now_ms=1100) == [1]


def test_a_heartbeat_keeps_a_session_and_that_of_a_former_incarnation_does_not() -> None:
    sessions = Sessions(image_with(node(1, epoch=5)), timeout_ms=100, now_ms=0)

    sessions.note_heartbeat(1, epoch=5, known_offset=7, now_ms=90)
    assert sessions.overdue(now_ms=150) == []
    sessions.note_heartbeat(1, epoch=4, known_offset=7, now_ms=180)
    assert sessions.overdue(now_ms=190) == [1]
    sessions.note_heartbeat(1, epoch=6, known_offset=7, now_ms=190)
    assert sessions.overdue(now_ms=250) == []


def test_who_is_gone_is_not_overdue() -> None:
    sessions = Sessions(image_with(node(1)), timeout_ms=100, now_ms=0)

    sessions.end(1)

    assert sessions.overdue(now_ms=1000) == []
    assert sessions.next_overdue_ms() is None


def test_who_leaves_is_known_to_leave_once_all_others_have_applied_it() -> None:
    sessions = Sessions(image_with(node(1), node(2), node(3)), timeout_ms=100, now_ms=0)
    sessions.note_leaving(1, offset=10)

    assert not sessions.is_known_to_leave(1, [1, 2, 3])
    sessions.note_heartbeat(2, epoch=0, known_offset=10, now_ms=0)
    assert not sessions.is_known_to_leave(1, [1, 2, 3])
    sessions.note_heartbeat(3, epoch=0, known_offset=12, now_ms=0)
    assert sessions.is_known_to_leave(1, [1, 2, 3])


def test_a_new_controller_does_not_know_who_knows() -> None:
    sessions = Sessions(image_with(node(1), node(2)), timeout_ms=100, now_ms=0)

    assert not sessions.is_known_to_leave(1, [1, 2])


def test_time_in_which_the_controller_stood_still_ends_no_session() -> None:
    sessions = Sessions(image_with(node(1)), timeout_ms=100, now_ms=0)

    sessions.prolong(500)

    assert sessions.overdue(now_ms=599) == []
    assert sessions.overdue(now_ms=600) == [1]


def test_what_is_written_after_a_broker_began_to_leave_does_not_hold_it_up() -> None:
    sessions = Sessions(image_with(node(1), node(2)), timeout_ms=100, now_ms=0)
    sessions.note_leaving(1, offset=10)
    sessions.note_heartbeat(2, epoch=0, known_offset=10, now_ms=0)

    sessions.note_leaving(1, offset=20)

    assert sessions.is_known_to_leave(1, [1, 2])
