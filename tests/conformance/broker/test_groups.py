"""Consumer groups with real clients: partitions are shared, taken over, and read on from where the group was."""

import inspect
import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient

from barnabas.client import Bus
from barnabas.core.errors import GroupIdNotFound, NonEmptyGroup
from tests.conformance.broker.clients import QUIET
from tests.conformance.broker.group_members import (
    MEMBERS,
    SETTINGS,
    LibrdkafkaMember,
    closing,
    poll_until,
    read_all,
)
from tests.conformance.broker.served import ServedBroker
from tests.conformance.broker.worker import Workers, check_redelivery

KINDS = list(MEMBERS)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    """A broker whose groups rebalance quickly."""
    with ServedBroker(tmp_path_factory.mktemp("groups"), *SETTINGS) as served:
        yield served
    assert "Traceback" not in served.log, served.log


@pytest.fixture
def bus(quick: ServedBroker) -> Iterator[Bus]:
    with Bus(quick.bootstrap) as opened:
        yield opened


@pytest.fixture
def topic(bus: Bus) -> str:
    """A topic of four partitions with ten records in each."""
    name = f"shared-{next(_numbers)}"
    bus.create_topic(name, partitions=4)
    fill(bus, name)
    return name


def fill(bus: Bus, topic: str, partitions: int = 4) -> None:
    for number in range(10 * partitions):
        bus.send(topic, b"%d" % number, partition=number % partitions)
    bus.flush(60)


@pytest.mark.parametrize("kind", KINDS)
def test_two_members_share_the_partitions_and_one_takes_over(quick: ServedBroker, topic: str, kind: str) -> None:
    make = MEMBERS[kind]
    with closing(make(quick.bootstrap, topic, topic)) as one:
        got = read_all(one, 40)
        assert sorted(got) == sorted(set(got))
        one.commit()
        two = make(quick.bootstrap, topic, topic)
        poll_until(
            [one, two],
            lambda: len(one.assignment()) == len(two.assignment()) == 2 and not one.assignment() & two.assignment(),
            what="both have a half",
        )
        two.close()
        again = poll_until([one], lambda: one.assignment() == {0, 1, 2, 3}, what="the one has all")
        assert again == []  # all was committed


def test_commits_survive_a_killed_broker(tmp_path: Path) -> None:
    with ServedBroker(tmp_path, *SETTINGS) as served, Bus(served.bootstrap) as bus:
        bus.create_topic("t")
        fill(bus, "t", 1)
        for kind in KINDS:
            with closing(MEMBERS[kind](served.bootstrap, "t", kind)) as member:
                read_all(member, 10)
                member.commit()
        served.kill()
        served.start()
        fill(bus, "t", 1)
        for kind in KINDS:
            with closing(MEMBERS[kind](served.bootstrap, "t", kind)) as member:
                assert member.committed(0) == 10
                assert [each.offset for each in read_all(member, 10)] == list(range(10, 20))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_when_its_broker_is_killed(tmp_path: Path, protocol: str) -> None:
    """The member stays in its group over the restart; nobody rebalances."""
    # Sessions that a restart on a busy machine does not outlast: only the coordinator is to decide here.
    session = {} if protocol == "consumer" else {"session.timeout.ms": 30_000}
    settings = [*SETTINGS, "group.consumer.session.timeout.ms=30000"]
    with ServedBroker(tmp_path, *settings) as served, Bus(served.bootstrap) as bus:
        bus.create_topic("t")
        fill(bus, "t", 1)
        member = LibrdkafkaMember(served.bootstrap, "t", "g", **{"group.protocol": protocol}, **session)
        with closing(member):
            read_all(member, 10)
            member_id = member.member_id
            served.kill()
            served.start()
            fill(bus, "t", 1)
            assert [each.offset for each in read_all(member, 10)] == list(range(10, 20))
            member.commit()
            assert (member.member_id, member.committed(0)) == (member_id, 20)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_partitions_of_a_killed_member_are_taken_over(quick: ServedBroker, topic: str, protocol: str) -> None:
    victim = subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.broker.victim", quick.bootstrap, topic, protocol],
        stdout=subprocess.PIPE,
        text=True,
    )
    with victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "joined\n"
        member = LibrdkafkaMember(quick.bootstrap, topic, topic, **{"group.protocol": protocol})
        with closing(member):
            poll_until([member], lambda: len(member.assignment()) == 2, what="it has its half")
            victim.send_signal(signal.SIGKILL)
            poll_until([member], lambda: member.assignment() == {0, 1, 2, 3}, what="it has all")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumers_killed_under_load_see_all_and_again_only_what_was_not_committed(
    quick: ServedBroker, bus: Bus, tmp_path: Path, protocol: str
) -> None:
    topic = f"load-{next(_numbers)}"
    bus.create_topic(topic, partitions=4)
    workers = Workers(tmp_path, quick.bootstrap, topic, protocol)
    sent = 0
    try:
        for _ in range(3):
            workers.start()
        for _ in range(4):  # each round a load, and a kill in the middle of it
            for number in range(400):
                bus.send(topic, b"%d" % number, partition=number % 4)
                if number == 200:
                    workers.wait_seen(sent // 2 + 1)
                    workers.kill_oldest()
                    workers.start()
                if number % 20 == 0:
                    bus.flush(60)
            bus.flush(60)
            sent += 400
        everything = {(partition, offset) for partition in range(4) for offset in range(sent // 4)}
        workers.wait_seen(sent)
        assert workers.seen() == everything
    finally:
        workers.kill_all()
    check_redelivery(workers.lines())


def test_a_cooperative_group_keeps_what_it_can(quick: ServedBroker, topic: str) -> None:
    cooperative = {"partition.assignment.strategy": "cooperative-sticky"}
    with (
        closing(LibrdkafkaMember(quick.bootstrap, topic, topic, **cooperative)) as one,
        closing(LibrdkafkaMember(quick.bootstrap, topic, topic, **cooperative)) as two,
    ):
        got = poll_until(
            [one, two],
            lambda: len(one.assignment()) == len(two.assignment()) == 2 and not one.assignment() & two.assignment(),
            what="both have a half",
        )
        kept = one.assignment()
        three = LibrdkafkaMember(quick.bootstrap, topic, topic, **cooperative)
        with closing(three):
            poll_until([one, two, three], lambda: len(three.assignment()) == 1, what="the third has one")
            assert one.assignment() <= kept
        assert {each.partition for each in got} <= {0, 1, 2, 3}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_comes_back_to_its_partitions(quick: ServedBroker, topic: str, protocol: str) -> None:
    settings = {"group.protocol": protocol}
    with closing(LibrdkafkaMember(quick.bootstrap, topic, topic, **settings, **{"group.instance.id": "a"})) as one:
        two = LibrdkafkaMember(quick.bootstrap, topic, topic, **settings, **{"group.instance.id": "b"})
        poll_until([one, two], lambda: len(two.assignment()) == 2, what="both have a half")
        poll_until([one], lambda: len(one.assignment()) == 2, what="both have a half")
        mine, before = one.assignment(), two.assignment()
        two.close()  # a static member does not leave
        two = LibrdkafkaMember(quick.bootstrap, topic, topic, **settings, **{"group.instance.id": "b"})
        with closing(two):
            poll_until([one, two], lambda: two.assignment() == before, what="it has what it had")
            assert one.assignment() == mine


def test_groups_are_administered(quick: ServedBroker, topic: str) -> None:
    admin = AdminClient({**QUIET, "bootstrap.servers": quick.bootstrap})
    names = {"classic": f"{topic}-c", "consumer": f"{topic}-k"}
    members = [
        LibrdkafkaMember(quick.bootstrap, topic, names[protocol], **{"group.protocol": protocol})
        for protocol in ("classic", "consumer")
    ]
    for member in members:
        read_all(member, 40)
    listed = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(60)
    types = {each.group_id: each.type for each in listed.valid if each.group_id in names.values()}
    assert types == {names["classic"]: ConsumerGroupType.CLASSIC, names["consumer"]: ConsumerGroupType.CONSUMER}
    for name in names.values():
        described = admin.describe_consumer_groups([name])[name].result(60)
        (found,) = described.members
        assert {each.partition for each in found.assignment.topic_partitions} == {0, 1, 2, 3}
        assert described.state is ConsumerGroupState.STABLE
        with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([name])[name].result(60)
    for member in members:
        member.close()
    for name in names.values():
        admin.delete_consumer_groups([name])[name].result(60)
        with pytest.raises(Exception, match="GROUP_ID_NOT_FOUND"):
            admin.delete_consumer_groups([name])[name].result(60)


# The Python client


def test_lag_is_said_in_records_and_in_seconds_and_a_group_is_reset(bus: Bus, topic: str) -> None:
    read = list(bus.consume(topic, group=topic, max_records=15))
    details = bus.describe_group(topic)
    assert (details.state, details.members) == ("empty", ())
    assert sum(each.offset or 0 for each in details.partitions) == len(read) == 15
    assert all(each.lag == 10 - (each.offset or 0) for each in details.partitions)
    behind = [each for each in details.partitions if each.lag]
    assert behind
    assert all(each.lag_seconds is not None and 0 <= each.lag_seconds < 60 for each in behind)
    assert topic in [group.name for group in bus.groups()]

    planned = bus.reset_group(topic, to="earliest", topic=topic, dry_run=True)
    assert [each.after for each in planned] == [0, 0, 0, 0]
    assert sum(each.before or 0 for each in planned) == 15
    offsets = [each.offset for each in bus.describe_group(topic).partitions]
    assert offsets == [each.offset for each in details.partitions]  # a dry run changes nothing
    assert [each.after for each in bus.reset_group(topic, to="latest", topic=topic)] == [10] * 4
    assert all(each.lag == 0 == each.lag_seconds for each in bus.describe_group(topic).partitions)
    assert [each.after for each in bus.reset_group(topic, shift_by=-3)] == [7] * 4
    assert [each.after for each in bus.reset_group(topic, to=4)] == [4] * 4
    assert [each.after for each in bus.reset_group(topic, timestamp_ms=0)] == [0] * 4
    times = [[bus.get(topic, partition, offset).timestamp_ms for offset in range(10)] for partition in range(4)]
    later = [next((offset for offset, at in enumerate(each) if at >= times[0][5]), 10) for each in times]
    assert [each.after for each in bus.reset_group(topic, timestamp_ms=times[0][5])] == later
    assert [each.after for each in bus.reset_group(topic, shift_by=99)] == [10] * 4
    bus.delete_group(topic)
    with pytest.raises(GroupIdNotFound):
        bus.describe_group(topic)


def test_a_group_with_members_is_not_reset(bus: Bus, topic: str) -> None:
    records = bus.consume(topic, group=topic)
    next(records)
    with pytest.raises(NonEmptyGroup, match="1 members"):
        bus.reset_group(topic, to="latest", topic=topic)
    records.close()
    bus.reset_group(topic, to="latest", topic=topic)


def test_a_reader_that_stops_goes_on_where_it_was(bus: Bus, topic: str) -> None:
    first = list(bus.consume(topic, group=topic, max_records=25))
    second = list(bus.consume(topic, group=topic, until_end=True))
    assert len({(each.partition, each.offset) for each in first + second}) == 40 == len(first + second)


def test_at_most_500_records_are_taken_at_a_time_unless_asked_otherwise(bus: Bus) -> None:
    """At most once, a chunk is committed before any of it is handed out: so the commit says how large it is."""
    assert inspect.signature(Bus.consume).parameters["max_poll_records"].default == 500
    topic = f"long-{next(_numbers)}"
    bus.create_topic(topic)
    for number in range(1500):
        bus.send(topic, b"%d" % number)
    bus.flush(60)
    records = bus.consume(topic, group=topic, mode="at-most-once")
    committed = 0
    while committed < 1500:
        first = next(records).offset
        assert first == committed
        committed = bus.describe_group(topic).partitions[0].offset or 0
        assert first < committed <= first + 500
        for _ in range(first + 1, committed):
            next(records)
    records.close()


@pytest.mark.parametrize("mode", ["at-least-once", "at-most-once"])
def test_a_consumer_killed_between_reading_and_committing(
    quick: ServedBroker, bus: Bus, tmp_path: Path, mode: str
) -> None:
    """It dies with its seventh record in hand. At least once: it is seen again. At most once: it is not."""
    topic = f"killed-{next(_numbers)}"
    bus.create_topic(topic)
    fill(bus, topic, 1)
    reader = subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.broker.delivery", quick.bootstrap, topic, mode],
        stdout=subprocess.PIPE,
        text=True,
    )
    with reader:
        assert reader.stdout is not None
        seen = [int(reader.stdout.readline()) for _ in range(7)]
        assert seen == list(range(7))
        reader.send_signal(signal.SIGKILL)
    after = [each.offset for each in bus.consume(topic, group=topic, until_end=True, timeout=60)]
    if mode == "at-least-once":
        assert after == list(range(6, 10))  # chunks of two: what was committed is the third
    else:
        assert after == list(range(8, 10))  # the chunk in hand was committed before
