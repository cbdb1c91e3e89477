"""Quotas on a whole node, in virtual time: how many bytes get through, and who is held."""

import asyncio

import pytest

from barnabas.testing.wire_client import WireClient, produce_request
from barnabas.wire.apis import API_VERSIONS, PRODUCE
from barnabas.wire.requests import frame_request
from tests.simulation.quota_support import NAMED, TOPIC, World, batch_of, fetch, produce, simulate

BURST_S = 10
WINDOW_S = 10
THROTTLING_QUOTA_EXCEEDED = 89


def now_s() -> float:
    return asyncio.get_running_loop().time()


def request_size(data: bytes) -> int:
    """Bytes of a produce of one batch, as its frame has them."""
    request = produce_request({TOPIC: {0: data}}, version=NAMED)
    return len(frame_request(PRODUCE.key, NAMED, request, correlation_id=1, client_id="client"))


def in_window(counted: list[tuple[float, int]], begin_s: float) -> int:
    """Bytes in ten seconds."""
    return sum(size for at_s, size in counted if begin_s <= at_s < begin_s + WINDOW_S)


def check_windows(counted: list[tuple[float, int]], limit: int, *, begin_s: float, largest: int) -> None:
    """Each window of ten seconds after the burst has the limit, within a tenth, or one request."""
    last_s = counted[-1][0]
    begins_s = [begin_s + 2 * number for number in range(int((last_s - begin_s - WINDOW_S) / 2))]
    assert begins_s
    for each in begins_s:
        assert in_window(counted, each) == pytest.approx(limit * WINDOW_S, abs=max(limit, 1.01 * largest))


@pytest.mark.parametrize(
    ("limit", "size"), [(2_000, 300), (20_000, 2_000), (20_000, 15_000), (1_000_000, 100_000)], ids=str
)
def test_a_producer_that_does_not_wait_is_held_to_its_byte_rate(limit: int, size: int) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.set_quota("producer_byte_rate", limit, client_id="client")
        client = await world.connect()
        data, counted = batch_of(size), []
        begin_s = now_s()
        while now_s() < begin_s + 60:
            answer = await produce(client, data)
            counted.append((now_s(), request_size(data)))
            assert int(answer.responses[0].partition_responses[0].error_code) == 0
        check_windows(counted, limit, begin_s=begin_s + BURST_S + 1, largest=size)
        whole_s = counted[-1][0] - begin_s
        assert sum(each for _, each in counted) == pytest.approx(limit * (whole_s + BURST_S), rel=0.1)
        assert world.broker.quotas.throttled["producer"] > 0

    simulate(scenario)


def test_pipelined_produces_are_held_as_well() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.set_quota("producer_byte_rate", 10_000, client_id="client")
        client = await world.connect()
        data, begin_s = batch_of(1_000), now_s()
        counted: list[tuple[float, int]] = []

        async def one(answer: "asyncio.Future[object]") -> None:
            await answer
            counted.append((now_s(), len(data)))

        request = produce_request({TOPIC: {0: data}}, version=NAMED, acks=1)
        await asyncio.gather(*(one(client.send(PRODUCE, NAMED, request)) for _ in range(500)))
        check_windows(counted, 10_000, begin_s=begin_s + BURST_S + 1, largest=len(data))

    simulate(scenario)


@pytest.mark.parametrize("acks", [0, 1])
def test_a_request_far_larger_than_a_window_is_waited_for(acks: int) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.set_quota("producer_byte_rate", 1_000, client_id="client")
        client = await world.connect()
        data = batch_of(50_000)
        begin_s = now_s()
        for number in range(6):
            request = produce_request({TOPIC: {0: data}}, version=NAMED, acks=acks)
            await client.send(PRODUCE, NAMED, request, is_answered=acks != 0)
            await client.ask(API_VERSIONS, 0, {}, timeout_s=1e6)  # is taken when it is no longer held
            used_s = (number + 1) * request_size(data) / 1_000
            assert now_s() - begin_s == pytest.approx(used_s - BURST_S, rel=0.02)

    simulate(scenario, connections_max_idle_ms="10000000")


def test_an_answer_tells_the_time_and_comes_at_once() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.set_quota("producer_byte_rate", 1_000, client_id="client")
        client = await world.connect()
        begin_s = now_s()
        answer = await produce(client, batch_of(15_000))
        assert now_s() - begin_s < 1
        told_s = answer.throttle_time.total_seconds()
        assert told_s == pytest.approx(5, abs=0.2)
        answer = await produce(client, batch_of(100))
        assert now_s() - begin_s == pytest.approx(told_s, abs=0.1)
        assert answer.throttle_time.total_seconds() < 1

    simulate(scenario)


def test_clients_of_one_id_share_a_quota_and_others_are_left_alone() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.set_quota("producer_byte_rate", 10_000, client_id="busy")
        counted: list[tuple[float, int]] = []
        data, begin_s = batch_of(1_000), now_s()

        async def busy() -> None:
            client = await world.connect("busy")
            while now_s() < begin_s + 40:
                await produce(client, data)
                counted.append((now_s(), len(data)))

        async def calm() -> int:
            client, count = await world.connect("calm"), 0
            while now_s() < begin_s + 40:
                answer = await produce(client, data)
                assert answer.throttle_time.total_seconds() == 0
                count += len(data)
                await asyncio.sleep(0.01)
            return count

        *_, of_calm = await asyncio.gather(busy(), busy(), busy(), calm())
        check_windows(sorted(counted), 10_000, begin_s=begin_s + BURST_S + 1, largest=3 * len(data))
        assert of_calm > 2 * 10_000 * 40

    simulate(scenario)


@pytest.mark.parametrize(("limit", "size"), [(5_000, 1_000), (100_000, 30_000)], ids=str)
def test_a_consumer_is_held_to_its_byte_rate_and_misses_nothing(limit: int, size: int) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        data = batch_of(size)
        writer = await world.connect("writer")
        for _ in range(limit * 60 // size):
            await produce(writer, data)
        await world.set_quota("consumer_byte_rate", limit, client_id="client")
        client, counted, offset = await world.connect(), [], 0
        begin_s = now_s()
        while now_s() < begin_s + 40:
            answer = await fetch(client, offset)
            records = answer.responses[0].partitions[0].records if answer.responses else None
            if records:
                assert int.from_bytes(records[:8]) == offset
                counted.append((now_s(), len(records)))
                offset += len(records) // len(data)
            else:
                assert answer.throttle_time.total_seconds() > 0  # what is throttled is empty
        check_windows(counted, limit, begin_s=begin_s + BURST_S + 1, largest=0)
        whole_s = counted[-1][0] - begin_s
        assert sum(each for _, each in counted) == pytest.approx(limit * (whole_s + BURST_S), rel=0.1)
        assert world.broker.quotas.throttled["consumer"] > 0

    simulate(scenario)


def test_a_batch_larger_than_the_quota_of_a_whole_window_still_reaches_its_consumer() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        writer = await world.connect("writer")
        for _ in range(3):
            await produce(writer, batch_of(30_000))
        await world.set_quota("consumer_byte_rate", 1_000, client_id="client")
        client, offset, begin_s = await world.connect(), 0, now_s()
        while offset < 3:
            answer = await fetch(client, offset)
            offset += bool(answer.responses and answer.responses[0].partitions[0].records)
        assert now_s() - begin_s == pytest.approx(60, abs=12)

    simulate(scenario)


def test_a_quota_that_is_removed_holds_nobody_any_more() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.set_quota("producer_byte_rate", 1_000, client_id=None)
        client = await world.connect()
        assert (await produce(client, batch_of(20_000))).throttle_time.total_seconds() > 5
        await asyncio.sleep(11)
        await world.set_quota("producer_byte_rate", None, client_id=None)
        assert not world.broker.quotas.is_on
        begin_s = now_s()
        for _ in range(5):
            assert (await produce(client, batch_of(20_000))).throttle_time.total_seconds() == 0
        assert now_s() - begin_s < 1

    simulate(scenario)


def test_changes_over_the_quota_are_refused_and_older_clients_are_only_held() -> None:
    async def scenario(world: World) -> None:
        await world.set_quota("controller_mutation_rate", 1, client_id="client")
        client = await world.connect()

        async def create(name: str, version: int) -> tuple[int, float]:
            answer = await world.ask_to_create(client, name, 20, version=version)
            return int(answer.topics[0].error_code), answer.throttle_time.total_seconds()

        assert await create("one", 7) == (0, 0)  # more than there is: allowed once
        code, wait_s = await create("two", 7)
        assert code == THROTTLING_QUOTA_EXCEEDED
        assert wait_s == pytest.approx(9, abs=0.5)
        assert (await create("two", 7))[0] == 0  # it was held until then
        code, wait_s = await create("three", 5)
        assert code == 0
        assert wait_s == pytest.approx(2 * 20, abs=0.5)
        assert world.broker.quotas.throttled["mutation"] >= 2

    simulate(scenario)


def test_connections_that_come_too_fast_are_held_and_closed() -> None:
    async def scenario(world: World) -> None:
        await world.set_quota("connection_creation_rate", 2, ip=None)
        clients = [await world.connect() for _ in range(40)]

        async def is_served(client: WireClient) -> bool:
            try:
                await client.ask(API_VERSIONS, 0, {})
            except ConnectionError:
                return False
            return True

        begin_s = now_s()
        served = await asyncio.gather(*(is_served(client) for client in clients))
        assert sum(served) == 2 * BURST_S
        assert now_s() - begin_s <= 1.1
        await asyncio.sleep(5)
        again = [await world.connect() for _ in range(20)]
        assert sum(await asyncio.gather(*(is_served(client) for client in again))) == pytest.approx(10, abs=2)
        assert world.broker.quotas.throttled["connection"] >= 20

    simulate(scenario)
