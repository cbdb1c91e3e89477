from typing import cast

from barnabas.core.model import TopicPartition
from barnabas.runtime.histogram import Histogram
from barnabas.runtime.traffic import Traffic
from barnabas.services.history import History, Ring
from barnabas.services.lag import GroupLag, PartitionLag
from barnabas.services.served import ServedTopics
from tests.support.ports import FixedClock


class FakeTopic:
    def __init__(self) -> None:
        self.traffic = Traffic()


class FakeServed:
    def __init__(self) -> None:
        self.by_name = {"orders": FakeTopic(), "quiet": FakeTopic()}


def test_a_ring_forgets_the_oldest() -> None:
    ring = Ring(1, 3)
    for value in range(5):
        ring.add(float(value))
    assert ring.column(0) == [2.0, 3.0, 4.0]


def test_rates_are_of_what_was_counted_in_a_step() -> None:
    served, times = FakeServed(), Histogram((1.0, 2.0))
    history = History(cast("ServedTopics", served), FixedClock(), lambda: {"produce": times})
    history.step()
    served.by_name["orders"].traffic.records_in = 50
    times.observe(0.5)
    history.step()
    history.step()
    assert history.node().values["records_in_per_second"] == [0.0, 5.0, 0.0]
    assert [value > 0 for value in history.node().values["produce_p99_seconds"]] == [False, True, False]
    found = history.topic("orders")
    assert found is not None
    assert found.values["records_in_per_second"] == [5.0, 0.0]
    assert history.topic("quiet") is None


def test_lag_is_kept_once_a_minute() -> None:
    history = History(cast("ServedTopics", FakeServed()), FixedClock(), dict)
    lag = {"g": GroupLag("Empty", 0, {TopicPartition("t", 0): PartitionLag(1, 5, 4, 2000)})}
    history.note_lags(lag)
    history.note_lags(lag)
    found = history.group("g")
    assert found is not None
    assert found.values == {"lag_records": [4.0], "lag_seconds": [2.0]}
