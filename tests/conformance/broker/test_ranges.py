"""Which part of a topic is read: the last records of each partition, and up to a time."""

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

import barnabas
from barnabas.client import Bus
from barnabas.core.errors import InvalidRequest

BEGIN_MS: Final = int(time.time() - 3600) * 1000  # not so long ago that retention would delete them


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    """Two partitions of ten records each, a second apart in turn, and one that is empty."""
    with barnabas.embedded() as broker:
        broker.bus.create_topic("times", partitions=3)
        for number in range(20):
            broker.bus.send("times", str(number), partition=number % 2, timestamp_ms=BEGIN_MS + 1000 * number)
        broker.bus.flush()
        yield broker.bus


def read(bus: Bus, **options: Any) -> list[int]:
    return [int(message.value or b"-1") for message in bus.merge("times", **options)]


def test_the_last_of_each_partition(bus: Bus) -> None:
    assert read(bus, last=2) == [16, 17, 18, 19]
    assert read(bus, last=0) == []
    assert read(bus, last=1000) == list(range(20))
    assert read(bus, last=3, partitions=[1]) == [15, 17, 19]


def test_up_to_a_time(bus: Bus) -> None:
    assert read(bus, until_ms=BEGIN_MS + 5000) == [0, 1, 2, 3, 4]
    assert read(bus, timestamp_ms=BEGIN_MS + 2000, until_ms=BEGIN_MS + 4500) == [2, 3, 4]
    assert read(bus, until_ms=BEGIN_MS + 1_000_000) == list(range(20))
    assert read(bus, until_ms=BEGIN_MS) == []
    consumed = bus.consume("times", partitions=[0], until_ms=BEGIN_MS + 5000)
    assert [message.value for message in consumed] == [b"0", b"2", b"4"]


def test_a_group_has_its_own_range(bus: Bus) -> None:
    with pytest.raises(InvalidRequest, match="committed offsets"):
        bus.consume("times", group="g", last=1)
    with pytest.raises(InvalidRequest, match="committed offsets"):
        bus.consume("times", group="g", until_ms=5)
    with pytest.raises(InvalidRequest, match="at least 0"):
        bus.consume("times", last=-1)
