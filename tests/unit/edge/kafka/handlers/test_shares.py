"""ShareFetch and ShareAcknowledge: delivery, locks, sessions, and what is refused."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from barnabas.core.groups.share.partition import SharePartition
from barnabas.core.records.batch import read_header
from barnabas.core.records.record import decode_records
from barnabas.services.broker import Broker
from barnabas.services.led_shares import LedShare
from barnabas.wire import apis
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.handlers.sharing import (
    ACCEPT,
    GAP,
    QUICK,
    REJECT,
    RELEASE,
    RENEW,
    Member,
    ack_code,
    acquired,
    begin,
    partition_of,
    pass_time,
    set_group,
    wait_let_go,
)
from tests.unit.edge.kafka.support import ask, config_of, produce, run


def shares(broker: Broker) -> int:
    return len(broker.shares.led.of_group("g"))


def test_a_member_gets_records_once_and_acknowledges_them() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker)
        answer = await member.fetch()
        assert acquired(answer) == [(0, 9, 1)]
        data = partition_of(answer).records
        assert len(decode_records(data, 0, read_header(data))) == 10
        assert answer.acquisition_lock_timeout.total_seconds() == 5
        assert await Member(broker, "other").acquire() == []
        assert ack_code(await member.acknowledge({0: [(0, 9, [ACCEPT])]})) == 0
        assert await member.acquire() == []

    run(scenario, QUICK)


def test_a_released_record_comes_back_with_its_count_and_a_rejected_one_does_not() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, records=4)
        assert await member.acquire() == [(0, 3, 1)]
        answer = await member.fetch(acks={0: [(0, 3, [ACCEPT, RELEASE, REJECT, RELEASE])]})
        assert ack_code(answer) == 0
        assert acquired(answer) == [(1, 1, 2), (3, 3, 2)]

    run(scenario, QUICK)


def test_a_record_whose_lock_runs_out_goes_to_another_member() -> None:
    async def scenario(broker: Broker) -> None:
        member, other = await begin(broker), Member(broker, "other")
        assert await member.acquire() == [(0, 9, 1)]
        assert await other.acquire(max_wait=10_000) == [(0, 9, 2)]  # waits for the lock, which is of 5 s
        assert ack_code(await member.acknowledge({0: [(0, 9, [ACCEPT])]})) == 121
        assert ack_code(await other.acknowledge({0: [(0, 9, [ACCEPT])]})) == 0

    run(scenario, QUICK, is_virtual=True)


def test_a_lock_is_renewed() -> None:
    async def scenario(broker: Broker) -> None:
        member, other = await begin(broker), Member(broker, "other")
        await member.acquire()
        await pass_time(3)
        answer = await member.acknowledge({0: [(0, 9, [RENEW])]}, is_renew_ack=True)
        assert ack_code(answer) == 0
        await pass_time(3)
        assert await other.acquire() == []
        assert ack_code(await member.acknowledge({0: [(0, 9, [ACCEPT])]})) == 0
        await set_group(broker, share__renew__acknowledge__enable="false")
        await produce(broker, "t", NOW_MS)
        assert await member.acquire() == [(10, 10, 1)]
        assert ack_code(await member.acknowledge({0: [(10, 10, [RENEW])]}, is_renew_ack=True)) == 121

    run(scenario, QUICK, is_virtual=True)


def test_a_record_is_delivered_as_often_as_the_limit_allows() -> None:
    async def scenario(broker: Broker) -> None:
        await set_group(broker, share__delivery__count__limit="3")
        member = await begin(broker, records=1)
        for count in (1, 2, 3):
            assert await member.acquire() == [(0, 0, count)]
            assert ack_code(await member.acknowledge({0: [(0, 0, [RELEASE])]})) == 0
        assert await member.acquire() == []

    run(scenario, QUICK)


def test_a_batch_that_keeps_coming_back_is_halved_and_its_records_go_alone_in_the_end() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, records=8)
        for count in (1, 2, 3):
            assert await member.acquire() == [(0, 7, count)]
            await member.acknowledge({0: [(0, 7, [RELEASE])]})
        assert await member.acquire() == [(0, 3, 4)]
        await member.acknowledge({0: [(0, 3, [RELEASE])]})
        assert await member.acquire() == [(0, 0, 5)]

    run(scenario, QUICK)


def test_acknowledging_what_was_never_acquired_twice_or_by_somebody_else_is_refused() -> None:
    async def scenario(broker: Broker) -> None:
        member, other = await begin(broker), Member(broker, "other")
        assert await member.acquire() == [(0, 9, 1)]
        await other.fetch()
        assert ack_code(await other.acknowledge({0: [(0, 9, [ACCEPT])]})) == 121
        assert ack_code(await member.acknowledge({0: [(5, 12, [ACCEPT])]})) == 121  # of which some were never fetched
        answer = await member.acknowledge({0: [(0, 1, [ACCEPT]), (100, 100, [ACCEPT])]})
        assert ack_code(answer) == 121
        assert ack_code(await member.acknowledge({0: [(0, 9, [ACCEPT])]})) == 0  # nothing of those counted
        assert ack_code(await member.acknowledge({0: [(5, 9, [ACCEPT])]})) == 0  # it is before the start offset
        await produce(broker, "t", NOW_MS, NOW_MS)
        assert await member.acquire() == [(10, 11, 1)]
        assert ack_code(await member.acknowledge({0: [(11, 11, [ACCEPT])]})) == 0
        assert ack_code(await member.acknowledge({0: [(11, 11, [ACCEPT])]})) == 121

    run(scenario, QUICK)


@pytest.mark.parametrize(
    "acks",
    [
        [(3, 2, [ACCEPT])],
        [(4, 5, [ACCEPT]), (0, 1, [ACCEPT])],
        [(0, 3, [ACCEPT, ACCEPT])],
        [(0, 3, [])],
        [(0, 3, [9])],
        [(0, 3, [RENEW])],  # without saying so
        [(number, number, [ACCEPT]) for number in range(30_000)],
    ],
)
def test_acknowledgements_that_nobody_can_mean_are_refused(acks: list[tuple[int, int, list[int]]]) -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker)
        await member.acquire()
        assert ack_code(await member.acknowledge({0: acks})) == 42
        assert ack_code(await member.acknowledge({0: [(0, 9, [ACCEPT])]})) == 0

    run(scenario, QUICK, is_virtual=True)  # to read many takes a while, and locks do not wait


def test_sessions_count_their_requests_and_end() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker)
        assert (await member.acknowledge({0: [(0, 0, [ACCEPT])]}, epoch=0)).error_code == 123
        assert (await member.fetch(epoch=1)).error_code == 122
        assert (await member.fetch(epoch=0, acks={0: [(0, 0, [ACCEPT])]})).error_code == 42
        assert await member.acquire() == [(0, 9, 1)]
        assert (await member.fetch(epoch=5)).error_code == 123
        assert (await member.fetch(epoch=-1, acks={0: [(0, 4, [ACCEPT])]})).error_code == 0
        assert (await member.fetch(epoch=2)).error_code == 122
        assert await Member(broker, "other").acquire() == [(5, 9, 2)]  # what it had comes back

    run(scenario, QUICK)


@pytest.mark.parametrize("name", ["", "x" * 37])
def test_a_member_id_has_1_to_36_characters(name: str) -> None:
    async def scenario(broker: Broker) -> None:
        await begin(broker)
        assert (await Member(broker, name).fetch()).error_code == 42

    run(scenario, QUICK)


def test_what_a_member_has_comes_back_when_its_connection_is_gone_unless_it_began_a_new_session() -> None:
    async def scenario(broker: Broker) -> None:
        member, other = await begin(broker), Member(broker, "other")
        assert await member.acquire() == [(0, 9, 1)]
        again = Member(broker)  # the same member over another connection
        assert await again.acquire() == []
        member.session.close()
        assert await other.acquire() == []
        again.session.close()
        assert await other.acquire() == [(0, 9, 2)]

    run(scenario, QUICK)


def test_a_partition_is_forgotten_when_its_last_session_is() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker)
        await member.acquire()
        assert shares(broker) == 1
        member.session.close()
        await wait_let_go(broker)
        assert await Member(broker, "other").acquire() == [(0, 9, 2)]  # its count was written

    run(scenario, QUICK)


def test_there_are_at_most_so_many_sessions() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker)
        await member.acquire()
        assert (await Member(broker, "other").fetch()).error_code == 133
        member.session.close()
        assert (await Member(broker, "other").fetch()).error_code == 0

    run(scenario, config_of(group_share_max_share_sessions="1"))


def test_only_so_many_records_are_acquired_as_asked_for_in_strict_mode_and_whole_batches_else() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, records=10, batches=3)
        assert await member.acquire(max_records=5) == [(0, 9, 1)]
        assert await member.acquire(max_records=5, share_acquire_mode=1) == [(10, 14, 1)]
        assert await member.acquire(max_records=50, batch_size=5) == [(15, 19, 1), (20, 29, 1)]

    run(scenario, QUICK)


def test_with_all_locks_out_only_what_comes_back_is_delivered() -> None:
    async def scenario(broker: Broker) -> None:
        await set_group(broker, share__partition__max__record__locks="100")
        member = await begin(broker, records=50, batches=4)
        assert await member.acquire(max_records=1000) == [(0, 99, 1)]
        assert await member.acquire() == []
        answer = await member.fetch(acks={0: [(0, 9, [RELEASE])]})
        assert acquired(answer) == [(0, 9, 2)]
        answer = await member.fetch(acks={0: [(0, 99, [ACCEPT])]})
        assert acquired(answer) == [(100, 199, 1)]

    run(scenario, QUICK)


def test_a_fetch_waits_for_records_and_is_answered_without_any_when_its_time_is_up() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, records=0, batches=0)
        assert await member.acquire(max_wait=500) == []
        waiting = asyncio.create_task(member.acquire(max_wait=60_000))
        await pass_time(1)
        await produce(broker, "t", NOW_MS, NOW_MS)
        assert await waiting == [(0, 1, 1)]

    run(scenario, QUICK, is_virtual=True)


def test_a_group_begins_at_the_end_unless_it_says_otherwise_and_stays_there() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker)
        await set_group(broker, share__auto__offset__reset="latest")
        assert await member.acquire() == []
        await produce(broker, "t", NOW_MS)
        member.session.close()
        await wait_let_go(broker)
        assert await Member(broker).acquire() == [(10, 10, 1)]  # and not at the end of now

    run(scenario, QUICK)


def test_the_start_offset_follows_the_log() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, records=5, batches=2)
        assert await member.acquire(max_records=5) == [(0, 4, 1)]
        await ask(
            broker,
            apis.DELETE_RECORDS,
            2,
            topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": 7}]}],
            timeout=1000,
        )
        assert await member.acquire() == [(7, 9, 1)]
        assert ack_code(await member.acknowledge({0: [(0, 4, [ACCEPT])]})) == 0  # ignored

    run(scenario, QUICK)


def test_a_deleted_topic_is_gone_with_its_locks() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker)
        topic_id = broker.served.by_name["t"].topic_id
        await member.acquire()
        await ask(broker, apis.DELETE_TOPICS, 6, topics=[{"name": "t", "topic_id": None}], timeout=1000)
        answer = await member.fetch(topic_id=topic_id)
        assert partition_of(answer).error_code == 100
        assert shares(broker) == 0
        assert await broker.shares.states._coordinators.all_loaded()
        assert not any(each.states.by_key for each in broker.shares.states._coordinators.available())

    run(scenario, QUICK)


def test_a_topic_or_partition_that_does_not_exist_is_refused_alone() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker)
        answer = await member.fetch((0, 7))
        assert acquired(answer, 0) == [(0, 9, 1)]
        assert partition_of(answer, 7).error_code == 3
        answer = await member.fetch(topic_id=UUID(int=9))
        assert partition_of(answer).error_code == 100

    run(scenario, QUICK)


def test_a_partition_whose_state_cannot_be_had_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, partitions=2)
        read, is_found = LedShare._read, asyncio.Event()

        async def read_late(led: LedShare) -> SharePartition:
            if led.key.partition == 0:
                await is_found.wait()
            return await read(led)

        monkeypatch.setattr(LedShare, "_read", read_late)
        await produce(broker, "t", NOW_MS, partition=1)
        answer = await member.fetch((0, 1))
        assert (acquired(answer, 0), acquired(answer, 1)) == ([], [(0, 0, 1)])
        fetching = asyncio.create_task(member.fetch((0, 1), max_wait=60_000))
        await pass_time(2)
        assert not fetching.done()
        is_found.set()
        assert acquired(await fetching) == [(0, 9, 1)]

    run(scenario, QUICK, is_virtual=True)


def test_a_group_that_never_joined_has_no_state_to_fetch_with() -> None:
    async def scenario(broker: Broker) -> None:
        await begin(broker)
        answer = await Member(broker, group="stranger").fetch()
        assert partition_of(answer).error_code == 3

    run(scenario, QUICK)


def test_a_gap_is_acknowledged_and_everything_survives_loading_again() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker, records=6)
        await member.acquire()
        await member.acknowledge({0: [(1, 2, [GAP, ACCEPT]), (4, 4, [RELEASE])]})
        member.session.close()
        await wait_let_go(broker)
        other = Member(broker, "other")
        assert await other.acquire() == [(0, 0, 2), (3, 5, 2)]

    run(scenario, QUICK)


def test_a_request_that_renews_must_not_fetch() -> None:
    async def scenario(broker: Broker) -> None:
        member = await begin(broker)
        await member.acquire()
        nothing: dict[str, Any] = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait": 0}
        assert (await member.fetch(is_renew_ack=True)).error_code == 42
        answer = await member.fetch(acks={0: [(0, 9, [RENEW])]}, is_renew_ack=True, **nothing)
        assert ack_code(answer) == 0

    run(scenario, QUICK)
