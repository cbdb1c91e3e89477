"""A whole request to write, with no protocol around it: what becomes of each batch, and when that holds."""

import asyncio
from functools import partial
from uuid import UUID

import pytest

from barnabas.core.errors import (
    BarnabasError,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTimestamp,
    NotLeaderOrFollower,
    PolicyViolation,
    RecordTooLarge,
    RequestTimedOut,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from barnabas.core.produced import PartitionData, ProduceRequest, TopicData
from barnabas.core.records.record import Record, encode_batch
from barnabas.services.produce import ACKS_ALL, Transacting
from barnabas.services.produce_round import MAX_AT_ONCE, Placed, ProduceRound
from barnabas.services.settings import DeliverySemantics, TopicConfig
from barnabas.storage.config import CleanupPolicy, LogConfig
from tests.support.ports import NOW_MS
from tests.unit.services.round_world import CLIENT, SYNCED, NothingOn, RoundWorld, run
from tests.unit.storage.builders import in_transaction

TIMEOUT_MS = 30_000
PRODUCER = 7
ADDING = Transacting(adds=True, refusal_of=lambda error: error)


def batch(value: bytes = b"v") -> memoryview:
    return memoryview(encode_batch([Record(0, NOW_MS, b"k", value)]))


def topic(name: str | UUID, *batches: memoryview | None) -> TopicData:
    """Batches for the partitions of a topic from 0 on."""
    data = [PartitionData(number, each) for number, each in enumerate(batches)]
    return TopicData(name, None, data) if isinstance(name, str) else TopicData(None, name, data)


def writing(*topics: TopicData, acks: int = ACKS_ALL, transactional_id: str | None = None) -> ProduceRequest:
    return ProduceRequest(transactional_id, acks, TIMEOUT_MS, list(topics))


def take(world: RoundWorld, request: ProduceRequest) -> ProduceRound:
    done = world.produces.take_now(CLIENT, request)
    assert done is not None
    return done


def kinds(done: ProduceRound) -> list[list[type[object]]]:
    return [[type(outcome) for outcome in outcomes] for outcomes in done.outcomes]


def test_each_batch_has_its_outcome_in_the_order_of_the_request() -> None:
    async def scenario(world: RoundWorld) -> None:
        topic_id = world.create("t", 2)
        world.create("secret")
        world.access.use(NothingOn("secret"))
        request = writing(
            topic("t", batch(), memoryview(b"none"), batch()),
            topic(topic_id, batch()),
            topic("none", batch(), batch()),
            topic(UUID(int=99), batch()),
            topic("secret", batch()),
        )
        done = take(world, request)
        assert kinds(done) == [
            [Placed, InvalidRecord, UnknownTopicOrPartition],
            [Placed],
            [UnknownTopicOrPartition] * 2,
            [UnknownTopicId],
            [TopicAuthorizationFailed],
        ]
        assert (done.outcomes[0][0], done.outcomes[1][0]) == (Placed(0, -1, 0), Placed(1, -1, 0))
        assert done.is_acked

    run(scenario)


def test_acks_that_do_not_exist_are_refused() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        assert kinds(take(world, writing(topic("t", batch()), acks=2))) == [[InvalidRequiredAcks]]
        assert world.partition("t").end_offset == 0

    run(scenario)


def test_what_waits_for_all_is_acknowledged_when_it_is_synced() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t", 2, SYNCED)
        assert take(world, writing(topic("t", batch()), acks=1)).is_acked
        done = take(world, writing(topic("t", batch(), batch())))
        assert not done.is_acked
        waiting = asyncio.ensure_future(done.wait_acked())
        world.sync("t", 0)
        await asyncio.sleep(1)
        assert not waiting.done()
        world.sync("t", 1)
        await waiting
        assert kinds(done) == [[Placed, Placed]]

    run(scenario)


def test_rounds_are_appended_without_waiting_for_each_other() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t", config=SYNCED)
        acked: list[int] = []
        for number in range(3):
            done = take(world, writing(topic("t", batch())))
            done.call_when_acked(partial(acked.append, number))
        assert (world.partition("t").end_offset, acked) == (3, [])
        world.sync("t")
        assert sorted(acked) == [0, 1, 2]

    run(scenario)


def test_what_is_not_acknowledged_in_time_is_unknown() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t", 2, SYNCED)
        done = take(world, writing(topic("t", batch(), batch())))
        began_s = asyncio.get_running_loop().time()
        waiting = asyncio.ensure_future(done.wait_acked())
        await asyncio.sleep(1)
        world.sync("t", 1)
        await waiting
        assert asyncio.get_running_loop().time() - began_s == pytest.approx(TIMEOUT_MS / 1000, abs=0.1)
        assert kinds(done) == [[RequestTimedOut, Placed]]
        world.sync("t", 0)  # nobody hears of it twice
        assert kinds(done) == [[RequestTimedOut, Placed]]

    run(scenario)


def test_what_was_written_under_another_leadership_is_not_acknowledged() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t", config=SYNCED)
        before, after = (take(world, writing(topic("t", batch()))) for _ in range(2))
        waiting = asyncio.ensure_future(before.wait_acked())
        await asyncio.sleep(0)
        world.lead("t", leader_epoch=1)
        world.sync("t")
        await waiting
        await after.wait_acked()  # it comes to wait too late to be called
        assert kinds(before) == kinds(after) == [[NotLeaderOrFollower]]

    run(scenario)


def test_one_batch_for_one_partition_is_taken_as_any_other() -> None:
    async def scenario(world: RoundWorld) -> None:
        topic_id = world.create("t")
        world.create("synced", config=SYNCED)
        take_single = partial(world.produces.take_single, CLIENT)
        assert take_single((1, TIMEOUT_MS, "t", None, 0, batch())) == Placed(0, -1, 0)
        assert take_single((ACKS_ALL, TIMEOUT_MS, None, topic_id, 0, batch())) == Placed(1, -1, 0)
        for single, refusal in (
            ((1, TIMEOUT_MS, "t", None, 3, batch()), UnknownTopicOrPartition),
            ((1, TIMEOUT_MS, "t", None, 0, memoryview(b"none")), InvalidRecord),
        ):
            assert isinstance(take_single(single), refusal)
        done = take_single((ACKS_ALL, TIMEOUT_MS, "synced", None, 0, batch()))
        assert isinstance(done, ProduceRound)
        assert not done.is_acked
        world.sync("synced")
        await done.wait_acked()
        assert done.outcomes == [[Placed(0, -1, 0)]]

    run(scenario)


def test_one_plain_record_is_refused_for_all_that_any_other_batch_is() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t", config=TopicConfig(timestamp_after_max_ms=1000))
        world.create("strict", config=TopicConfig(delivery_semantics=DeliverySemantics.EXACTLY_ONCE))
        world.create("small", config=TopicConfig(log=LogConfig(max_message_bytes=10)))
        take_single = partial(world.produces.take_single, CLIENT)
        ahead = memoryview(encode_batch([Record(0, 2**60, None, b"v")]))
        for name, records, refusal in (
            ("t", ahead, InvalidTimestamp),
            ("strict", batch(), PolicyViolation),
            ("small", batch(), RecordTooLarge),
        ):
            assert isinstance(take_single((1, TIMEOUT_MS, name, None, 0, records)), refusal)
            assert world.partition(name).end_offset == 0
        assert take_single((1, TIMEOUT_MS, "t", None, 0, batch())) == Placed(0, -1, 0)
        assert world.served.get("t").traffic.records_in == 1

    run(scenario)


def test_one_batch_that_needs_more_than_to_be_appended_is_left_alone() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        world.create("compacted", config=TopicConfig(log=LogConfig(cleanup_policy=(CleanupPolicy.COMPACT,))))
        take_single = partial(world.produces.take_single, CLIENT)
        assert take_single((0, TIMEOUT_MS, "t", None, 0, batch())) is None
        assert take_single((1, TIMEOUT_MS, "none", None, 0, batch())) is None
        assert take_single((1, TIMEOUT_MS, "compacted", None, 0, batch())) is None
        assert world.partition("t").end_offset == 0

    run(scenario)


def test_one_batch_is_taken_from_a_client_that_may_write_and_from_no_other() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        secret_id = world.create("secret")
        take_single = partial(world.produces.take_single, CLIENT)
        world.access.use(NothingOn("secret"))
        assert take_single((1, TIMEOUT_MS, "t", None, 0, batch())) == Placed(0, -1, 0)
        for name, topic_id in (("secret", None), (None, secret_id)):
            refusal = take_single((1, TIMEOUT_MS, name, topic_id, 0, batch()))
            assert isinstance(refusal, TopicAuthorizationFailed)
            assert ("secret" in str(refusal)) is (name is not None), "who has only the id does not learn the name"
        assert world.partition("secret").end_offset == 0

    run(scenario)


def test_what_must_be_looked_into_is_not_taken_now_and_taken_whole_then() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t")
        world.create("compacted", config=TopicConfig(log=LogConfig(cleanup_policy=(CleanupPolicy.COMPACT,))))
        keyless = memoryview(encode_batch([Record(0, NOW_MS, None, b"v")]))
        request = writing(topic("t", batch()), topic("compacted", keyless), topic("compacted", batch()), acks=1)
        assert world.produces.take_now(CLIENT, request) is None
        assert world.partition("t").end_offset == 0
        done = await world.produces.take(CLIENT, request, ADDING)
        outcomes = [outcome for (outcome,) in done.outcomes]
        assert [isinstance(outcome, BarnabasError) for outcome in outcomes] == [False, True, False]

    run(scenario)


def test_a_transaction_is_asked_about_once_before_it_is_written_to() -> None:
    async def scenario(world: RoundWorld) -> None:
        world.create("t", 2)
        first = writing(topic("t", memoryview(in_transaction(PRODUCER, 0))), transactional_id="x")
        assert world.produces.take_now(CLIENT, first) is None
        assert kinds(await world.produces.take(CLIENT, first, ADDING)) == [[Placed]]
        assert len(world.admission.asked) == 1
        second = writing(topic("t", memoryview(in_transaction(PRODUCER, 1))), transactional_id="x")
        assert kinds(take(world, second)) == [[Placed]]
        assert len(world.admission.asked) == 1

    run(scenario)


def test_very_many_partitions_are_written_to_in_turns() -> None:
    async def scenario(world: RoundWorld) -> None:
        number = 2 * MAX_AT_ONCE
        world.create("t", number)
        request = writing(topic("t", *(batch() for _ in range(number))))
        turns = 0
        async with asyncio.TaskGroup() as tasks:
            taking = tasks.create_task(world.produces.take_in_turns(CLIENT, request, ADDING))
            while not taking.done():
                await asyncio.sleep(0)
                turns += 1
        assert kinds(taking.result()) == [[Placed] * number]
        assert turns > 10

    run(scenario)
