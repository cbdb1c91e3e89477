"""Fetch on a whole broker: an answer of more than its client may have at once is read as the client reads."""

from typing import Any

import pytest

from barnabas.core.errors import BarnabasError
from barnabas.services.broker import Broker
from barnabas.services.fetch import UnreadRecords
from barnabas.storage.truncate import delete_before, truncate_to
from barnabas.wire.apis import FETCH
from tests.support.served import versions_of
from tests.unit.edge.kafka.calling import Call, Caller, FakeConnection
from tests.unit.edge.kafka.fetching.support import fill, partitions_in, values_in
from tests.unit.edge.kafka.fetching.test_limits import run_warm_or_cold
from tests.unit.edge.kafka.support import create, run

VALUES = [bytes([65 + n]) * 3000 for n in range(10)]


def slow_caller(broker: Broker, max_read_bytes: int) -> Caller:
    """A client of which no more is held than this."""
    return Caller(broker, FakeConnection(max_read_bytes))


async def unread_of(call: Call) -> list[UnreadRecords]:
    if call._work is not None:
        call._answer = await call._work
    assert call._answer is not None
    return [piece for piece in call._answer if isinstance(piece, UnreadRecords)]


@pytest.mark.parametrize("is_cold", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("max_read_bytes", [0, 1, 1500, 3500])
def test_an_answer_in_pieces_is_the_same_as_one_that_is_read_at_once(max_read_bytes: int, is_cold: bool) -> None:
    async def scenario(broker: Broker) -> None:
        wanted = [("t", n, 0) for n in range(4)]
        at_once = await Caller(broker).fetch(*wanted).bytes()
        call = slow_caller(broker, max_read_bytes).fetch(*wanted)
        unread = await unread_of(call)
        read = sum(map(len, call._answer or [])) - sum(map(len, unread))
        assert unread
        assert read <= max_read_bytes + 1000  # and what is around the records
        assert await call.bytes() == at_once

    run_warm_or_cold(scenario, is_cold=is_cold)


def test_records_may_be_deleted_while_they_are_sent() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", *VALUES[:3])
        log = broker.served.get_partition("t", 0).log
        log.roll()
        await fill(broker, "t", *VALUES[3:])
        call = slow_caller(broker, 100).fetch(("t", 0, 0))
        assert await unread_of(call)
        assert delete_before(log, 8) == 8
        assert len(log.segments) == 1
        (partition,) = partitions_in(await call.read())
        assert values_in(partition) == VALUES[:3]

    run(scenario)


@pytest.mark.parametrize("is_cold", [False, True], ids=["memory", "disk"])
def test_what_was_cut_off_while_it_was_sent_is_not_sent_whatever_is_there_now(
    is_cold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", *VALUES)
        call = slow_caller(broker, 100).fetch(("t", 0, 0))
        (unread,) = await unread_of(call)
        if is_cold:
            monkeypatch.setattr(type(unread._file), "read_nowait", lambda *_: None)
        await take(unread, 5000)
        log = broker.served.get_partition("t", 0).log
        truncate_to(log, 1)
        await fill(broker, "t", *[b"other" * 700] * 9)
        with pytest.raises(BarnabasError, match="was truncated"):
            await take(unread, 5000)

    run(scenario)


async def take(unread: UnreadRecords, size: int) -> Any:
    data = unread.take_nowait(size)
    return await unread.take(size) if data is None else data


def test_a_long_poll_does_not_answer_with_what_was_cut_off_and_written_anew() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"before", b"gone")
        call = Caller(broker).fetch(("t", 0, 1), min_bytes=10_000, max_wait_ms=60_000)
        assert not call.is_answered
        log = broker.served.get_partition("t", 0).log
        truncate_to(log, 1)
        assert call.slot is not None
        assert call.slot.on_hurry is not None
        call.slot.on_hurry()
        (partition,) = partitions_in(await call.read())
        assert values_in(partition) == []

    run(scenario)


def test_a_file_that_ends_too_soon_is_not_made_up_for() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", *VALUES)
        (unread,) = await unread_of(slow_caller(broker, 100).fetch(("t", 0, 0)))
        unread._file.truncate(4000)
        await take(unread, 3000)
        with pytest.raises(BarnabasError, match="in the middle of the records to be sent"):
            await take(unread, 3000)

    run(scenario)


def test_every_version_has_its_answer_in_pieces() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", *VALUES)
        for version in versions_of(FETCH):
            partition = await slow_caller(broker, 100).fetched(("t", 0, 0), version=version)
            assert values_in(partition) == VALUES

    run(scenario)
