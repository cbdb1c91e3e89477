"""Whole transactions over the edge: what is seen of them, and when."""

import pytest

from barnabas.services.broker import Broker
from barnabas.wire import apis
from tests.unit.edge.kafka.support import ask, create, run
from tests.unit.edge.kafka.transactions.support import (
    GENERATIONS,
    NEW,
    OLD,
    Client,
    fetch_offset,
    read,
    stable_offset,
    state_of,
)

both = pytest.mark.parametrize("generation", GENERATIONS)


@both
def test_what_is_committed_is_seen_whole_in_every_partition(generation: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", 2)
        client = Client(broker, generation=generation)
        assert await client.init() == 0
        for partition in (0, 1):
            assert await client.send("t", b"a", b"b", partition=partition) == 0
        assert [await read(broker, "t", partition=partition) for partition in (0, 1)] == [[], []]
        assert await read(broker, "t", committed=False) == [b"a", b"b"]
        assert await client.end() == 0
        assert [await read(broker, "t", partition=partition) for partition in (0, 1)] == [[b"a", b"b"]] * 2
        assert await state_of(broker) == "CompleteCommit"

    run(scenario)


@both
def test_what_is_aborted_is_never_seen(generation: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        client = Client(broker, generation=generation)
        await client.init()
        for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
            assert await client.send("t", value) == 0
            assert await client.end(commit=commit) == 0
        assert await read(broker, "t") == [b"a", b"c"]
        assert await read(broker, "t", committed=False) == [b"a", b"b", b"c"]

    run(scenario)


@both
def test_an_open_transaction_holds_back_what_others_committed_after_it_began(generation: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        slow, quick = (Client(broker, name, generation=generation) for name in ("slow", "quick"))
        for client in (slow, quick):
            await client.init()
            await client.send("t", client.transactional_id.encode())
        await quick.end()
        assert await read(broker, "t") == []
        assert await stable_offset(broker, "t") == (0, 3)
        await slow.end(commit=False)
        assert await read(broker, "t") == [b"quick"]
        assert await stable_offset(broker, "t") == (4, 4)

    run(scenario)


@both
def test_offsets_count_with_the_transaction_they_are_committed_in(generation: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        client = Client(broker, generation=generation)
        await client.init()
        for offset, commit in ((5, True), (9, False)):
            assert await client.send("t", b"v") == 0
            assert await client.commit_offset("g", "t", offset) == 0
            assert await fetch_offset(broker, "g", "t") == (-1, 88)
            assert await fetch_offset(broker, "g", "t", stable=False) == (-1 if offset == 5 else 5, 0)
            assert await client.end(commit=commit) == 0
            assert await fetch_offset(broker, "g", "t") == (5, 0)

    run(scenario)


def test_offsets_of_a_member_that_is_out_of_step_are_of_another_generation() -> None:
    """The code of consumer groups for it, STALE_MEMBER_EPOCH, is none that a transactional producer knows."""

    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        joining = {"rebalance_timeout": 5000, "subscribed_topic_names": ("t",), "topic_partitions": ()}
        member = {"group_id": "g", "member_id": "m", "member_epoch": 0}
        assert (await ask(broker, apis.CONSUMER_GROUP_HEARTBEAT, 1, **member, **joining)).member_epoch == 1
        client = Client(broker)
        await client.init()
        assert await client.commit_offset("g", "t", 5, generation_id=7, member_id="m") == 22
        assert await client.commit_offset("g", "t", 5, generation_id=1, member_id="m") == 0

    run(scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_a_batch_with_the_numbers_of_an_ended_transaction_is_refused_not_lost(commit: bool) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        client = Client(broker, generation=OLD)
        await client.init()
        assert await client.send("t", b"A") == 0
        assert await client.end(commit=commit) == 0
        client.use_sequences_again()
        assert await client.send("t", b"B") == 45
        assert await client.end(commit=False) == 0
        assert await client.init(producer_id=client.producer_id, producer_epoch=client.epoch) == 0
        assert await client.send("t", b"B") == 0
        assert await client.end() == 0
        assert await read(broker, "t") == ([b"A", b"B"] if commit else [b"B"])

    run(scenario)


def test_the_newer_generation_has_an_epoch_for_each_transaction() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        for generation, epochs in ((NEW, [0, 1, 2, 3]), (OLD, [0, 0, 0, 0])):
            client = Client(broker, f"of {generation}", generation=generation)
            await client.init()
            found = [client.epoch]
            for _ in range(3):
                await client.send("t", b"v")
                await client.end()
                found.append(client.epoch)
            assert found == epochs

    run(scenario)


@both
def test_a_transaction_goes_on_when_a_topic_it_wrote_to_is_deleted(generation: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await create(broker, "gone")
        client = Client(broker, generation=generation)
        await client.init()
        for topic in ("t", "gone"):
            assert await client.send(topic, b"v") == 0
        await broker.topics.delete("gone")
        assert await client.end() == 0
        assert await read(broker, "t") == [b"v"]
        assert await state_of(broker) == "CompleteCommit"

    run(scenario)


def test_an_empty_transaction_can_be_aborted_and_not_committed() -> None:
    async def scenario(broker: Broker) -> None:
        for generation, codes in ((NEW, (48, 0)), (OLD, (48, 48))):
            client = Client(broker, f"of {generation}", generation=generation)
            await client.init()
            assert (await client.end(commit=True), await client.end(commit=False)) == codes

    run(scenario)
