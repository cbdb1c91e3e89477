from datetime import timedelta
from types import SimpleNamespace
from uuid import UUID

from barnabas.client.queues.locks import Place
from barnabas.client.queues.membership import Member

TOPIC = UUID(int=1)


def answer(epoch: int, *partitions: int, is_unchanged: bool = False) -> SimpleNamespace:
    topics = [SimpleNamespace(topic_id=TOPIC, partitions=partitions)] if partitions else []
    assignment = None if is_unchanged else SimpleNamespace(topic_partitions=topics)
    return SimpleNamespace(member_epoch=epoch, heartbeat_interval=timedelta(seconds=5), assignment=assignment)


def test_a_member_joins_with_its_topics_and_goes_on_with_its_epoch() -> None:
    member = Member("workers", "me", ["b", "a"])
    assert (member.heartbeat()["member_epoch"], member.heartbeat()["subscribed_topic_names"]) == (0, ["a", "b"])
    assert member.accept(answer(1, 0, 1)) == 5.0
    assert member.assigned == {Place(TOPIC, 0), Place(TOPIC, 1)}
    assert (member.heartbeat()["member_epoch"], member.heartbeat()["subscribed_topic_names"]) == (1, None)
    assert member.farewell()["member_epoch"] == -1


def test_an_assignment_stays_until_another_comes() -> None:
    member = Member("workers", "me", ["a"])
    member.accept(answer(1, 0))
    member.accept(answer(1, is_unchanged=True))
    assert member.assigned == {Place(TOPIC, 0)}


def test_a_member_without_partitions_asks_often_for_a_while() -> None:
    member = Member("workers", "me", ["a"])
    waits = [member.accept(answer(1)) for _ in range(60)]
    assert max(waits[:50]) < 1.0
    assert waits[50:] == [5.0] * 10


def test_a_removed_member_joins_again() -> None:
    member = Member("workers", "me", ["a"])
    member.accept(answer(7, 0))
    member.note_removed()
    assert not member.is_in
    assert member.heartbeat()["subscribed_topic_names"] == ["a"]
