"""The ends of partitions, asked of a cluster that is none: how often, and what is believed."""

from collections.abc import Iterable, KeysView, Mapping

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
        self.partition_count = 1

    def partitions(self, topics: Iterable[str] | None) -> dict[str, KeysView[int]]:
        self.partition_questions += 1
        return {} if self.end is None else {"t": dict.fromkeys(range(self.partition_count)).keys()}

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


def waits(lookup: FakeLookup, watched: Watch, *, for_s: float) -> list[float]:
    """How long each answer was waited for; Spark asks for the next one after 10 ms."""
    found = []
    end = lookup.now + for_s
    while lookup.now < end:
        before = lookup.now
        watched.ends({})
        found.append(lookup.now - before)
        lookup.now += 0.01
    return found


def test_a_stream_that_has_just_read_asks_fifty_times_a_second_at_most() -> None:
    lookup = FakeLookup()
    watched = watch(lookup)

    assert max(waits(lookup, watched, for_s=0.4)) <= 0.02
    assert 15 <= lookup.offset_questions <= 21
    assert lookup.partition_questions == 1


def test_the_longer_a_stream_is_idle_the_less_it_asks() -> None:
    lookup = FakeLookup()
    watched = watch(lookup)

    after_a_second = waits(lookup, watched, for_s=1.0)[-1]
    waits(lookup, watched, for_s=60.0)
    asked = lookup.offset_questions
    after_a_minute = waits(lookup, watched, for_s=10.0)

    assert 0.02 < after_a_second <= 0.05
    assert max(after_a_minute) <= 0.25
    assert lookup.offset_questions - asked <= 41


def test_an_idle_stream_that_finds_something_asks_often_again() -> None:
    lookup = FakeLookup()
    watched = watch(lookup)
    waits(lookup, watched, for_s=60.0)

    lookup.end = 6
    waits(lookup, watched, for_s=0.25)  # finds it

    assert max(waits(lookup, watched, for_s=0.1)) <= 0.02


def test_a_source_without_anything_new_does_not_hold_up_a_query_that_runs_batches_of_another() -> None:
    lookup = FakeLookup()
    watched = watch(lookup)
    waits(lookup, watched, for_s=60.0)

    for _ in range(3):
        watched.note_batch()
        lookup.now += 0.2  # the batch
        assert waits(lookup, watched, for_s=0.01) == [0.0]


def test_thousands_of_partitions_are_asked_about_less_often() -> None:
    lookup = FakeLookup()
    lookup.partition_count = 4000
    watched = watch(lookup)

    waits(lookup, watched, for_s=10.0)

    assert lookup.offset_questions <= 100
    assert lookup.partition_questions <= 3


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
