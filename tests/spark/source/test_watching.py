"""The ends of partitions, asked of a cluster that is none: how often, and what is believed."""

from collections.abc import Iterable, Mapping

from barnabas.core.errors import UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.spark.source.lookup import Lookup
from barnabas.spark.source.options import Selection
from barnabas.spark.source.watching import Watch

KEY = TopicPartition("t", 0)


class FakeLookup(Lookup):
    """A cluster with one partition, whose answers can be set."""

    def __init__(self) -> None:  # without connections
        self.now = 0.0
        self.end: int | None = 5
        self.answers: list[int | None] = []
        self.offset_questions = 0
        self.partition_questions = 0

    def partitions(self, topics: Iterable[str] | None) -> dict[str, list[int]]:
        self.partition_questions += 1
        return {} if self.end is None else {"t": [0]}

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.offset_questions += 1
        if self.answers:
            self.end = self.answers.pop(0)
        if self.end is None and wanted:
            raise UnknownTopicOrPartition("gone")
        return dict.fromkeys(wanted, self.end or 0)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def watch(lookup: FakeLookup) -> Watch:
    return Watch(lookup, Selection(topics=("t",)), clock=lambda: lookup.now, sleep=lookup.sleep)


def test_an_idle_stream_asks_fifty_times_a_second_at_most() -> None:
    lookup = FakeLookup()
    watched = watch(lookup)

    while lookup.now < 1.0:
        assert watched.ends({KEY: 5}) == {KEY: 5}

    assert lookup.offset_questions <= 51
    assert lookup.partition_questions <= 2


def test_an_end_that_went_back_is_looked_at_again_before_it_is_believed() -> None:
    lookup = FakeLookup()
    watched = watch(lookup)
    watched.ends({})

    lookup.answers = [3, 5]
    assert watched.ends({KEY: 5}) == {KEY: 5}
    lookup.answers = [3, 3, 3]
    assert watched.ends({KEY: 5}) == {KEY: 3}


def test_a_partition_that_is_gone_is_left_out() -> None:
    lookup = FakeLookup()
    watched = watch(lookup)
    watched.ends({})

    lookup.end = None

    assert watched.ends({KEY: 5}) == {}


def test_what_is_shown_costs_no_question() -> None:
    lookup = FakeLookup()
    watched = watch(lookup)
    watched.ends({})

    assert watched.newest() == {KEY: 5}
    assert lookup.offset_questions == 1
