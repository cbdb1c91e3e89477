"""A followed partition: what its leader sends is in its log, what the leader lacks is not."""

import pytest

from barnabas.core.errors import FencedLeaderEpoch, OffsetOutOfRange, UnknownLeaderEpoch
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.following import Fetched, Next
from barnabas.storage.config import FlushPolicy
from tests.unit.runtime.replicating.replica_support import FOLLOWER, LEADER, Side, answer, fetch_once, in_loop
from tests.unit.storage.builders import produced


def pair() -> tuple[Side, Side]:
    leader, follower = Side(LEADER), Side(FOLLOWER)
    leader.lead()
    return leader, follower


def test_a_follower_has_what_its_leader_appends() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        leader.append(b"a", b"b", b"c")

        assert fetch_once(leader, following) is Next.FETCH
        assert follower.values == [b"a", b"b", b"c"]

    in_loop(scenario)


def test_nothing_is_acknowledged_before_it_is_on_both_disks() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        leader.append(b"a")
        leader.flush()
        fetch_once(leader, following)
        fetch_once(leader, following)
        assert (leader.partition.high_watermark, following.is_unsynced) == (0, True)

        follower.flush()
        assert not following.is_unsynced
        fetch_once(leader, following)
        assert leader.partition.high_watermark == 1
        assert follower.partition.high_watermark == 1

    in_loop(scenario)


def test_where_flushing_is_left_to_the_system_what_is_fetched_counts() -> None:
    async def scenario() -> None:
        leader, follower = Side(LEADER, policy=FlushPolicy.OS), Side(FOLLOWER, policy=FlushPolicy.OS)
        leader.lead()
        following = follower.follow(LEADER)
        leader.append(b"a")
        fetch_once(leader, following)
        assert not following.is_unsynced
        fetch_once(leader, following)
        assert leader.partition.high_watermark == 1

    in_loop(scenario)


def test_a_sync_is_told_to_whoever_fetches() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following, told = follower.follow(LEADER), list[int]()
        following.on_flushed = lambda: told.append(1)
        leader.append(b"a")
        fetch_once(leader, following)
        assert told == []
        follower.flush()
        assert told == [1]
        follower.flush()
        assert told == [1]

    in_loop(scenario)


def test_a_follower_without_records_makes_no_files() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        assert fetch_once(leader, following) is Next.FETCH
        assert follower.partition.held_log is None

    in_loop(scenario)


def test_what_only_an_old_leader_had_is_removed_by_the_history_of_epochs() -> None:
    async def scenario() -> None:
        old, new = pair()
        following = new.follow(LEADER)
        old.append(b"both")
        fetch_once(old, following)
        old.append(b"only here", b"and this")

        new.lead(1)
        new.append(b"new")
        following = old.follow(FOLLOWER, 1)
        while old.values != [b"both", b"new"]:
            assert fetch_once(new, following) is Next.FETCH

        assert old.partition.held_log is not None
        assert old.partition.held_log.epochs.latest == 1

    in_loop(scenario)


def test_an_old_leader_with_other_records_at_the_same_offsets_takes_the_new_ones() -> None:
    async def scenario() -> None:
        old, new = pair()
        old.append(b"lost")
        new.lead(1)
        new.append(b"kept")
        following = old.follow(FOLLOWER, 1)
        for _ in range(4):
            fetch_once(new, following)
        assert old.values == new.values == [b"kept"]

    in_loop(scenario)


def test_a_truncation_below_the_watermark_is_done_and_said(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        old, new = pair()
        old.append(b"a")
        old.flush()
        old.lead(0, isr=(1,), partition_epoch=1)  # alone in sync, as it was said
        assert old.partition.high_watermark == 1
        new.lead(1)
        new.append(b"other")
        following = old.follow(FOLLOWER, 1)
        for _ in range(4):
            fetch_once(new, following)
        assert old.values == [b"other"]

    in_loop(scenario)
    assert "lacks committed records from offset 0 on" in caplog.text


def test_a_follower_whose_records_the_leader_has_deleted_begins_at_the_leaders_start() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        asked = following.next_fetch()
        assert asked is not None
        assert following.receive(asked, Fetched(b"", -1, -1, error=OffsetOutOfRange("gone"))) is Next.ASK
        assert following.note_leader_offsets(start_offset=10, end_offset=12) is Next.FETCH
        held = follower.partition.held_log
        assert held is not None
        assert (held.log_start_offset, held.end_offset) == (10, 10)
        assert leader.values == []

    in_loop(scenario)


def test_the_start_of_the_leaders_log_is_taken_over() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        leader.append(b"a", b"b")
        fetch_once(leader, following)
        asked = following.next_fetch()
        assert asked is not None
        following.receive(asked, Fetched(b"", 2, 1))
        held = follower.partition.held_log
        assert held is not None
        assert held.log_start_offset == 1

    in_loop(scenario)


def test_producers_are_known_to_a_follower_that_leads_later() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        leader.partition.append(produced(5, 0), now_ms=0)
        fetch_once(leader, following)

        follower.lead(1)
        again = follower.partition.append(produced(5, 0), now_ms=0)
        assert (again.is_duplicate, again.first_offset) == (True, 0)

    in_loop(scenario)


@pytest.mark.parametrize("error", [UnknownLeaderEpoch("not yet"), OffsetOutOfRange("gone")])
def test_a_refusal_that_passes_changes_nothing(error: UnknownLeaderEpoch) -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        leader.append(b"a")
        fetch_once(leader, following)
        asked = following.next_fetch()
        assert asked is not None
        assert following.receive(asked, Fetched(b"", -1, -1, error=error)) in (Next.LATER, Next.ASK)
        assert follower.values == [b"a"]

    in_loop(scenario)


def test_a_follower_that_the_leader_calls_old_waits_for_the_metadata() -> None:
    async def scenario() -> None:
        _, follower = pair()
        following = follower.follow(LEADER)
        asked = following.next_fetch()
        assert asked is not None
        assert following.receive(asked, Fetched(b"", -1, -1, error=FencedLeaderEpoch("old"))) is Next.STOP
        assert following.next_fetch() is None

    in_loop(scenario)


def test_damaged_records_are_not_taken() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        leader.append(b"a" * 50)
        asked = following.next_fetch()
        assert asked is not None
        sent = answer(leader, asked)
        damaged = bytearray(sent.records)
        damaged[-3] ^= 1
        assert following.receive(asked, sent._replace(records=bytes(damaged))) is Next.LATER
        assert follower.values == []
        assert fetch_once(leader, following) is Next.FETCH
        assert follower.values == [b"a" * 50]

    in_loop(scenario)


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        leader.append(b"a", b"b")
        asked = following.next_fetch()
        assert asked is not None
        sent = answer(leader, asked)
        assert following.receive(asked, sent._replace(records=sent.records[:-5])) is Next.FETCH
        assert follower.values == [b"a"]
        fetch_once(leader, following)
        assert follower.values == [b"a", b"b"]

    in_loop(scenario)


def test_an_answer_of_an_epoch_that_is_over_does_nothing() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        leader.append(b"a")
        asked = following.next_fetch()
        assert asked is not None
        sent = answer(leader, asked)
        follower.follow(LEADER, 1)
        assert following.is_over
        assert sent.records

    in_loop(scenario)


def test_a_restarted_follower_goes_on_with_what_was_synced() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        leader.append(b"a")
        fetch_once(leader, following)
        follower.flush()
        leader.append(b"b")
        fetch_once(leader, following)
        follower.partition.note_watermark()

        follower.restart()
        following = follower.follow(LEADER, 1)
        asked = following.next_fetch()
        assert asked is not None
        assert asked.fetch_offset == len(follower.values) >= 1
        leader.lead(1)
        fetch_once(leader, following)
        assert follower.values == [b"a", b"b"]

    in_loop(scenario)


def test_the_watermark_of_a_restarted_replica_is_the_one_that_was_noted() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        leader.append(b"a", b"b")
        leader.flush()
        fetch_once(leader, following)
        follower.flush()
        fetch_once(leader, following)
        assert follower.partition.high_watermark == 2
        follower.partition.note_watermark()

        follower.restart()
        assert follower.partition.high_watermark == 2

    in_loop(scenario)


def test_a_replica_that_was_never_told_of_a_watermark_begins_at_the_start_of_its_log() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        leader.append(b"a")
        fetch_once(leader, following)
        follower.flush()
        follower.restart()
        assert follower.partition.high_watermark == 0
        assert follower.values == [b"a"]

    in_loop(scenario)


def test_a_new_leader_does_not_know_its_watermark_until_its_followers_have_fetched() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        leader.append(b"a")
        leader.flush()
        fetch_once(leader, following)
        follower.flush()

        follower.lead(1)
        known = [follower.partition.knows_its_watermark]
        following = leader.follow(FOLLOWER, 1)
        fetch_once(follower, following)
        known.append(follower.partition.knows_its_watermark)
        assert known == [False, True]
        assert follower.partition.high_watermark == 1

    in_loop(scenario)


def test_a_partition_that_moves_away_lets_go_of_its_log() -> None:
    async def scenario() -> None:
        leader, follower = pair()
        following = follower.follow(LEADER)
        assert not follower.partition.leave(
            0, leader.partition._replication._replace(node_id=FOLLOWER, replicas=(1, 3))
        )
        follower.follow(LEADER)
        leader.append(b"a")
        following = follower.partition.following or following
        fetch_once(leader, following)
        assert follower.partition.leave(1, leader.partition._replication._replace(node_id=FOLLOWER, replicas=(1, 3)))
        assert follower.partition.held_log is None
        assert not follower.partition.is_here

    in_loop(scenario)


def test_a_batch_with_an_impossible_offset_is_not_taken() -> None:
    async def scenario() -> None:
        _, follower = pair()
        following = follower.follow(LEADER)
        asked = following.next_fetch()
        assert asked is not None
        batch = encode_batch([Record(0, 0, None, b"x")])
        assert following.receive(asked, Fetched(bytes(batch), 1, 0)) is Next.FETCH
        asked = following.next_fetch()
        assert asked is not None
        assert following.receive(asked, Fetched(bytes(batch), 2, 0)) is Next.LATER
        assert follower.values == [b"x"]

    in_loop(scenario)
