"""Which leader epoch wrote which offsets, and where each ended."""

import pytest

from barnabas.core.replica.leader_epochs import UNKNOWN_EPOCH_END, EpochEnd, EpochStart, LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochStart(*entry) for entry in entries)


def test_a_new_log_knows_no_epoch() -> None:
    history = epochs()
    assert (history.latest, history.entries) == (-1, ())
    assert history.epoch_at(0) == -1
    assert history.end_offset_for(0, log_end_offset=0) == UNKNOWN_EPOCH_END


def test_an_epoch_keeps_the_offset_it_began_at() -> None:
    history = epochs((0, 0))
    assert not history.assign(0, 50)
    assert history.entries == (EpochStart(0, 0),)


def test_a_later_epoch_is_added() -> None:
    history = epochs((0, 0))
    assert history.assign(4, 50)
    assert (history.latest, history.entries) == (4, ((0, 0), (4, 50)))


def test_no_epoch_is_never_noted() -> None:
    history = epochs((0, 0))
    assert not history.assign(-1, 10)
    assert history.entries == ((0, 0),)


def test_an_epoch_that_wrote_nothing_gives_way_to_the_next() -> None:
    history = epochs((0, 0), (1, 10))
    assert history.assign(2, 10)
    assert history.entries == ((0, 0), (2, 10))


def test_entries_that_contradict_a_new_one_go() -> None:
    history = epochs((0, 0), (3, 10), (5, 20))
    assert history.assign(4, 15)
    assert history.entries == ((0, 0), (3, 10), (4, 15))


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (0, EpochEnd(0, 5)),  # smaller than any known: where the first known one begins
        (1, EpochEnd(1, 20)),
        (2, EpochEnd(1, 20)),  # never wrote here: the one before it
        (4, EpochEnd(4, 30)),
        (6, EpochEnd(6, 99)),  # the latest: up to the end of the log
        (7, UNKNOWN_EPOCH_END),
        (-1, UNKNOWN_EPOCH_END),
    ],
)
def test_the_end_of_an_epoch_is_where_the_next_one_began(epoch: int, end: EpochEnd) -> None:
    history = epochs((1, 5), (4, 20), (6, 30))
    assert history.end_offset_for(epoch, log_end_offset=99) == end


@pytest.mark.parametrize(("offset", "epoch"), [(4, -1), (5, 1), (19, 1), (20, 4), (1000, 4)])
def test_each_offset_was_written_by_one_epoch(offset: int, epoch: int) -> None:
    assert epochs((1, 5), (4, 20)).epoch_at(offset) == epoch


@pytest.mark.parametrize(
    ("end_offset", "left", "latest"),
    [(0, (), -1), (20, ((1, 5),), 1), (21, ((1, 5), (4, 20)), 4), (99, ((1, 5), (4, 20)), 4)],
)
def test_a_cut_at_the_end_forgets_epochs_that_began_there(
    end_offset: int, left: tuple[tuple[int, int], ...], latest: int
) -> None:
    history = epochs((1, 5), (4, 20))
    assert history.truncate_to(end_offset) == (left != ((1, 5), (4, 20)))
    assert (history.entries, history.latest) == (left, latest)


@pytest.mark.parametrize(
    ("start_offset", "left"),
    [
        (0, ((1, 5), (4, 20))),
        (5, ((1, 5), (4, 20))),
        (10, ((1, 10), (4, 20))),  # the one that spans the start now begins there
        (20, ((4, 20),)),
        (50, ((4, 50),)),
    ],
)
def test_a_cut_at_the_front_forgets_epochs_that_ended_before(
    start_offset: int, left: tuple[tuple[int, int], ...]
) -> None:
    history = epochs((1, 5), (4, 20))
    assert history.truncate_before(start_offset) == (left != ((1, 5), (4, 20)))
    assert history.entries == left


def test_a_history_that_is_not_growing_is_read_as_its_last_entries_say() -> None:
    assert epochs((3, 30), (2, 10), (5, 40)).entries == ((2, 10), (5, 40))
