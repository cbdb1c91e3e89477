"""Bugs to plant in the replication of partitions and in what follows their leaders: all of them have to be noticed."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from barnabas.core.coordination import Reply
from barnabas.core.errors import BarnabasError
from barnabas.core.metadata import electing, isr
from barnabas.core.model import TopicPartition
from barnabas.core.replica.follower import Follower, FollowerFetch
from barnabas.core.replica.leader import NO_BROKER_EPOCH, Leader
from barnabas.core.replica.producers import ProducerStates
from barnabas.core.transactions.ending import TransactionEnd
from barnabas.runtime import coordinator as runtime
from barnabas.runtime.coordinator import Coordinator
from barnabas.runtime.cut_off import CutOffWatch
from barnabas.runtime.following import Following
from barnabas.runtime.group_coordinator import GroupCoordinator
from barnabas.runtime.logs import Logs
from barnabas.runtime.partition import Partition
from barnabas.services import fetch, in_sync
from barnabas.services.coordinators import PartitionCoordinators
from barnabas.services.in_sync import InSync
from barnabas.services.transaction_routing import MarkerRouter
from barnabas.services.transactions import TransactionService
from barnabas.storage.log import Appended, Log
from barnabas.storage.truncate import truncate_to

LOADING_S = 0.3
"""What a log takes to be read that is longer than those of a simulation."""


def acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    note_own = Leader.note_own

    def note_too_much(leader: Leader, *, end_offset: int, durable_end_offset: int) -> int:
        return note_own(leader, end_offset=end_offset, durable_end_offset=end_offset)

    patch.setattr(Leader, "note_own", note_too_much)


def advance_with_too_few_in_sync(patch: pytest.MonkeyPatch) -> None:
    advance = Leader._advance

    def advance_always(leader: Leader) -> None:
        minimum, leader.min_insync_replicas = leader.min_insync_replicas, 1
        advance(leader)
        leader.min_insync_replicas = minimum

    patch.setattr(Leader, "_advance", advance_always)


def truncate_to_the_watermark(patch: pytest.MonkeyPatch) -> None:
    begin = Following.__init__

    def begin_truncated(following: Following, partition: Partition, logs: Logs, *, leader_id: int) -> None:
        held = partition.held_log
        if held is not None:
            truncate_to(held, partition.high_watermark)
        begin(following, partition, logs, leader_id=leader_id)

    patch.setattr(Following, "__init__", begin_truncated)


def grow_the_isr_too_early(patch: pytest.MonkeyPatch) -> None:
    def may_join(leader: Leader, replica: int) -> bool:
        progress = leader._followers[replica]
        return progress.log_end_offset >= 0 and progress.broker_epoch == leader._active.get(replica)

    patch.setattr(Leader, "_may_join", may_join)


def take_a_stale_broker_epoch(patch: pytest.MonkeyPatch) -> None:
    def may_join(leader: Leader, replica: int) -> bool:
        progress = leader._followers[replica]
        is_known = progress.broker_epoch != NO_BROKER_EPOCH and replica in leader._active
        return is_known and leader._end_of(progress) >= max(leader.high_watermark, leader.start_offset)

    patch.setattr(Leader, "_may_join", may_join)
    patch.setattr(isr, "_check_eligible", lambda _image, _change: None)


async def _look_at_nothing(_watch: CutOffWatch) -> None:
    await asyncio.sleep(0)


def acknowledge_by_offset_alone(patch: pytest.MonkeyPatch) -> None:
    def keep_waiting(partition: Partition, _error: BarnabasError) -> None:
        partition._wake()
        partition._wake_replicas()

    patch.setattr(Partition, "fail_waiters", keep_waiting)
    patch.setattr(Partition, "find_loss", lambda _partition, _leader_epoch: None)
    patch.setattr(CutOffWatch, "look", _look_at_nothing)  # which has those who wait at a leader that is cut off go


def drop_a_proposal_that_may_be_carried_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(in_sync, "OUTDATED", ())
    patch.setattr(in_sync, "UNKNOWN", ())
    propose = InSync._propose

    async def propose_once(ours: InSync, proposed: Any) -> bool:
        is_settled = await propose(ours, proposed)
        if not is_settled:
            for each in proposed:
                each.partition.refuse(each.proposal)
        return is_settled

    patch.setattr(InSync, "_propose", propose_once)


def forget_producers_as_a_follower(patch: pytest.MonkeyPatch) -> None:
    append_as_follower = Log.append_as_follower

    def append_only(log: Log, data: bytearray | memoryview) -> Appended:
        appended = append_as_follower(log, data)
        log.producers = ProducerStates()
        return appended

    patch.setattr(Log, "append_as_follower", append_only)


def count_what_a_follower_has_not_synced(patch: pytest.MonkeyPatch) -> None:
    ask = Follower._ask

    def boast(follower: Follower) -> FollowerFetch:
        follower._fetch = ask(follower)._replace(durable_end_offset=follower.end_offset)
        return follower._fetch

    patch.setattr(Follower, "_ask", boast)


def count_what_diverges(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fetch, "_diverging", lambda _partition, _wanted: None)


def lead_by_an_empty_log(patch: pytest.MonkeyPatch) -> None:
    """As it was once: a leader that is elected while its node starts takes any follower for caught up."""

    def hold_log(partition: Partition) -> None:
        if partition.held_log is None:
            partition._hold()
            if partition.following is not None:
                partition.following = Following(partition, partition._logs, leader_id=partition.following.leader_id)

    patch.setattr(Partition, "hold_log", hold_log)


def elect_anybody(patch: pytest.MonkeyPatch) -> None:
    unclean_leader = electing._unclean_leader

    def any_leader(draft: Any, may_lead: Callable[[int], bool], **options: Any) -> int:
        return unclean_leader(draft, may_lead, **{**options, "may_be_any": True})

    patch.setattr(electing, "_unclean_leader", any_leader)


# Coordinators


def answer_commits_by_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    """As soon as its own disk has them."""

    def answer_when_synced(coordinator: GroupCoordinator, replies: Sequence[Reply[Any]]) -> None:
        runtime._answer(replies)

    patch.setattr(GroupCoordinator, "_answer_when_durable", answer_when_synced)


def answer_before_the_log_is_read(patch: pytest.MonkeyPatch) -> None:
    load = Coordinator.load

    async def load_later(coordinator: Coordinator[Any]) -> None:
        coordinator._is_loaded = True
        await asyncio.sleep(LOADING_S)
        await load(coordinator)

    async def wait_for_nothing(coordinators: PartitionCoordinators[Any], index: int) -> Coordinator[Any]:
        await asyncio.sleep(0)
        found: Coordinator[Any] = coordinators._get(index)
        return found

    patch.setattr(Coordinator, "load", load_later)
    patch.setattr(PartitionCoordinators, "_wait_loaded", wait_for_nothing)


def forget_offsets_when_the_coordinator_moves(patch: pytest.MonkeyPatch) -> None:
    replay = GroupCoordinator._replay

    async def replay_and_forget(coordinator: GroupCoordinator, source: Log) -> None:
        await replay(coordinator, source)
        coordinator.groups.offsets.clear()

    patch.setattr(GroupCoordinator, "_replay", replay_and_forget)


def lose_markers_when_the_coordinator_moves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionService, "_resume", lambda *_arguments: None)


def give_up_markers_that_are_refused(patch: pytest.MonkeyPatch) -> None:
    write = MarkerRouter.write

    async def write_once(router: MarkerRouter, end: TransactionEnd, names: Sequence[TopicPartition]) -> Any:
        return dict.fromkeys(await write(router, end, names))

    patch.setattr(MarkerRouter, "write", write_once)


# Readers and writers


def take_every_retry_for_new(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStates, "admit", lambda _states, _header: None)
    patch.setattr(ProducerStates, "find_duplicate", lambda _states, _header: None)


def read_past_the_watermark(patch: pytest.MonkeyPatch) -> None:
    locate = fetch.Fetch._locate

    def locate_all(fetching: fetch.Fetch, found: fetch.Found, *, is_first: bool) -> None:
        if found.log is not None:
            found.bound = found.log.end_offset
        locate(fetching, found, is_first=is_first)

    patch.setattr(fetch.Fetch, "_locate", locate_all)


def show_what_is_not_stable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "last_stable_offset", lambda _log, high_watermark: high_watermark)


PLANTS = (
    acknowledge_before_the_sync,
    advance_with_too_few_in_sync,
    truncate_to_the_watermark,
    grow_the_isr_too_early,
    take_a_stale_broker_epoch,
    acknowledge_by_offset_alone,
    drop_a_proposal_that_may_be_carried_out,
    forget_producers_as_a_follower,
    count_what_a_follower_has_not_synced,
    count_what_diverges,
    lead_by_an_empty_log,
    elect_anybody,
    answer_commits_by_the_leader_alone,
    answer_before_the_log_is_read,
    forget_offsets_when_the_coordinator_moves,
    lose_markers_when_the_coordinator_moves,
    give_up_markers_that_are_refused,
    take_every_retry_for_new,
    read_past_the_watermark,
    show_what_is_not_stable,
)
