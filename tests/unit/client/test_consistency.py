"""Where the bus reads from: a confirmed leader, the leader, or the closest replica."""

import pytest

from barnabas.client import Bus, confirming
from barnabas.client.confirming import Led, check_leads, confirmed_ends, is_unsaid
from barnabas.client.errors import Passing, Unreachable
from barnabas.client.settings import Consistency, Settings
from barnabas.core.errors import InvalidConfig, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.wire.own_fields import LEASED, NOT_LEASED

KEY = TopicPartition("orders", 0)
LED = Led(leader_id=1, leader_epoch=4, replicas=(1, 2, 3), in_sync=(1, 2))


def test_only_any_reads_from_other_replicas_than_the_leader() -> None:
    settings = Settings("localhost", config={"client.rack": "a", "check.crcs": "false"})
    assert settings.reading("any").config["client.rack"] == "a"
    for consistency in ("leader", "committed"):
        assert settings.reading(consistency).config == {"check.crcs": "false"}
    assert settings.reading(None) is settings


def test_any_needs_to_know_where_the_client_is() -> None:
    with pytest.raises(InvalidConfig, match=r"client\.rack"):
        Settings("localhost").reading("any")


def test_another_consistency_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="leader, committed, any"):
        Settings("localhost").reading("some")  # type: ignore[arg-type]


def test_a_leader_is_confirmed_when_no_replica_knows_a_later_one() -> None:
    check_leads(KEY, LED, [LED, LED._replace(leader_epoch=3, leader_id=2)], silent=())


def test_a_leader_that_a_replica_knows_to_be_deposed_is_not_confirmed() -> None:
    with pytest.raises(Passing):
        check_leads(KEY, LED, [LED, LED._replace(leader_epoch=5, leader_id=2)], silent=())


def test_every_replica_that_anybody_counts_as_in_sync_has_to_answer() -> None:
    check_leads(KEY, LED, [LED], silent=(3,))
    with pytest.raises(Unreachable, match="node 2"):
        check_leads(KEY, LED, [], silent=(2,))
    with pytest.raises(Unreachable, match="node 3"):
        check_leads(KEY, LED, [LED._replace(in_sync=(1, 2, 3))], silent=(3,))


def test_a_leader_with_a_lease_needs_no_confirmation_and_one_that_lost_it_is_not_believed() -> None:
    assert not is_unsaid(LEASED, 1)
    assert is_unsaid(0, 1)  # of another implementation: the replicas are asked
    with pytest.raises(Passing, match="node 1 leads"):
        is_unsaid(NOT_LEASED, 1)


@pytest.mark.parametrize("consistency", ["leader", "committed", None])
def test_everything_that_was_sent_is_read_up_to_the_end(
    real_bus: Bus, name: str, consistency: Consistency | None
) -> None:
    real_bus.create_topic(name, partitions=2)
    for number in range(4):
        real_bus.send(name, str(number).encode(), partition=number % 2).result(60)
    read = real_bus.consume(name, until_end=True, consistency=consistency)
    assert sorted(message.value or b"" for message in read) == [b"0", b"1", b"2", b"3"]
    assert len(list(real_bus.merge(name, consistency=consistency))) == 4
    group = real_bus.consume(name, group=f"{name}-{consistency}", until_end=True, consistency=consistency)
    assert len(list(group)) == 4


def test_the_confirmed_end_of_a_partition_that_does_not_exist_is_refused(real_bus: Bus, name: str) -> None:
    real_bus.create_topic(name)
    settings = Settings(real_bus.bootstrap)
    assert confirmed_ends(settings, [TopicPartition(name, 0)], committed=True, timeout_s=10) == {(name, 0): 0}
    with pytest.raises(UnknownTopicOrPartition):
        confirmed_ends(settings, [TopicPartition(name, 1)], committed=True, timeout_s=10)


def test_a_leader_says_over_the_wire_that_nobody_else_leads(
    real_bus: Bus, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_bus.create_topic(name)
    said: list[int] = []

    def note(leased: int, leader_id: int) -> bool:
        said.append(leased)
        return is_unsaid(leased, leader_id)

    monkeypatch.setattr(confirming, "is_unsaid", note)
    confirmed_ends(Settings(real_bus.bootstrap), [TopicPartition(name, 0)], committed=True, timeout_s=10)
    assert said == [LEASED]
