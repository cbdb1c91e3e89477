"""A follower in one leader epoch: what it fetches, what it does with answers, what it ignores."""

import pytest

from barnabas.core.errors import (
    BarnabasError,
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from barnabas.core.replica.follower import (
    Append,
    AskOffsets,
    FetchAnswer,
    FetchedBatch,
    Follower,
    FollowerFetch,
    Reset,
    Retry,
    Truncate,
    Wait,
)
from barnabas.core.replica.leader_epochs import EpochEnd, EpochStart, LeaderEpochs

EPOCH = 7


def follow(
    *epochs: tuple[int, int], end: int = 10, start: int = 0, durable: int | None = None, high_watermark: int = 0
) -> Follower:
    return Follower(
        epoch=EPOCH,
        epochs=LeaderEpochs(EpochStart(*each) for each in epochs),
        start_offset=start,
        end_offset=end,
        durable_end_offset=end if durable is None else durable,
        high_watermark=high_watermark,
    )


def ask(follower: Follower) -> FollowerFetch:
    fetch = follower.next_fetch()
    assert fetch is not None
    return fetch


def batches(*ends: int, base: int = 10, epoch: int = EPOCH) -> FetchAnswer:
    made = []
    for end in ends:
        made.append(FetchedBatch(base, end, epoch))
        base = end
    return FetchAnswer(high_watermark=0, log_start_offset=0, batches=made)


def diverging(epoch: int, end_offset: int, *, high_watermark: int = 100) -> FetchAnswer:
    return FetchAnswer(high_watermark, 0, diverging=EpochEnd(epoch, end_offset))


# What it fetches


def test_it_fetches_from_its_end_and_tells_what_it_knows() -> None:
    follower = follow((1, 0), (3, 5), end=10, start=2, durable=8)

    assert ask(follower) == FollowerFetch(1, EPOCH, 10, 3, 2, 8)
    assert follower.next_fetch() is None


def test_it_fetches_on_while_it_syncs() -> None:
    follower = follow((1, 0))
    assert follower.receive(ask(follower), batches(12)) == Append(10, 12)
    assert follower.next_fetch() is None  # the append is under way
    follower.note_appended(12)

    fetch = ask(follower)

    assert (fetch.fetch_offset, fetch.durable_end_offset) == (12, 10)


def test_a_finished_sync_replaces_the_fetch_that_waits_and_only_the_new_answer_counts() -> None:
    follower = follow((1, 0), durable=8)
    waiting = ask(follower)
    owed = follower.owes_durable_end
    follower.note_flushed(10, generation=follower.generation)
    assert (owed, follower.owes_durable_end) == (False, True)

    replacing = follower.replace_fetch()

    assert replacing is not None
    assert replacing.durable_end_offset == 10
    assert follower.receive(waiting, batches(12)) is Wait.IGNORED
    assert follower.receive(replacing, batches(12)) == Append(10, 12)


def test_nothing_is_replaced_when_nothing_waits() -> None:
    assert follow((1, 0)).replace_fetch() is None


def test_a_fetch_without_an_answer_is_asked_again_and_its_late_answer_ignored() -> None:
    follower = follow((1, 0))
    lost = ask(follower)
    follower.give_up(lost)

    again = ask(follower)

    assert follower.receive(lost, batches(12)) is Wait.IGNORED
    assert follower.receive(again, batches(12)) == Append(10, 12)


def test_an_answer_of_another_epoch_is_ignored() -> None:
    follower = follow((1, 0))
    fetch = ask(follower)

    assert follower.receive(fetch._replace(leader_epoch=EPOCH - 1), diverging(1, 3)) is Wait.IGNORED


# What it appends


def test_the_watermark_is_the_leaders_as_far_as_the_log_goes() -> None:
    follower = follow((1, 0))
    assert follower.receive(ask(follower), batches(12)._replace(high_watermark=100)) == Append(10, 12)
    assert follower.high_watermark == 0

    assert follower.note_appended(12) == 12


def test_the_watermark_does_not_go_back_with_a_new_leader_that_knows_less() -> None:
    follower = follow((1, 0), high_watermark=9)

    assert follower.receive(ask(follower), FetchAnswer(4, 0)) is Wait.FETCH
    assert follower.high_watermark == 9


def test_the_start_follows_the_leaders() -> None:
    follower = follow((1, 0))

    follower.receive(ask(follower), FetchAnswer(high_watermark=8, log_start_offset=6))
    assert follower.start_offset == 6
    follower.receive(ask(follower), FetchAnswer(high_watermark=8, log_start_offset=3))
    assert follower.start_offset == 6


def test_compaction_leaves_gaps_that_are_no_mistake() -> None:
    follower = follow((1, 0))

    assert follower.receive(ask(follower), batches(15, base=12)) == Append(12, 15)


@pytest.mark.parametrize(
    "batch",
    [FetchedBatch(9, 12, EPOCH), FetchedBatch(10, 12, EPOCH + 1), FetchedBatch(10, 12, 0)],
    ids=["overlaps", "of a later epoch than the leader's", "of an earlier epoch than the last record"],
)
def test_a_batch_that_cannot_follow_is_not_appended(batch: FetchedBatch) -> None:
    follower = follow((1, 0))

    action = follower.receive(ask(follower), FetchAnswer(0, 0, [batch]))

    assert isinstance(action, Retry)
    assert action.is_wrong
    assert ask(follower).fetch_offset == 10


def test_an_append_that_failed_is_fetched_again() -> None:
    follower = follow((1, 0))
    follower.receive(ask(follower), batches(12))

    follower.note_failed()

    assert ask(follower).fetch_offset == 10


# What it truncates


@pytest.mark.parametrize(
    ("epochs", "theirs", "end"),
    [
        (((1, 0),), (1, 6), 6),  # the leader's part of the same epoch is shorter
        (((1, 0), (3, 8)), (1, 20), 8),  # the leader has no epoch 3, and more of epoch 1
        (((1, 0), (3, 8)), (1, 6), 6),  # the leader has no epoch 3, and less of epoch 1
        (((1, 0), (3, 8)), (2, 9), 8),  # the leader has epoch 2, which this log has not (KIP-279)
        (((3, 4),), (2, 9), 4),  # the history begins later than the leader's answer
        (((1, 0), (3, 10)), (2, 12), 10),  # an epoch without records goes
    ],
)
def test_it_truncates_to_where_the_histories_part(
    epochs: tuple[tuple[int, int], ...], theirs: tuple[int, int], end: int
) -> None:
    follower = follow(*epochs)

    assert follower.receive(ask(follower), diverging(*theirs)) == Truncate(end, loses_committed=False)


def test_the_watermark_of_a_diverging_answer_is_not_taken() -> None:
    follower = follow((1, 0), high_watermark=2)

    follower.receive(ask(follower), diverging(1, 6, high_watermark=100))

    assert follower.note_truncated(6) == 2
    assert (follower.end_offset, follower.durable_end_offset) == (6, 6)


def test_truncation_below_the_watermark_is_said_loudly() -> None:
    follower = follow((1, 0), high_watermark=8)

    assert follower.receive(ask(follower), diverging(1, 6)) == Truncate(6, loses_committed=True)
    assert follower.note_truncated(5) == 5  # to a whole batch


def test_a_sync_that_began_before_a_truncation_says_nothing_of_what_came_after_it() -> None:
    follower = follow((1, 0), durable=4)
    before = follower.generation
    follower.receive(ask(follower), diverging(1, 6))
    follower.note_truncated(6)
    follower._epochs.truncate_to(6)
    follower.receive(ask(follower), batches(9, base=6))
    follower.note_appended(9)

    follower.note_flushed(10, generation=before)
    assert follower.durable_end_offset == 4
    follower.note_flushed(9, generation=follower.generation)
    assert follower.durable_end_offset == 9


@pytest.mark.parametrize("theirs", [(4, 6), (1, 10), (1, 30), (1, -1)])
def test_a_divergence_that_is_none_changes_nothing(theirs: tuple[int, int]) -> None:
    follower = follow((1, 0))

    action = follower.receive(ask(follower), diverging(*theirs))

    assert isinstance(action, Retry)
    assert action.is_wrong


def test_a_divergence_before_the_start_begins_again() -> None:
    follower = follow((3, 5), start=5, high_watermark=7)

    assert follower.receive(ask(follower), diverging(2, 3)) == Reset(3, loses_committed=True)


# What is out of range, and refused


def test_below_the_leaders_start_it_begins_again_there() -> None:
    follower = follow((1, 0))

    out = FetchAnswer(log_start_offset=30, error=OffsetOutOfRange("no"))
    assert follower.receive(ask(follower), out) == Reset(30, loses_committed=False)
    assert follower.note_reset() == 30
    assert (follower.start_offset, follower.end_offset, follower.durable_end_offset) == (30, 30, 30)
    follower._epochs.truncate_to(0)
    assert ask(follower) == FollowerFetch(2, EPOCH, 30, -1, 30, 30)


@pytest.mark.parametrize(
    ("start", "end", "action"),
    [
        (30, 40, Reset(30, loses_committed=False)),
        (0, 6, Truncate(6, loses_committed=True)),
        (0, 40, Wait.FETCH),
    ],
)
def test_a_leader_that_does_not_say_its_offsets_is_asked(start: int, end: int, action: object) -> None:
    follower = follow((1, 0), high_watermark=8)

    assert follower.receive(ask(follower), FetchAnswer(error=OffsetOutOfRange("no"))) == AskOffsets()
    assert follower.next_fetch() is None
    assert follower.note_leader_offsets(start_offset=start, end_offset=end) == action


def test_fenced_it_waits_for_the_metadata() -> None:
    follower = follow((1, 0))

    assert follower.receive(ask(follower), FetchAnswer(error=FencedLeaderEpoch("old"))) is Wait.METADATA
    assert follower.next_fetch() is None


@pytest.mark.parametrize("error", [UnknownLeaderEpoch("early"), NotLeaderOrFollower("not me"), BarnabasError("what")])
def test_any_other_refusal_is_asked_again(error: BarnabasError) -> None:
    follower = follow((1, 0))

    action = follower.receive(ask(follower), FetchAnswer(error=error))

    assert isinstance(action, Retry)
    assert not action.is_wrong
    assert ask(follower).fetch_offset == 10


def test_a_checkpointed_watermark_counts_within_the_log() -> None:
    assert follow((1, 0), end=10, high_watermark=12).high_watermark == 10
    assert follow((1, 0), end=10, start=4, high_watermark=0).high_watermark == 4
