"""Who may write in a transaction and end it: not whoever was replaced, nor anybody too late."""

import pytest

from barnabas.services.broker import Broker
from tests.unit.edge.kafka.support import create, run
from tests.unit.edge.kafka.transactions.support import GENERATIONS, NEW, OLD, Client, fetch_offset, read

both = pytest.mark.parametrize("generation", GENERATIONS)
FENCED, INVALID_EPOCH, INVALID_STATE, WRONG_ID, CONCURRENT = 90, 47, 48, 49, 51


@both
def test_whoever_takes_over_an_id_aborts_what_was_open_and_fences_its_producer(generation: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        zombie, successor = Client(broker, generation=generation), Client(broker, generation=generation)
        await zombie.init()
        assert await zombie.send("t", b"zombie") == 0
        assert await zombie.commit_offset("g", "t", 7) == 0
        assert await successor.init() == 0
        assert successor.producer_id == zombie.producer_id
        assert await zombie.send("t", b"more") in (FENCED, INVALID_EPOCH)
        assert await zombie.commit_offset("g", "t", 8) in (FENCED, INVALID_EPOCH)
        assert await zombie.end() == FENCED
        assert await successor.send("t", b"successor") == 0
        assert await zombie.end() == FENCED
        assert await successor.end() == 0
        assert await read(broker, "t") == [b"successor"]
        assert await fetch_offset(broker, "g", "t") == (-1, 0)

    run(scenario)


def test_a_late_end_does_not_end_the_next_transaction() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        client = Client(broker, generation=NEW)
        await client.init()
        await client.send("t", b"a")
        late = client.who
        assert await client.end(commit=True) == 0
        assert await client.send("t", b"b") == 0
        assert await client.end(commit=True, **late) == FENCED
        assert await read(broker, "t") == [b"a"]
        assert await client.end(commit=False) == 0
        assert await read(broker, "t") == [b"a"]

    run(scenario)


@both
def test_a_repeated_end_is_told_what_the_first_was(generation: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        client = Client(broker, generation=generation)
        await client.init()
        await client.send("t", b"a")
        again = client.who
        assert await client.end(commit=True) == 0
        assert await client.end(commit=True, **again) == 0
        assert await client.end(commit=False, **again) == INVALID_STATE

    run(scenario)


@both
def test_a_produce_that_comes_after_the_end_opens_nothing(generation: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        client = Client(broker, generation=generation)
        await client.init()
        await client.send("t", b"a")
        late = Client(broker, generation=NEW)  # does not announce what it is about to write to
        late.producer_id, late.epoch = client.producer_id, client.epoch
        late._sequences = dict(client._sequences)
        late.is_new = generation == NEW
        await client.end()
        if generation == OLD:
            late.add = _nothing_added  # type: ignore[method-assign, assignment]
        assert await late.send("t", b"late") != 0
        assert await read(broker, "t") == [b"a"]

    run(scenario)


async def _nothing_added(_topic: str, *partitions: int) -> list[int]:
    return [0] * len(partitions)


def test_the_wrong_producer_of_an_id_is_told_so() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        client = Client(broker, generation=OLD)
        await client.init()
        client.producer_id += 1
        assert await client.add("t", 0) == [WRONG_ID]
        assert await client.end() == WRONG_ID
        nobody = Client(broker, "nobody", generation=OLD)
        nobody.producer_id = nobody.epoch = 0
        assert await nobody.add("t", 0) == [WRONG_ID]
        assert await nobody.end() == WRONG_ID

    run(scenario)


@both
def test_a_producer_recovers_by_naming_its_id_and_epoch(generation: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        client = Client(broker, generation=generation)
        await client.init()
        await client.send("t", b"given up")
        named = {"producer_id": client.producer_id, "producer_epoch": client.epoch}
        assert await client.init(**named) == 0
        assert client.producer_id == named["producer_id"]
        assert client.epoch > named["producer_epoch"]
        epoch = client.epoch
        assert await client.init(**named) == 0  # its answer was lost
        assert client.epoch == epoch
        assert await client.send("t", b"b") == 0
        assert await client.end() == 0
        assert await read(broker, "t") == [b"b"]

    run(scenario)


def test_a_timeout_that_is_too_long_is_refused() -> None:
    async def scenario(broker: Broker) -> None:
        client = Client(broker)
        assert await client.init(timeout_ms=900_001) == 50
        assert await client.init(timeout_ms=0) == 50
        assert await client.init(timeout_ms=900_000) == 0

    run(scenario)
