"""The leader of a partition among any number of replicas: watermark, in-sync replicas, acknowledgements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import FencedLeaderEpoch, NotEnoughReplicas, NotLeaderOrFollower, UnknownLeaderEpoch
from barnabas.core.replica.leader import IsrProposal, Leader, Visits

EPOCH = 5
LAG_MS = 30_000
ACTIVE = {1: 11, 2: 12, 3: 13}


def lead(
    *,
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] | None = None,
    min_insync_replicas: int = 1,
    start_offset: int = 0,
    high_watermark: int = 0,
    counts_durable: bool = True,
) -> Leader:
    leader = Leader(
        1,
        epoch=EPOCH,
        start_offset=start_offset,
        high_watermark=high_watermark,
        replicas=replicas,
        isr=replicas if isr is None else isr,
        partition_epoch=0,
        min_insync_replicas=min_insync_replicas,
        counts_durable=counts_durable,
        max_lag_ms=LAG_MS,
    )
    leader.note_active(ACTIVE)
    return leader


def own(leader: Leader, end_offset: int, durable_end_offset: int | None = None) -> int:
    durable = end_offset if durable_end_offset is None else durable_end_offset
    return leader.note_own(end_offset=end_offset, durable_end_offset=durable)


def fetch(
    leader: Leader,
    replica: int,
    end_offset: int,
    *,
    durable: int | None = None,
    now_ms: int = 0,
    broker_epoch: int | None = None,
) -> int:
    return leader.note_fetch(
        replica,
        leader_epoch=EPOCH,
        log_end_offset=end_offset,
        durable_end_offset=end_offset if durable is None else durable,
        broker_epoch=ACTIVE[replica] if broker_epoch is None else broker_epoch,
        now_ms=now_ms,
    )


def isr_of(proposal: IsrProposal | None) -> list[int] | None:
    return None if proposal is None else [node for node, _ in proposal.isr]


def commit(leader: Leader, proposal: IsrProposal | None) -> int:
    assert proposal is not None
    isr = [node for node, _ in proposal.isr]
    return leader.note_isr(
        isr=isr, replicas=(1, 2, 3), partition_epoch=proposal.partition_epoch + 1, now_ms=leader._now_ms
    )


# The watermark


def test_alone_the_watermark_is_what_is_on_disk() -> None:
    leader = lead(replicas=(1,))
    assert own(leader, 10, 0) == 0
    assert own(leader, 10, 7) == 7
    assert own(leader, 10, 10) == 10


def test_alone_with_flushing_left_to_the_system_it_is_the_end_of_the_log() -> None:
    assert own(lead(replicas=(1,), counts_durable=False), 10, 0) == 10


def test_the_watermark_is_what_all_in_sync_have_on_disk() -> None:
    leader = lead()
    assert own(leader, 10) == 0
    assert fetch(leader, 2, 10) == 0
    assert fetch(leader, 3, 10, durable=6) == 6
    assert fetch(leader, 3, 10, durable=10) == 10


def test_the_leaders_own_disk_counts_too() -> None:
    leader = lead()
    own(leader, 10, 0)
    fetch(leader, 2, 10)
    assert fetch(leader, 3, 10) == 0
    assert own(leader, 10, 4) == 4


def test_with_flushing_left_to_the_system_logs_count_and_not_disks() -> None:
    leader = lead(counts_durable=False)
    own(leader, 10, 0)
    fetch(leader, 2, 10, durable=0)
    assert fetch(leader, 3, 8, durable=0) == 8


def test_a_replica_that_is_not_in_sync_holds_up_nothing() -> None:
    leader = lead(isr=(1, 2))
    own(leader, 10)
    fetch(leader, 3, 0)  # has nothing, and was never caught up
    own(leader, 20)
    assert fetch(leader, 2, 20) == 20


def test_the_watermark_never_goes_back_when_a_follower_has_lost_its_end() -> None:
    leader = lead()
    own(leader, 10)
    fetch(leader, 2, 10)
    assert fetch(leader, 3, 10) == 10
    assert fetch(leader, 3, 2, broker_epoch=99) == 10


def test_the_watermark_stands_still_while_too_few_are_in_sync() -> None:
    leader = lead(min_insync_replicas=2)
    own(leader, 10)
    fetch(leader, 2, 10)
    fetch(leader, 3, 10)
    leader.note_isr(isr=(1,), replicas=(1, 2, 3), partition_epoch=1, now_ms=0)
    assert own(leader, 20) == 10
    leader.note_isr(isr=(1, 2), replicas=(1, 2, 3), partition_epoch=2, now_ms=0)
    assert fetch(leader, 2, 20) == 10  # the third has caught up, and is waited for
    assert fetch(leader, 3, 20) == 20


def test_min_insync_replicas_counts_for_the_watermark_as_far_as_there_are_replicas() -> None:
    assert own(lead(replicas=(1,), min_insync_replicas=2), 10) == 10


def test_who_is_proposed_counts_already_and_who_is_to_go_counts_still() -> None:
    leader = lead(isr=(1, 2))
    own(leader, 10)
    fetch(leader, 2, 10)
    fetch(leader, 3, 10)
    own(leader, 30)
    fetch(leader, 3, 20, now_ms=LAG_MS + 1)
    proposal = leader.propose(now_ms=LAG_MS + 1)
    assert isr_of(proposal) == [1, 3]
    assert leader.high_watermark == 10  # 2 has no more, and is in sync until the controller says otherwise
    assert commit(leader, proposal) == 20


def test_a_caught_up_replica_that_goes_silent_is_not_waited_for_for_ever() -> None:
    leader = lead(isr=(1, 2))
    own(leader, 10)
    fetch(leader, 2, 10)
    assert fetch(leader, 3, 10) == 10
    proposal = leader.propose(now_ms=0)
    assert proposal is not None
    leader.refuse(proposal)
    own(leader, 20)
    assert fetch(leader, 2, 20, now_ms=LAG_MS) == 10
    assert fetch(leader, 2, 20, now_ms=LAG_MS + 1) == 20


def test_a_new_leader_does_not_know_its_watermark_until_it_has_passed_the_beginning_of_its_epoch() -> None:
    leader = lead(start_offset=10, high_watermark=6)
    assert not leader.knows_its_watermark
    own(leader, 12)
    fetch(leader, 2, 12)
    assert fetch(leader, 3, 11) == 11
    assert leader.knows_its_watermark


# Who is in sync


def test_who_is_behind_and_was_not_caught_up_for_too_long_goes() -> None:
    leader = lead()
    own(leader, 10)
    fetch(leader, 2, 10, now_ms=1000)
    fetch(leader, 3, 5, now_ms=1000)
    assert leader.propose(now_ms=LAG_MS) is None
    proposal = leader.propose(now_ms=LAG_MS + 1)
    assert proposal == IsrProposal(EPOCH, 0, ((1, 11), (2, 12)))
    assert commit(leader, proposal) == 10
    assert leader.isr == (1, 2)


def test_who_has_everything_stays_however_long_it_is_silent() -> None:
    leader = lead()
    own(leader, 10)
    fetch(leader, 2, 10)
    fetch(leader, 3, 10)
    assert leader.propose(now_ms=100 * LAG_MS) is None


def test_who_keeps_up_with_a_busy_leader_stays_though_it_never_has_all() -> None:
    leader = lead(replicas=(1, 2))
    for second in range(100):
        own(leader, 10 * (second + 1))
        fetch(leader, 2, 10 * second, now_ms=second * 1000)
    assert leader.propose(now_ms=100_000) is None


def test_a_follower_whose_disk_hangs_goes_though_it_fetches_all() -> None:
    leader = lead(replicas=(1, 2))
    own(leader, 10)
    fetch(leader, 2, 10, durable=10)
    for second in range(40):
        own(leader, 20 + second)
        fetch(leader, 2, 20 + second, durable=10, now_ms=second * 1000)
    assert isr_of(leader.propose(now_ms=40_000)) == [1]


def test_who_has_all_that_is_acknowledged_and_all_before_this_epoch_comes_in() -> None:
    leader = lead(isr=(1, 2), start_offset=8, high_watermark=5)
    own(leader, 10)
    fetch(leader, 2, 10)
    fetch(leader, 3, 7)
    assert leader.propose(now_ms=0) is None
    fetch(leader, 3, 10)
    assert isr_of(leader.propose(now_ms=0)) == [1, 2, 3]


@pytest.mark.parametrize("active", [{1: 11, 2: 12}, {1: 11, 2: 12, 3: 14}], ids=["fenced", "registered anew"])
def test_nobody_comes_in_but_in_the_life_that_the_cluster_knows(active: dict[int, int]) -> None:
    leader = lead(isr=(1, 2))
    leader.note_active(active)
    own(leader, 10)
    fetch(leader, 2, 10)
    fetch(leader, 3, 10, broker_epoch=13)
    assert leader.propose(now_ms=0) is None


def test_a_fetch_of_an_earlier_life_of_a_node_says_nothing() -> None:
    leader = lead(isr=(1, 2))
    own(leader, 10)
    fetch(leader, 2, 10)
    fetch(leader, 3, 2, broker_epoch=13)
    fetch(leader, 3, 10, broker_epoch=9)
    assert leader.propose(now_ms=0) is None


def test_one_proposal_is_in_flight_and_the_next_comes_when_it_is_settled() -> None:
    leader = lead(isr=(1,))
    own(leader, 10)
    fetch(leader, 2, 10)
    first = leader.propose(now_ms=0)
    assert isr_of(first) == [1, 2]
    fetch(leader, 3, 10)
    assert leader.propose(now_ms=0) is None
    assert leader.proposal == first
    commit(leader, first)
    assert leader.proposal is None
    assert isr_of(leader.propose(now_ms=0)) == [1, 2, 3]


def test_a_refused_proposal_counts_no_more() -> None:
    leader = lead(isr=(1,))
    own(leader, 10)
    fetch(leader, 2, 10)
    proposal = leader.propose(now_ms=0)
    assert proposal is not None
    own(leader, 20)
    assert leader.high_watermark == 10
    leader.note_active({1: 11})
    assert leader.refuse(proposal) == 20
    assert leader.refuse(proposal) == 20


def test_older_news_of_the_isr_is_no_news() -> None:
    leader = lead()
    leader.note_isr(isr=(1, 2), replicas=(1, 2, 3), partition_epoch=4, now_ms=0)
    leader.note_isr(isr=(1,), replicas=(1, 2, 3), partition_epoch=3, now_ms=0)
    assert (leader.isr, leader.partition_epoch) == ((1, 2), 4)


def test_replicas_come_and_go_with_the_metadata() -> None:
    leader = lead(replicas=(1, 2), isr=(1, 2))
    own(leader, 10)
    leader.note_isr(isr=(1,), replicas=(1,), partition_epoch=1, now_ms=0)
    assert (leader.is_alone, leader.high_watermark) == (True, 10)
    with pytest.raises(NotLeaderOrFollower):
        fetch(leader, 2, 10)
    leader.note_isr(isr=(1,), replicas=(1, 3), partition_epoch=2, now_ms=0)
    fetch(leader, 3, 10)
    assert isr_of(leader.propose(now_ms=0)) == [1, 3]


# Acknowledging, and the epoch


def test_records_are_refused_while_too_few_are_in_sync() -> None:
    leader = lead(isr=(1,), min_insync_replicas=2)
    with pytest.raises(NotEnoughReplicas, match=r"1 replica is in sync, min\.insync\.replicas=2"):
        leader.check_in_sync()
    lead(isr=(1, 2), min_insync_replicas=2).check_in_sync()


def test_more_in_sync_than_there_are_replicas_cannot_be_asked_for() -> None:
    lead(replicas=(1,), isr=(1,), min_insync_replicas=2).check_in_sync()
    lead(replicas=(1, 2), isr=(1, 2), min_insync_replicas=3).check_in_sync()
    with pytest.raises(NotEnoughReplicas):
        lead(replicas=(1, 2), isr=(1,), min_insync_replicas=3).check_in_sync()


def test_records_are_acknowledged_in_the_epoch_they_were_written_in_alone() -> None:
    leader = lead(replicas=(1,))
    own(leader, 10)
    assert leader.is_acked(10, leader_epoch=EPOCH)
    assert not leader.is_acked(11, leader_epoch=EPOCH)
    with pytest.raises(NotLeaderOrFollower):
        leader.is_acked(10, leader_epoch=EPOCH - 1)


def test_what_is_asked_in_another_epoch_is_refused() -> None:
    leader = lead()
    leader.check_epoch(EPOCH)
    with pytest.raises(FencedLeaderEpoch):
        leader.check_epoch(EPOCH - 1)
    with pytest.raises(UnknownLeaderEpoch):
        leader.check_epoch(EPOCH + 1)


Step = tuple[str, int, int]


@given(
    st.integers(1, 3),
    st.lists(
        st.tuples(
            st.sampled_from(["grow", "sync", "fetch", "propose", "commit", "refuse", "wait"]),
            st.integers(2, 3),
            st.integers(0, 9),
        )
    ),
)
def test_whatever_happens_enough_replicas_have_what_is_acknowledged(min_isr: int, steps: list[Step]) -> None:
    """The ISR as the controller has it, all of it, is at or past the watermark, with enough members when it moves."""
    leader = lead(min_insync_replicas=min_isr)
    ends, disks, now_ms = {1: 0, 2: 0, 3: 0}, {1: 0, 2: 0, 3: 0}, 0
    for what, replica, amount in steps:
        before = leader.high_watermark
        match what:
            case "grow":
                ends[1] += amount
                own(leader, ends[1], disks[1])
            case "sync":
                disks[1] = ends[1]
                own(leader, ends[1], disks[1])
            case "fetch":
                ends[replica] = min(ends[1], ends[replica] + amount)
                disks[replica] = max(disks[replica], ends[replica] - 1)
                fetch(leader, replica, ends[replica], durable=disks[replica], now_ms=now_ms)
            case "propose":
                leader.propose(now_ms=now_ms)
            case "commit":
                if leader.proposal is not None:
                    commit(leader, leader.proposal)
            case "refuse":
                if leader.proposal is not None:
                    leader.refuse(leader.proposal)
            case _:
                now_ms += amount * 5000
        assert leader.high_watermark >= before
        if leader.high_watermark > before:
            assert len(leader.isr) >= min_isr
        assert 1 in leader.isr
        assert all(disks[each] >= leader.high_watermark for each in leader.isr)


def sent_to(leader: Leader, offset: int, *nodes: int) -> int | None:
    return leader.most_caught_up(nodes, offset)


def test_consumers_are_sent_to_the_follower_that_has_come_furthest() -> None:
    leader = lead()
    own(leader, 10)
    fetch(leader, 2, 7)
    fetch(leader, 3, 9)
    assert sent_to(leader, 5, 2, 3) == 3
    assert sent_to(leader, 5, 2) == 2
    fetch(leader, 2, 9, now_ms=5)
    assert sent_to(leader, 5, 2, 3) == 3  # both are as far: the higher id, as in Kafka


def test_of_followers_that_are_as_far_the_one_that_was_caught_up_last_is_chosen() -> None:
    leader = lead()
    own(leader, 10)
    fetch(leader, 3, 10, now_ms=1)
    fetch(leader, 2, 10, now_ms=2)
    assert sent_to(leader, 10, 2, 3) == 2


def test_consumers_are_sent_to_no_follower_that_lacks_their_offset_or_is_not_in_sync_or_not_active() -> None:
    leader = lead(isr=(1, 2))
    own(leader, 10)
    assert sent_to(leader, 0, 2) is None  # it has not fetched yet
    fetch(leader, 2, 7)
    fetch(leader, 3, 10)
    assert sent_to(leader, 7, 2) == 2
    assert sent_to(leader, 8, 2) is None
    assert sent_to(leader, 5, 3) is None
    assert sent_to(leader, 5, 1, 9) is None
    leader.note_active({1: 11, 3: 13})
    assert sent_to(leader, 5, 2) is None


def test_consumers_are_sent_to_no_follower_whose_log_starts_after_their_offset() -> None:
    leader = lead()
    own(leader, 10)
    leader.note_fetch(
        2,
        leader_epoch=EPOCH,
        log_end_offset=10,
        durable_end_offset=10,
        broker_epoch=ACTIVE[2],
        now_ms=0,
        log_start_offset=4,
    )
    assert (sent_to(leader, 3, 2), sent_to(leader, 4, 2)) == (None, 2)


# Whether the others can do without it

SILENCE_MS = 4500


def is_deserted(leader: Leader, now_ms: int) -> bool:
    return leader.hears_too_few(now_ms=now_ms, silence_ms=SILENCE_MS)


def test_a_leader_that_nobody_fetches_from_hears_too_few_after_a_while() -> None:
    leader = lead(min_insync_replicas=2)
    fetch(leader, 2, 0, now_ms=1000)
    fetch(leader, 3, 0, now_ms=2000)
    assert not is_deserted(leader, 6499)  # one of two is enough
    assert is_deserted(leader, 6500)
    fetch(leader, 2, 0, now_ms=7000)
    assert not is_deserted(leader, 7000)


def test_those_in_sync_are_heard_as_the_epoch_begins() -> None:
    assert not is_deserted(lead(min_insync_replicas=2), SILENCE_MS - 1)
    assert is_deserted(lead(min_insync_replicas=2), SILENCE_MS)
    assert is_deserted(lead(isr=(1,), min_insync_replicas=2), 0)


def test_a_leader_that_may_acknowledge_alone_needs_nobody() -> None:
    assert not is_deserted(lead(isr=(1,)), 10 * SILENCE_MS)
    assert is_deserted(lead(isr=(1, 2)), 10 * SILENCE_MS)  # which it may not, as long as another is in sync
    assert not is_deserted(lead(replicas=(1,), min_insync_replicas=2), 10 * SILENCE_MS)


def test_half_of_those_in_sync_are_too_few_though_they_would_be_enough() -> None:
    leader = Leader(
        1,
        epoch=EPOCH,
        start_offset=0,
        high_watermark=0,
        replicas=(1, 2, 3, 4, 5),
        isr=(1, 2, 3, 4, 5),
        partition_epoch=0,
        min_insync_replicas=2,
    )
    fetch(leader, 2, 0, now_ms=10_000)
    assert is_deserted(leader, 10_000)
    fetch(leader, 3, 0, now_ms=10_000)
    assert not is_deserted(leader, 10_000)


def test_a_follower_that_rests_is_heard_by_the_fetches_of_its_session() -> None:
    leader = lead(min_insync_replicas=2)
    own(leader, 1)
    fetch(leader, 2, 1, now_ms=0)
    visits = Visits(last_ms=0)
    assert leader.rest(2, broker_epoch=ACTIVE[2], visits=visits)
    visits.last_ms = 20_000
    assert not is_deserted(leader, 20_001)
    assert is_deserted(leader, 30_000)
