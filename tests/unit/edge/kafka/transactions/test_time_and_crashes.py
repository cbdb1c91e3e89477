"""Transactions that run out of time, and those that a crash comes upon."""

import asyncio
import logging
from collections.abc import Sequence

import msgspec
import pytest

from barnabas.core.errors import NotCoordinator
from barnabas.core.model import TopicPartition
from barnabas.core.transactions.ending import TransactionEnd
from barnabas.services.broker import Broker
from barnabas.services.markers import Markers
from barnabas.services.transaction_routing import Outcomes
from barnabas.testing.disk import SimulatedDisk
from tests.unit.edge.kafka.support import create, run, serving
from tests.unit.edge.kafka.transactions.support import (
    GENERATIONS,
    OLD,
    Client,
    fetch_offset,
    read,
    stable_offset,
    state_of,
)

both = pytest.mark.parametrize("generation", GENERATIONS)
FENCED, INVALID_EPOCH, INVALID_STATE = 90, 47, 48
FORGED = "id'\n2026-11-16 10:00:00,000 ERROR barnabas.node /data is taken offline\x1b[1A\u202e"


class CrashedError(Exception):
    """Stands for a crash."""


async def until(broker: Broker, state: str) -> None:
    async with asyncio.timeout(60):
        while await state_of(broker) != state:  # noqa: ASYNC110 - as a client sees it
            await asyncio.sleep(0.005)


def pass_time(broker: Broker, seconds: float) -> None:
    """Let the broker's clock, which stands still in these tests, say that time has passed."""
    now_ms = broker.clock.now_ms() + int(seconds * 1000)
    broker.clock.now_ms = lambda: now_ms  # type: ignore[method-assign]


@both
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(generation: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        client = Client(broker, generation=generation)
        await client.init(timeout_ms=50)
        assert await client.send("t", b"v") == 0
        assert await client.commit_offset("g", "t", 3) == 0
        pass_time(broker, 1)
        await until(broker, "CompleteAbort")
        assert await read(broker, "t") == []
        assert await stable_offset(broker, "t") == (2, 2)
        assert await fetch_offset(broker, "g", "t") == (-1, 0)
        assert await client.send("t", b"more") in (FENCED, INVALID_EPOCH)
        # To the newer generation this is a repeated end, and not how the transaction ended.
        assert await client.end() == (FENCED if generation == OLD else INVALID_STATE)
        assert await client.init() == 0
        assert await client.send("t", b"again") == 0
        assert await client.end() == 0
        assert await read(broker, "t") == [b"again"]

    run(scenario)


def test_a_transaction_whose_timeout_cannot_be_written_is_aborted_once_it_can(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        disk = SimulatedDisk(1)
        async with serving(disk=disk) as broker:
            await create(broker, "t")
            client = Client(broker)
            await client.init(timeout_ms=50)
            assert await client.send("t", b"v") == 0
            disk.fail_write(count=None)
            pass_time(broker, 1)
            async with asyncio.timeout(60):
                while "could not be aborted" not in caplog.text:  # noqa: ASYNC110 - as whoever reads the log
                    await asyncio.sleep(0.005)
            disk.clear_faults()
            await until(broker, "CompleteAbort")
            assert await stable_offset(broker, "t") == (2, 2)

    asyncio.run(scenario())


def test_a_transaction_whose_end_cannot_be_written_is_ended_once_it_can() -> None:
    """Its markers were there, and it stayed prepared until another node coordinated it."""

    async def scenario() -> None:
        disk = SimulatedDisk(1)
        async with serving(disk=disk) as broker:
            await create(broker, "t")
            client = Client(broker)
            await client.init()
            assert await client.send("t", b"v") == 0
            router = broker.transactions._markers
            write, written = router.write, asyncio.Event()

            async def write_and_fill_disk(end: TransactionEnd, partitions: Sequence[TopicPartition]) -> Outcomes:
                results = await write(end, partitions)
                disk.fail_write(lambda path: "__transaction_state" in path, count=1)
                router.write = write  # type: ignore[method-assign]
                written.set()
                return results

            router.write = write_and_fill_disk  # type: ignore[method-assign]
            assert await client.end() == 0
            await written.wait()
            await until(broker, "CompleteCommit")
            assert await read(broker, "t") == [b"v"]

    asyncio.run(scenario())


def test_a_coordinator_that_comes_back_ends_what_its_predecessor_was_ending() -> None:
    """The predecessor's task, which was about to give up, was taken for its own."""

    async def scenario() -> None:
        async with serving() as broker:
            await create(broker, "t")
            client = Client(broker)
            await client.init()
            assert await client.send("t", b"v") == 0
            transactions = broker.transactions
            coordinator = await transactions._coordinators.of(client.transactional_id)
            write, is_first, go_on = transactions._markers.write, asyncio.Event(), asyncio.Event()

            async def hang(end: TransactionEnd, partitions: Sequence[TopicPartition]) -> Outcomes:
                is_first.set()
                await go_on.wait()
                return {TopicPartition("t", 0): NotCoordinator("replaced")}

            transactions._markers.write = hang  # type: ignore[method-assign]
            assert await client.end() == 0
            await is_first.wait()
            transactions._markers.write = write  # type: ignore[method-assign]
            state = broker.metadata.image.get_topic("__transaction_state").partitions[
                coordinator.partition.name.partition
            ]
            records = [msgspec.structs.replace(state, leader_epoch=state.leader_epoch + 1)]
            broker.served.apply(records)
            transactions.apply(records)
            go_on.set()
            await until(broker, "CompleteCommit")
            assert await read(broker, "t") == [b"v"]

    asyncio.run(scenario())


def test_an_id_that_a_client_made_up_cannot_look_like_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        client = Client(broker, FORGED)
        await client.init(timeout_ms=50)
        assert await client.send("t", b"v") == 0
        pass_time(broker, 1)
        async with asyncio.timeout(60):
            while "timed out" not in caplog.text:  # noqa: ASYNC110 - as whoever reads the log
                await asyncio.sleep(0.005)

    with caplog.at_level(logging.INFO, "barnabas"):
        run(scenario)
    (line,) = [record.getMessage() for record in caplog.records if "timed out" in record.getMessage()]
    assert line.isprintable()
    assert "\\n2026-11-16 10:00:00,000 ERROR" in line


def test_ids_that_nobody_uses_are_forgotten() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        used, unused, open_ = (Client(broker, name, generation=OLD) for name in ("used", "unused", "open"))
        for client in (used, unused, open_):
            await client.init(timeout_ms=900_000)
        await open_.send("t", b"v")
        pass_time(broker, 7 * 24 * 3600)
        await used.init()
        pass_time(broker, 1)
        assert await broker.transactions.expire_ids() == 1
        listed = await broker.transactions.list_transactions()
        assert [record.transactional_id for record in listed] == ["open", "used"]
        assert await unused.add("t", 0) == [49]

    run(scenario)


@both
@pytest.mark.parametrize("is_clean", [True, False])
def test_an_open_transaction_goes_on_after_a_restart(generation: int, is_clean: bool) -> None:
    async def scenario() -> None:
        disk = SimulatedDisk(1)
        async with serving(disk=disk) as broker:
            await create(broker, "t")
            client = Client(broker, generation=generation)
            await client.init()
            assert await client.send("t", b"a") == 0
            assert await client.commit_offset("g", "t", 3) == 0
            if is_clean:
                broker.logs.data_dir.close()
        disk.restart()
        async with serving(disk=disk) as broker:
            client.broker, client.caller = broker, type(client.caller)(broker)
            assert await read(broker, "t") == []
            assert await fetch_offset(broker, "g", "t") == (-1, 88)
            assert await client.send("t", b"b") == 0
            assert await client.end() == 0
            assert await read(broker, "t") == [b"a", b"b"]
            assert await fetch_offset(broker, "g", "t") == (3, 0)
        disk.restart()
        async with serving(disk=disk) as broker:
            assert await read(broker, "t") == [b"a", b"b"]
            assert await fetch_offset(broker, "g", "t") == (3, 0)

    asyncio.run(scenario())


@both
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("written", [(), ("t",), ("u",), ("t", "u", "__consumer_offsets")])
def test_what_was_decided_is_done_after_a_crash(
    generation: int, commit: bool, written: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash comes when the end is on disk, and the markers in some of the partitions."""

    append = Markers._append

    def append_some(markers: Markers, end: object, name: TopicPartition) -> object:
        if name.topic not in written:
            raise CrashedError
        return append(markers, end, name)  # type: ignore[arg-type]

    async def crash(disk: SimulatedDisk) -> None:
        async with serving(disk=disk) as broker:
            for topic in ("t", "u"):
                await create(broker, topic)
            client = Client(broker, generation=generation)
            await client.init()
            for topic in ("t", "u"):
                assert await client.send(topic, b"v") == 0
            assert await client.commit_offset("g", "t", 3) == 0
            with monkeypatch.context() as patch:
                patch.setattr(Markers, "_append", append_some)
                await client.end(commit=commit)
            raise CrashedError

    async def scenario() -> None:
        disk = SimulatedDisk(1)
        with pytest.raises(BaseExceptionGroup, match="unhandled errors"):
            await crash(disk)
        disk.restart()
        async with serving(disk=disk) as broker:
            await until(broker, "CompleteCommit" if commit else "CompleteAbort")
            for topic in ("t", "u"):
                assert await read(broker, topic) == ([b"v"] if commit else [])
                stable, end = await stable_offset(broker, topic)
                assert stable == end
            assert await fetch_offset(broker, "g", "t") == ((3 if commit else -1), 0)

    asyncio.run(scenario())
