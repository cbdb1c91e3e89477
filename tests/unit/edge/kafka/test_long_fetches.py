"""Fetch on a whole broker: very many partitions, which give the loop back again and again.

What is counted is the work between two turns of the loop, in calls of functions: the same on every machine.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema

from barnabas.core.records.record import Record, encode_batch
from barnabas.services.broker import Broker
from barnabas.services.syncing import wait_synced
from barnabas.wire.apis import FETCH
from tests.support.ports import NOW_MS
from tests.support.served import versions_of
from tests.unit.edge.kafka.calling import NAMED, Call, Caller, frame_of
from tests.unit.edge.kafka.fetching.support import fill, is_parked, partitions_in, values_in, wait_parked
from tests.unit.edge.kafka.holding import MAX_FREED, Held, held_by
from tests.unit.edge.kafka.support import append, build, create, run
from tests.unit.wire.kio_values import encode

MAX_CALLS = 8000
"""Between two turns: some milliseconds. Every request below takes several times as many in all."""

MANY = 3000
BY_ID = versions_of(FETCH)[-1]
Topic = str | UUID


def topic_of(name: Topic, partitions: Sequence[int], *, offset: int = 0) -> dict[str, Any]:
    named = {"topic": name} if isinstance(name, str) else {"topic_id": name}
    wanted = [
        {
            "partition": number,
            "fetch_offset": offset,
            "partition_max_bytes": 1_000_000,
            "current_leader_epoch": -1,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
        }
        for number in partitions
    ]
    return {**named, "partitions": wanted}


def frame(*topics: Mapping[str, Any], version: int = NAMED, session: tuple[int, int] = (0, -1), **values: Any) -> bytes:
    """A request; to make one is the client's work, and not counted."""
    session_id, session_epoch = session
    chosen = {
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 50_000_000,
        "isolation_level": 0,
        "session_id": session_id,
        "session_epoch": session_epoch,
        "topics": topics,
        "forgotten_topics_data": (),
        **values,
    }
    return frame_of(FETCH, version, encode(build(load_request_schema(FETCH.key, version), chosen)))


def count_of(response: Any) -> int:
    return len(partitions_in(response))


def codes_in(response: Any) -> set[int]:
    return {each.error_code.value for each in partitions_in(response)}


WANTED: dict[str, tuple[int, Sequence[Mapping[str, Any]], int]] = {
    "unused": (NAMED, [topic_of("wide", range(MANY))], 0),
    "unused, in an old version": (4, [topic_of("wide", range(MANY))], 0),
    "partitions that are not there": (NAMED, [topic_of("wide", range(MANY, 2 * MANY))], 3),
    "a topic that is not there": (NAMED, [topic_of("none", range(MANY))], 3),
    "topics that are not there": (NAMED, [topic_of(f"none-{number}", [0]) for number in range(MANY)], 3),
    "an id that is not there": (BY_ID, [topic_of(UUID(int=5), range(MANY))], 100),
    "ids that are not there": (BY_ID, [topic_of(UUID(int=5 + number), [0]) for number in range(MANY)], 100),
    "an offset that is not there": (NAMED, [topic_of("wide", range(MANY), offset=9)], 1),
}


@pytest.mark.parametrize("what", WANTED)
def test_a_fetch_of_many_gives_the_loop_back(what: str) -> None:
    version, topics, code = WANTED[what]

    async def scenario(broker: Broker) -> None:
        await create(broker, "wide", MANY)
        caller, request = Caller(broker), frame(*topics, version=version)
        call, held = await held_by(lambda: answered(caller.send(request)))
        assert held.longest < MAX_CALLS
        assert held.freed < MAX_FREED, held.freed
        assert held.turns > MANY // 1000
        response = await call.read()
        assert (count_of(response), codes_in(response)) == (MANY, {code})

    run(scenario)


async def answered(call: Call) -> Call:
    """The call when it is answered: reading the answer is the client's work, and not counted."""
    while not call.is_answered:  # noqa: ASYNC110
        await asyncio.sleep(0)
    return call


def test_a_fetch_of_many_that_have_records_gives_the_loop_back() -> None:
    async def scenario(broker: Broker) -> None:
        number = 1500
        await create(broker, "t", number)
        for partition in range(number):
            append(broker, "t", NOW_MS, partition=partition)
        await wait_synced(broker.served.get_partition("t", partition) for partition in range(number))
        caller = Caller(broker)
        request = frame(topic_of(broker.image.topics["t"].topic_id, range(number)), version=BY_ID)
        call, held = await held_by(lambda: answered(caller.send(request)))
        assert held.longest < MAX_CALLS
        assert held.freed < MAX_FREED, held.freed
        assert [values_in(each) for each in partitions_in(await call.read())] == [[b"v"]] * number

    run(scenario)


def test_a_session_of_many_gives_the_loop_back() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "wide", MANY)
        caller = Caller(broker)
        request = frame(topic_of("wide", range(MANY)), session=(0, 0))
        with Held() as beginning:
            call = await answered(caller.send(request))
        session = (await call.read()).session_id
        assert session > 0
        await fill(broker, "wide", b"a", partition=2321)
        request = frame(session=(session, 1))
        with Held() as going_on:
            call = await answered(caller.send(request))
        (found,) = partitions_in(await call.read())
        assert (found.partition_index, values_in(found)) == (2321, [b"a"])
        forgotten = [{"topic": "wide", "partitions": tuple(range(1, MANY))}]
        request = frame(session=(session, 2), forgotten_topics_data=forgotten)
        with Held() as forgetting:
            call = await answered(caller.send(request))
        assert count_of(await call.read()) == 0
        assert broker.fetch_sessions.size_of(session) == 1
        assert max(beginning.longest, going_on.longest, forgetting.longest) < MAX_CALLS

    run(scenario)


def test_a_poll_of_many_looks_only_at_what_grew() -> None:
    async def scenario(broker: Broker) -> None:
        number = 2 * MANY
        await create(broker, "wide", number, flush_policy="os")
        caller = Caller(broker)
        call = caller.send(frame(topic_of("wide", range(number)), max_wait=60_000, min_bytes=2000))
        await wait_parked(broker, "wide", number - 1)
        size = len(encode_batch([Record(0, NOW_MS, b"k", b"v")]))
        with Held() as held:
            for partition in range(2000 // size):
                append(broker, "wide", NOW_MS, partition=partition)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert not call.is_answered
        assert held.calls < 5 * number  # all that was written included; to look at all takes more
        append(broker, "wide", NOW_MS, partition=number - 1)
        response = await call.read()
        served = [each.partition_index for each in partitions_in(response) if each.records]
        assert served == [*range(2000 // size), number - 1]
        assert not any(is_parked(broker, "wide", partition) for partition in range(number))

    run(scenario)


def test_a_poll_of_many_hears_of_what_grows_while_it_still_looks() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "wide", MANY)
        call = Caller(broker).send(frame(topic_of("wide", range(MANY)), max_wait=60_000))
        await wait_parked(broker, "wide", 0)
        assert not is_parked(broker, "wide", MANY - 1)
        await fill(broker, "wide", b"a", partition=0)
        first, *_ = partitions_in(await call.read())
        assert values_in(first) == [b"a"]

    run(scenario, is_virtual=True)


def test_a_poll_of_many_ends_when_its_time_is_over() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "wide", MANY)
        began_s = asyncio.get_running_loop().time()
        response = await Caller(broker).send(frame(topic_of("wide", range(MANY)), max_wait=5000)).read()
        assert count_of(response) == MANY
        assert 5.0 <= asyncio.get_running_loop().time() - began_s < 5.1

    run(scenario, is_virtual=True)


def test_a_partition_that_is_named_twice_is_told_once_as_it_was_named_last() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", 200)
        await fill(broker, "t", b"a", b"b", partition=7)
        twice = [topic_of("t", range(200)), topic_of("t", [7], offset=1)]
        found = partitions_in(await Caller(broker).send(frame(*twice)).read())
        assert [each.partition_index for each in found] == list(range(200))
        assert values_in(found[7]) == [b"b"]

    run(scenario)


@pytest.mark.parametrize("is_recreated", [False, True])
def test_a_topic_may_be_deleted_between_any_two_turns(is_recreated: bool) -> None:
    async def scenario(broker: Broker) -> None:
        caller = Caller(broker)
        await create(broker, "other", 80)
        turns, is_over = 0, False
        while not is_over:
            await create(broker, "t", 120, flush_policy="os")
            append(broker, "t", NOW_MS, partition=0)
            call = caller.send(frame(topic_of("t", range(120)), topic_of("other", range(80)), max_wait=1000))
            for _ in range(turns):
                await asyncio.sleep(0)
            is_over = call.is_answered
            await broker.topics.delete("t")
            if is_recreated:
                await create(broker, "t", 120)
            response = await call.read()
            assert count_of(response) == 200
            assert codes_in(response) <= {0, 3}
            if is_recreated:
                await broker.topics.delete("t")
            turns += 1
        assert turns > 5

    run(scenario, is_virtual=True)
