"""Every reader of the bus, on a topic with committed, aborted and open transactions."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from barnabas.client import Bus, RecordNotFound
from barnabas.client.settings import Isolation
from barnabas.core.errors import InvalidConfig

Read = Callable[[Bus, str, Isolation | None], list[bytes | None]]


def consumed(bus: Bus, topic: str, isolation: Isolation | None) -> list[bytes | None]:
    return [message.value for message in bus.consume(topic, until_end=True, isolation=isolation)]


def consumed_in_a_group(bus: Bus, topic: str, isolation: Isolation | None) -> list[bytes | None]:
    group = f"{topic}-{isolation}"
    return [message.value for message in bus.consume(topic, group=group, until_end=True, isolation=isolation)]


def merged(bus: Bus, topic: str, isolation: Isolation | None) -> list[bytes | None]:
    return [message.value for message in bus.merge(topic, isolation=isolation)]


def as_arrow(bus: Bus, topic: str, isolation: Isolation | None) -> list[bytes | None]:
    values: list[bytes | None] = bus.read_arrow(topic, isolation=isolation).read_all().column("value").to_pylist()
    return values


def got_one_by_one(bus: Bus, topic: str, isolation: Isolation | None) -> list[bytes | None]:
    found = []
    for offset in range(8):
        with contextlib.suppress(RecordNotFound):
            found.append(bus.get(topic, 0, offset, isolation=isolation).value)
    return found


READERS: list[Read] = [consumed, consumed_in_a_group, merged, as_arrow, got_one_by_one]


@pytest.fixture
def topic(real_bus: Bus, name: str) -> Iterator[str]:
    """Offsets 0 committed, 1 its marker, 2 aborted, 3 its marker, 4 plain, 5 open, 6 plain behind it."""
    real_bus.create_topic(name)
    with real_bus.transaction(f"{name}-1") as tx:
        tx.send(name, b"committed")
    with contextlib.suppress(ZeroDivisionError), real_bus.transaction(f"{name}-1") as tx:
        tx.send(name, b"aborted").result(60)
        raise ZeroDivisionError
    real_bus.send(name, b"plain").result(60)
    with contextlib.suppress(ZeroDivisionError), real_bus.transaction(f"{name}-2") as tx:
        tx.send(name, b"open").result(60)
        real_bus.send(name, b"behind").result(60)
        yield name
        raise ZeroDivisionError


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("isolation", [None, "read_committed"])
def test_a_reader_sees_what_is_committed_up_to_what_is_open(
    real_bus: Bus, topic: str, read: Read, isolation: Isolation | None
) -> None:
    assert read(real_bus, topic, isolation) == [b"committed", b"plain"]


@pytest.mark.parametrize("read", READERS)
def test_a_reader_can_ask_for_all_there_is(real_bus: Bus, topic: str, read: Read) -> None:
    everything = [b"committed", b"aborted", b"plain", b"open", b"behind"]
    assert read(real_bus, topic, "read_uncommitted") == everything


def test_a_bus_can_say_it_for_all_its_readers(real_bus: Bus, topic: str) -> None:
    with Bus(real_bus.bootstrap, config={"isolation.level": "read_uncommitted"}) as bus:
        assert b"aborted" in consumed(bus, topic, None)
        assert consumed(bus, topic, "read_committed") == [b"committed", b"plain"]


def test_a_record_of_an_aborted_transaction_is_not_there(real_bus: Bus, topic: str) -> None:
    with pytest.raises(RecordNotFound, match="the next one is at 4"):
        real_bus.get(topic, 0, 2)
    with pytest.raises(RecordNotFound, match="open transaction"):
        real_bus.get(topic, 0, 6)


def test_an_isolation_that_is_none_is_refused(real_bus: Bus, topic: str) -> None:
    with pytest.raises(InvalidConfig, match="it may be read_committed or read_uncommitted"):
        real_bus.consume(topic, isolation="serializable")  # type: ignore[arg-type]


def test_many_transactions_read_as_one_would_expect(real_bus: Bus, name: str) -> None:
    """Larger than one fetch answer of a partition is not needed: each batch is looked at by itself."""
    real_bus.create_topic(name, partitions=2)
    expected: list[bytes] = []
    for number in range(60):
        with contextlib.suppress(ZeroDivisionError), real_bus.transaction(f"{name}-{number % 3}") as tx:
            values = [b"%d-%d" % (number, each) for each in range(5)]
            for value in values:
                tx.send(name, value, key=value)
            if number % 4 == 0:
                raise ZeroDivisionError
            expected += values

    for read in (consumed, merged, as_arrow):
        assert sorted(value or b"" for value in read(real_bus, name, None)) == sorted(expected)
