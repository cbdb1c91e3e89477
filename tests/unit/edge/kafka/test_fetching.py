"""Fetch on a whole broker: long polls, limits, sessions, epochs, and reading from memory and from disk."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from barnabas.core.records.batch import iter_whole_batches
from barnabas.core.records.record import decode_batch
from barnabas.services.broker import Broker
from barnabas.storage.disk import Disk
from barnabas.testing.disk import SimulatedDisk
from barnabas.wire.apis import FETCH
from tests.unit.edge.kafka.calling import NAMED, Call, Caller, batch
from tests.unit.edge.kafka.support import config_of, create, run, serving

VERSIONS = range(FETCH.min_version, FETCH.max_version + 1)
LATEST = FETCH.max_version


def values_in(partition: Any) -> list[bytes | None]:
    """The values of the whole batches that were fetched."""
    records = partition.records or b""
    return [
        record.value
        for position, header in iter_whole_batches(records)
        for record in decode_batch(records[position : position + header.size])
    ]


def partitions_in(response: Any) -> list[Any]:
    return [partition for topic in response.responses for partition in topic.partitions]


async def fill(broker: Broker, topic: str, *values: bytes, partition: int = 0) -> None:
    """Write a batch for each value."""
    for value in values:
        assert await Caller(broker).refusal(topic, batch(value), partition=partition) == 0


def is_parked(broker: Broker, topic: str, partition: int = 0) -> bool:
    return bool(broker.served.get_partition(topic, partition)._growth_waiters)


# What comes


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_gets_the_records_as_they_were_written(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a", b"b", b"c")
        caller = Caller(broker)
        partition = await caller.fetched(("t", 0, 1), version=version)
        assert partition.error_code.value == 0
        assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)
        assert values_in(partition) == [b"b", b"c"]
        assert values_in(await caller.fetched(("t", 0, 3), version=version)) == []

    run(scenario)


def test_records_that_are_not_on_disk_are_not_given_out() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a")
        broker.served.get_partition("t", 0).append(bytearray(batch(b"b")), now_ms=0)
        partition = await Caller(broker).fetched(("t", 0, 0))
        assert (partition.high_watermark, values_in(partition)) == (1, [b"a"])

    run(scenario)


@pytest.mark.parametrize("offset", [-1, 4, 2**63 - 1, -(2**63)])
def test_an_offset_that_is_not_there_is_out_of_range(offset: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a", b"b", b"c")
        partition = await Caller(broker).fetched(("t", 0, offset), max_wait_ms=20_000)
        assert (partition.error_code.value, partition.records) == (1, b"")

    run(scenario)


def test_what_does_not_exist_is_refused_at_once_each_with_its_code() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller = Caller(broker)
        for name, number in (("missing", 0), ("t", 1), ("t", -1), ("", 0), ("..", 0), ("a/b", 0), ("x" * 250, 0)):
            assert (await caller.fetched((name, number, 0), max_wait_ms=20_000)).error_code.value == 3
        each = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
        for topic_id in (UUID(int=5), None):
            topics = [{"topic_id": topic_id, "partitions": [each]}]
            response = await caller.fetch(version=13, max_wait_ms=20_000, topics=topics).read()
            assert response.responses[0].partitions[0].error_code.value == 100
            assert response.responses[0].topic_id == topic_id

    run(scenario)


@pytest.mark.parametrize(("version", "fields"), [(12, {"replica_id": 1}), (18, {"replica_state": {"replica_id": 1}})])
def test_a_client_that_says_it_is_a_replica_gets_nothing(version: int, fields: Any) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a")
        partition = await Caller(broker).fetched(("t", 0, 0), version=version, **fields)
        assert (partition.error_code.value, partition.records) == (6, b"")

    run(scenario)


# Limits


def test_a_batch_larger_than_every_limit_still_comes() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"x" * 1000, b"y")
        for limits in ({"partition_max_bytes": 1}, {"max_bytes": 1}, {"partition_max_bytes": 0}, {"max_bytes": -5}):
            assert values_in(await Caller(broker).fetched(("t", 0, 0), **limits)) == [b"x" * 1000]

    run(scenario)


@pytest.mark.parametrize("is_cold", [False, True], ids=["memory", "disk"])
def test_only_the_first_batch_of_an_answer_may_be_over_the_limit(is_cold: bool) -> None:
    async def scenario(broker: Broker) -> None:
        caller = Caller(broker)
        wanted = [("t", n, 0) for n in range(4)]
        response = await caller.fetch(*wanted, partition_max_bytes=10).read()
        sizes = [len(each.records) for each in partitions_in(response)]
        assert sizes[0] > 1000
        assert sizes[1:] == [0, 0, 0]
        response = await caller.fetch(*wanted, max_bytes=1500).read()
        sizes = [len(each.records) for each in partitions_in(response)]
        assert sizes[0] > 1000
        assert sum(sizes) <= 1500
        response = await caller.fetch(*wanted).read()
        assert all(len(each.records) > 1000 for each in partitions_in(response))

    run_warm_or_cold(scenario, is_cold=is_cold)


def run_warm_or_cold(scenario: Any, *, is_cold: bool) -> None:
    """Run with a topic of four partitions with a batch each, in memory or only on disk."""

    async def main() -> None:
        disk: Disk = SimulatedDisk(3)
        async with serving(disk=disk) as broker:
            await create(broker, "t", partitions=4)
            for n in range(4):
                await fill(broker, "t", b"x" * 1000, partition=n)
            if not is_cold:
                await scenario(broker)
                return
            broker.logs.data_dir.close()
            await broker.metadata.close()
        async with serving(disk=disk) as broker:
            await scenario(broker)

    asyncio.run(main())


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_cold_records_are_read_by_a_thread(isolation_level: int) -> None:
    async def scenario(broker: Broker) -> None:
        ran = []
        offload = broker.fetch._offload

        class Counting:
            async def run(self, function: Any) -> Any:
                ran.append(1)
                return await offload.run(function)

        broker.fetch._offload = Counting()
        partition = await Caller(broker).fetched(("t", 2, 0), isolation_level=isolation_level)
        assert values_in(partition) == [b"x" * 1000]
        assert ran

    run_warm_or_cold(scenario, is_cold=True)


def test_a_disk_that_cannot_be_read_is_told_for_its_partition_only() -> None:
    async def scenario(broker: Broker) -> None:
        caller = Caller(broker)
        call = caller.fetch(("t", 0, 0), ("missing", 0, 0), max_wait_ms=0)
        for log in broker.logs.data_dir.logs.values():
            log.context.health.fail(OSError("broken"))
        response = await call.read()
        codes = [each.error_code.value for each in partitions_in(response)]
        assert codes == [56, 3]
        for log in broker.logs.data_dir.logs.values():
            log.context.health.offline_reason = None

    run_warm_or_cold(scenario, is_cold=True)


def test_the_brokers_own_limit_counts_too() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=3)
        for n in range(3):
            await fill(broker, "t", b"x" * 900, partition=n)
        response = await Caller(broker).fetch(*[("t", n, 0) for n in range(3)]).read()
        sizes = [len(each.records) for each in partitions_in(response)]
        assert sizes[0] > 900
        assert sum(sizes) <= 1024

    run(scenario, config_of(fetch_max_bytes="1024"))


# Waiting


def test_a_poll_is_answered_when_something_is_written() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        call = Caller(broker).fetch(("t", 0, 0), max_wait_ms=60_000)
        assert not call.is_answered
        assert is_parked(broker, "t")
        await fill(broker, "t", b"a")
        assert values_in((await call.read()).responses[0].partitions[0]) == [b"a"]
        assert not is_parked(broker, "t")

    run(scenario)


def test_a_poll_waits_for_as_many_bytes_as_it_asks_for_over_all_its_partitions() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        call = Caller(broker).fetch(("t", 0, 0), ("t", 1, 0), max_wait_ms=60_000, min_bytes=500)
        await fill(broker, "t", b"x" * 200)
        await asyncio.sleep(0)
        assert not call.is_answered
        await fill(broker, "t", b"y" * 200, partition=1)
        response = await call.read()
        assert [values_in(each) for each in partitions_in(response)] == [[b"x" * 200], [b"y" * 200]]

    run(scenario)


def test_a_poll_ends_with_what_there_is_when_its_time_is_over() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        call = Caller(broker).fetch(("t", 0, 0), max_wait_ms=60, min_bytes=10_000)
        await fill(broker, "t", b"a")
        assert values_in((await call.read()).responses[0].partitions[0]) == [b"a"]
        assert values_in(await Caller(broker).fetched(("t", 0, 1), max_wait_ms=5)) == []
        assert not is_parked(broker, "t")

    run(scenario)


@pytest.mark.parametrize("options", [{"max_wait_ms": 0}, {"min_bytes": 0}, {"max_wait_ms": -1}, {"min_bytes": -1}])
def test_who_does_not_want_to_wait_does_not(options: Any) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        assert Caller(broker).fetch(("t", 0, 0), **{"max_wait_ms": 60_000, **options}).is_answered

    run(scenario)


def test_a_poll_for_nothing_is_answered_at_once() -> None:
    async def scenario(broker: Broker) -> None:
        assert (await Caller(broker).fetch(max_wait_ms=60_000).read()).responses == ()

    run(scenario)


def test_an_error_in_one_partition_is_told_without_waiting_for_the_others() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        response = await Caller(broker).fetch(("t", 0, 0), ("t", 9, 0), max_wait_ms=60_000).read()
        assert [each.error_code.value for each in partitions_in(response)] == [0, 3]

    run(scenario)


def test_a_poll_hears_when_its_topic_is_deleted() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        call = Caller(broker).fetch(("t", 0, 0), max_wait_ms=60_000)
        await broker.topics.delete("t")
        assert (await call.read()).responses[0].partitions[0].error_code.value == 3

    run(scenario)


def test_a_client_that_leaves_is_forgotten_by_its_partitions() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=3)
        call = Caller(broker).fetch(*[("t", n, 0) for n in range(3)], max_wait_ms=60_000)
        assert call.slot is not None
        assert call.slot.on_close is not None
        call.slot.on_close()
        assert not any(is_parked(broker, "t", n) for n in range(3))
        await fill(broker, "t", b"a")
        assert not call.is_answered

    run(scenario)


def test_a_node_that_stops_answers_its_polls() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        call = Caller(broker).fetch(("t", 0, 0), max_wait_ms=60_000)
        assert call.slot is not None
        assert call.slot.on_hurry is not None
        call.slot.on_hurry()
        assert values_in((await call.read()).responses[0].partitions[0]) == []

    run(scenario)


# Epochs


def test_leader_epochs_other_than_ours_are_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a")
        broker.served.get_partition("t", 0).leader_epoch = 3
        caller = Caller(broker)
        for epoch, code in ((2, 74), (0, 74), (3, 0), (-1, 0), (4, 75), (2**31 - 1, 75)):
            assert (await caller.fetched(("t", 0, 0), epochs=(epoch, -1))).error_code.value == code

    run(scenario)


def test_a_client_whose_history_left_ours_is_told_where() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a", b"b")
        broker.served.get_partition("t", 0).leader_epoch = 4
        await fill(broker, "t", b"c")
        caller = Caller(broker)
        for last_epoch, offset in ((0, 3), (2, 2), (3, 1)):
            partition = await caller.fetched(("t", 0, offset), epochs=(-1, last_epoch), max_wait_ms=20_000)
            assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (0, 2)
            assert partition.records == b""
        partition = await caller.fetched(("t", 0, 2), epochs=(-1, 0))
        assert (partition.diverging_epoch.epoch, values_in(partition)) == (-1, [b"c"])
        assert values_in(await caller.fetched(("t", 0, 2), epochs=(-1, 4))) == [b"c"]

    run(scenario)


def test_read_committed_stops_at_the_last_stable_offset() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a")
        partition = broker.served.get_partition("t", 0)
        open_transaction = batch(b"b", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
        partition.append(bytearray(open_transaction), now_ms=0)
        await fill(broker, "t", b"c")
        caller = Caller(broker)
        uncommitted = await caller.fetched(("t", 0, 0))
        assert (values_in(uncommitted), uncommitted.last_stable_offset) == ([b"a", b"b", b"c"], 1)
        assert uncommitted.aborted_transactions is None
        committed = await caller.fetched(("t", 0, 0), isolation_level=1)
        assert (values_in(committed), committed.high_watermark) == ([b"a"], 3)
        assert committed.aborted_transactions == ()
        assert values_in(await caller.fetched(("t", 0, 1), isolation_level=1)) == []

    run(scenario)


# Sessions


async def begin(caller: Caller, *wanted: tuple[str, int, int], **options: Any) -> int:
    response = await caller.fetch(*wanted, session=(0, 0), **options).read()
    assert response.error_code.value == 0
    return int(response.session_id)


async def told(call: Call) -> list[tuple[int, list[bytes | None]]]:
    """The partitions in an answer, with the values that came for each."""
    response = await call.read()
    assert response.error_code.value == 0
    return [(each.partition_index, values_in(each)) for each in partitions_in(response)]


@pytest.mark.parametrize("version", [7, 11, 12, 13, LATEST])
def test_a_session_tells_only_what_is_new(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=3)
        caller = Caller(broker)
        session = await begin(caller, *[("t", n, 0) for n in range(3)], version=version)
        assert session > 0
        assert await told(caller.fetch(version=version, session=(session, 1))) == []
        await fill(broker, "t", b"a", partition=1)
        assert await told(caller.fetch(version=version, session=(session, 2))) == [(1, [b"a"])]
        # What was given is given again until the client asks for more.
        assert await told(caller.fetch(version=version, session=(session, 3))) == [(1, [b"a"])]
        assert await told(caller.fetch(("t", 1, 1), version=version, session=(session, 4))) == []

    run(scenario)


def test_a_session_forgets_and_learns_partitions() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=3)
        for n in range(3):
            await fill(broker, "t", b"%d" % n, partition=n)
        caller = Caller(broker)
        session = await begin(caller, ("t", 0, 0))
        call = caller.fetch(("t", 1, 0), ("t", 2, 0), session=(session, 1), forget=(("t", 0), ("t", 7)))
        assert await told(call) == [(1, [b"1"]), (2, [b"2"])]

    run(scenario)


def test_a_session_serves_partitions_in_turn() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=3)
        for n in range(3):
            await fill(broker, "t", b"x" * 500, partition=n)
        caller = Caller(broker)
        session = await begin(caller, *[("t", n, 0) for n in range(3)], max_bytes=10)
        served = []
        for epoch in range(1, 7):
            answer = await told(caller.fetch(session=(session, epoch), max_bytes=10))
            served += [partition for partition, values in answer if values]
        assert served == [1, 2, 0, 1, 2, 0]

    run(scenario)


def test_a_session_out_of_step_or_unknown_or_mixed_is_refused_as_a_whole() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller = Caller(broker)
        session = await begin(caller, ("t", 0, 0))
        for identity, version, code in (
            ((session, 5), NAMED, 71),
            ((session + 1, 1), NAMED, 70),
            ((0, 1), NAMED, 70),
            ((session, 1), LATEST, 106),
        ):
            response = await caller.fetch(session=identity, version=version, max_wait_ms=20_000).read()
            assert (response.error_code.value, response.session_id, response.responses) == (code, 0, ())
        assert await told(caller.fetch(session=(session, 1))) == []

    run(scenario)


def test_a_session_ends_when_its_client_says_so_or_begins_anew() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller = Caller(broker)
        session = await begin(caller, ("t", 0, 0))
        response = await caller.fetch(("t", 0, 0), session=(session, -1)).read()
        assert (response.session_id, len(broker.fetch_sessions)) == (0, 0)
        first = await begin(caller, ("t", 0, 0))
        response = await caller.fetch(("t", 0, 0), session=(first, 0)).read()
        assert response.session_id not in (0, first)
        assert len(broker.fetch_sessions) == 1

    run(scenario)


def test_an_error_in_a_session_is_told_until_it_is_gone() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller = Caller(broker)
        session = await begin(caller, ("t", 0, 0), ("later", 0, 0))
        response = await caller.fetch(session=(session, 1)).read()
        assert [each.error_code.value for each in partitions_in(response)] == [3]
        await create(broker, "later")
        response = await caller.fetch(session=(session, 2)).read()
        assert [each.error_code.value for each in partitions_in(response)] == [0]
        assert (await caller.fetch(session=(session, 3)).read()).responses == ()

    run(scenario)


def test_without_room_for_sessions_a_client_goes_on_without() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller = Caller(broker)
        assert await begin(caller, ("t", 0, 0)) > 0
        assert await begin(caller, ("t", 0, 0)) == 0

    run(scenario, config_of(max_incremental_fetch_session_cache_slots="1"))


def test_a_session_polls_and_wakes() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        caller = Caller(broker)
        session = await begin(caller, ("t", 0, 0), ("t", 1, 0))
        call = caller.fetch(session=(session, 1), max_wait_ms=60_000)
        assert not call.is_answered
        await fill(broker, "t", b"a", partition=1)
        assert await told(call) == [(1, [b"a"])]

    run(scenario)
