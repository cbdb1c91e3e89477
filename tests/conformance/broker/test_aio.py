"""`barnabas.aio`: the verbs of the bus in tasks, and what becomes of them when a task is cancelled."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from barnabas import aio
from barnabas.client import DeliveryFailed, Message, RecordNotFound, RecordPlace, UnknownTopicOrPartition
from barnabas.core.errors import InvalidRequest
from barnabas.testing.embedded import EmbeddedBroker, embedded

TIMEOUT_S = 60
DOCS = Path(__file__).parents[3] / "docs" / "asyncio.md"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with embedded() as running:
        yield running


def run(broker: EmbeddedBroker, scenario: Callable[[aio.Bus], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(TIMEOUT_S), aio.Bus(broker.bootstrap) as bus:
            await scenario(bus)

    asyncio.run(main())


@asynccontextmanager
async def filled(bus: aio.Bus, topic: str, count: int, partitions: int = 1) -> AsyncIterator[str]:
    await bus.create_topic(topic, partitions=partitions)
    for number in range(count):
        await bus.send(topic, str(number), partition=number % partitions)
    await bus.flush()
    yield topic
    await bus.delete_topic(topic)


def numbers(messages: list[Message]) -> list[int]:
    return [int(message.value or b"-1") for message in messages]


async def place_of(sent: aio.Sent) -> RecordPlace:
    return await sent


async def committed(bus: aio.Bus, group: str) -> int | None:
    (lag,) = (await bus.describe_group(group)).partitions
    return lag.offset


def test_what_is_sent_is_acknowledged_and_read(broker: EmbeddedBroker) -> None:
    async def scenario(bus: aio.Bus) -> None:
        await bus.create_topic("sent")
        sent = [await bus.send("sent", str(number)) for number in range(1000)]
        places = await asyncio.gather(*sent)
        assert [place.offset for place in places] == list(range(1000))
        assert all(each.done() for each in sent)
        shared = await bus.send("sent", "1000")
        first, second = await asyncio.gather(place_of(shared), place_of(shared))
        assert first == second
        read = [message async for message in bus.consume("sent", until_end=True)]
        assert numbers(read) == list(range(1001))
        assert (await bus.get("sent", 0, 17)).value == b"17"
        with pytest.raises(RecordNotFound):
            await bus.get("sent", 0, 1001)

    run(broker, scenario)


def test_refusals_reach_the_task_that_asked(broker: EmbeddedBroker) -> None:
    async def scenario(bus: aio.Bus) -> None:
        with pytest.raises(UnknownTopicOrPartition):
            await anext(bus.consume("is-not-there"))
        with pytest.raises(InvalidRequest, match="committed offsets"):
            await anext(bus.consume("any", group="g", offset=5))
        await bus.create_topic("small", config={"max.message.bytes": "1000"})
        refused = await bus.send("small", b"x" * 5000)
        with pytest.raises(DeliveryFailed, match="too large"):
            await refused
        with pytest.raises(DeliveryFailed):
            await bus.flush()

    run(broker, scenario)


def test_a_full_queue_makes_the_sender_wait_and_others_go_on(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async with aio.Bus(broker.bootstrap, config={"queue.buffering.max.messages": "100"}) as bus:
            await bus.create_topic("full")
            beside = asyncio.create_task(others())
            for number in range(2000):
                await bus.send("full", str(number))
            beside.cancel()
            await bus.flush()
            read = [message async for message in bus.consume("full", until_end=True)]
        assert numbers(read) == list(range(2000))
        assert turns > 10

    asyncio.run(main())


def test_a_record_of_a_group_is_committed_when_the_next_is_asked_for(broker: EmbeddedBroker) -> None:
    async def scenario(bus: aio.Bus) -> None:
        async with filled(bus, "processed", 10):
            async with bus.consume("processed", group="processing") as reader:
                first = [await anext(reader) for _ in range(4)]
            assert numbers(first) == [0, 1, 2, 3]
            assert await committed(bus, "processing") == 3  # the fourth was handed out, not processed
            rest = [message async for message in bus.consume("processed", group="processing", until_end=True)]
            assert numbers(rest) == [3, 4, 5, 6, 7, 8, 9]
            assert await committed(bus, "processing") == 10

    run(broker, scenario)


def test_a_cancelled_wait_loses_no_record(broker: EmbeddedBroker) -> None:
    async def scenario(bus: aio.Bus) -> None:
        await bus.create_topic("waited")
        async with bus.consume("waited", group="waiting") as reader:
            read: list[Message] = []
            for number in range(5):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await anext(reader)
                await (await bus.send("waited", str(number)))
                read.append(await anext(reader))
        assert numbers(read) == [0, 1, 2, 3, 4]

    run(broker, scenario)


def test_a_slow_task_holds_its_reader_back(broker: EmbeddedBroker) -> None:
    """One chunk is fetched, and the next when it is used up: what waits is bounded however long the topic is."""

    async def scenario(bus: aio.Bus) -> None:
        async with filled(bus, "long", 2500), bus.consume("long", group="slow", max_poll_records=100) as reader:
            for _ in range(150):
                await anext(reader)
            await asyncio.sleep(0.2)
            assert await committed(bus, "slow") == 100
            await anext(reader)

    run(broker, scenario)


def test_readers_end_with_their_bus(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        async with aio.Bus(broker.bootstrap) as bus, filled(bus, "ended", 3):
            reader = bus.consume("ended", group="ending")
            assert (await anext(reader)).offset == 0
            await reader.aclose()
            await reader.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(reader)
            left = bus.consume("ended", group="ending")
            assert (await anext(left)).offset == 0
            assert (await bus.describe_group("ending")).members
        async with aio.Bus(broker.bootstrap) as bus:
            assert not (await bus.describe_group("ending")).members

    asyncio.run(main())


def test_a_transaction_commits_at_the_end_of_its_block_and_aborts_otherwise(broker: EmbeddedBroker) -> None:
    async def scenario(bus: aio.Bus) -> None:
        await bus.create_topic("told")
        async with bus.transaction("teller") as transaction:
            for number in range(3):
                await transaction.send("told", str(number))

        async def failing() -> None:
            async with bus.transaction("teller") as transaction:
                await transaction.send("told", "never")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await failing()

        async def cancelled() -> None:
            async with bus.transaction("teller") as transaction:
                await transaction.send("told", "never")
                begun.set()
                await asyncio.sleep(TIMEOUT_S)

        begun = asyncio.Event()
        task = asyncio.create_task(cancelled())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with bus.transaction("teller") as transaction:
            await transaction.send("told", "3")
        assert numbers([message async for message in bus.consume("told", until_end=True)]) == [0, 1, 2, 3]

    run(broker, scenario)


def test_offsets_are_part_of_a_transaction(broker: EmbeddedBroker) -> None:
    async def scenario(bus: aio.Bus) -> None:
        await bus.create_topic("doubled")
        async with (
            filled(bus, "numbers", 6),
            bus.consume("numbers", group="doubling", mode="transactional", until_end=True) as reader,
        ):
            is_first = True
            with pytest.raises(InvalidRequest):
                async with bus.transaction("doubler") as transaction:
                    transaction.commit_offsets(bus.consume("numbers"))
            while True:
                try:
                    first = await anext(reader)
                except StopAsyncIteration:
                    break
                try:
                    async with bus.transaction("doubler") as transaction:
                        transaction.commit_offsets(reader)
                        pair = [first, await anext(reader)]
                        for number in numbers(pair):
                            await transaction.send("doubled", str(2 * number))
                        if is_first:
                            is_first = False
                            raise ZeroDivisionError
                except ZeroDivisionError:
                    continue  # the same records come again
            doubled = [message async for message in bus.consume("doubled", until_end=True)]
            assert numbers(doubled) == [0, 2, 4, 6, 8, 10]
            assert await committed(bus, "doubling") == 6

    run(broker, scenario)


def test_a_function_that_awaits_processes_every_record_once(broker: EmbeddedBroker) -> None:
    async def scenario(bus: aio.Bus) -> None:
        await bus.create_topic("squares")

        async def square(message: Message) -> str:
            await asyncio.sleep(0)
            return str(int(message.value or b"0") ** 2)

        async with filled(bus, "roots", 20):
            done = await bus.process("roots", square, "squares", instance="one", until_end=True)
            assert done.read == 20
            endless = asyncio.create_task(bus.process("roots", square, "squares", instance="one"))
            await bus.send("roots", "7")
            squares = []
            async for message in bus.consume("squares"):
                squares.append(int(message.value or b"-1"))
                if len(squares) == 21:
                    break
            endless.cancel()
            with pytest.raises(asyncio.CancelledError):
                await endless
        assert squares == [number**2 for number in range(20)] + [49]

    run(broker, scenario)


def test_the_example_in_the_docs_runs(broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]) -> None:
    [example, *_] = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert "127.0.0.1:9092" in example
    exec(example.replace("127.0.0.1:9092", broker.bootstrap), {})
    assert b'{"id": 1}'.decode() in capsys.readouterr().out


def test_partitions_are_merged_by_time(broker: EmbeddedBroker) -> None:
    async def scenario(bus: aio.Bus) -> None:
        await bus.create_topic("merged", partitions=3)
        for number in range(30):
            await bus.send("merged", str(number), partition=number % 3, timestamp_ms=1000 + number)
        await bus.flush()
        assert numbers([message async for message in bus.merge("merged")]) == list(range(30))

    run(broker, scenario)


LEFT_OPEN = """
import asyncio
from barnabas import aio

async def main():
    bus = aio.Bus("{bootstrap}")
    await bus.create_topic("left-open")
    for waiting in (bus.queue("left-open", group="left-open-jobs"), bus.consume("left-open", group="left-open")):
        try:
            async with asyncio.timeout(0.5):
                await anext(waiting)
        except TimeoutError:
            print("waited", flush=True)

asyncio.run(main())
"""


def test_a_process_ends_though_nothing_was_closed(broker: EmbeddedBroker) -> None:
    program = LEFT_OPEN.format(bootstrap=broker.bootstrap)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["waited", "waited"]), done.stderr


@pytest.mark.parametrize("ack", ["batched", "sync"])
def test_jobs_go_to_tasks_that_share_a_queue(broker: EmbeddedBroker, ack: aio.AckMode) -> None:
    async def scenario(bus: aio.Bus) -> None:
        topic, done, failed = f"jobs-{ack}", list[int](), set[int]()

        async def work(queue: aio.Queue) -> None:
            async for job in queue:
                try:
                    async with job:
                        number = int(job.value or b"-1")
                        await asyncio.sleep(0)
                        if number % 10 == 0 and number not in failed:
                            failed.add(number)
                            raise ZeroDivisionError
                        done.append(number)
                except ZeroDivisionError:
                    continue

        async with filled(bus, topic, 0), bus.queue(topic, group=f"workers-{ack}", ack=ack, timeout=2) as queue:
            with pytest.raises(TimeoutError):  # the group begins at the end of the topic
                async with asyncio.timeout(1):
                    await anext(queue)
            for number in range(60):
                await bus.send(topic, str(number))
            await bus.flush()
            await asyncio.gather(*(work(queue) for _ in range(4)))
        assert sorted(done) == list(range(60))
        assert failed == {0, 10, 20, 30, 40, 50}

    run(broker, scenario)
