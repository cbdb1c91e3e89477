"""Fetch on a whole broker: sessions, which tell only what is new."""

from typing import Any

import pytest

from barnabas.services.broker import Broker
from barnabas.wire.apis import FETCH
from tests.support.served import versions_of
from tests.unit.edge.kafka.calling import NAMED, Call, Caller
from tests.unit.edge.kafka.fetching.support import fill, partitions_in, values_in
from tests.unit.edge.kafka.support import config_of, create, run

LATEST = versions_of(FETCH)[-1]


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
