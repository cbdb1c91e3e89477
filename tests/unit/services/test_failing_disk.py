"""A whole node on a disk that fails or fills up: what its clients hear, and what its log says."""

import asyncio
import errno
import logging

import pytest

from barnabas.core.records.record import Record, encode_batch
from barnabas.testing.simulation import EPOCH_MS
from barnabas.testing.wire_client import fetch_request, produce_request
from barnabas.wire.apis import FETCH, PRODUCE
from tests.unit.services.group_world import HOST, GroupClient, GroupWorld, run_world

STORAGE_ERROR = 56  # which stock producers retry
A_WHILE_S = 300


async def produce(client: GroupClient, value: bytes) -> int:
    batch = bytes(encode_batch([Record(0, EPOCH_MS, None, value)]))
    answer = await client.wire.ask(PRODUCE, 12, produce_request({"t": {0: batch}}, version=12))
    return int(answer.responses[0].partition_responses[0].error_code)


async def is_readable(client: GroupClient, value: bytes) -> bool:
    answer = await client.wire.ask(FETCH, 12, fetch_request({"t": {0: 0}}, version=12))
    (found,) = answer.responses[0].partitions
    return int(found.error_code) == 0 and value in bytes(found.records or b"")


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_disk_that_fails_is_one_error_with_a_remedy_and_what_was_written_is_read_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: GroupWorld) -> None:
        client = await world.connect()
        await client.create_topic("t")
        assert await produce(client, b"written") == 0
        world.simulation.disk(HOST).fail_sync(lambda path: "/t-0/" in path)

        assert [await produce(client, b"lost") for _ in range(3)] == [STORAGE_ERROR] * 3

        await asyncio.sleep(A_WHILE_S)
        assert await is_readable(client, b"written")
        assert not await is_readable(client, b"lost")
        (line,) = errors(caplog)
        assert all(text in line for text in ("/data is taken offline", "Input/output error", "start the node again"))

        await world.restart(how="kill")
        client = await world.connect()
        assert await is_readable(client, b"written")
        assert await produce(client, b"taken") == 0

    run_world(scenario)


def test_a_full_disk_refuses_writes_until_there_is_room_and_its_reserve_takes_commits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: GroupWorld) -> None:
        client, disk = await world.connect(), world.simulation.disk(HOST)
        await client.create_topic("t")
        assert await produce(client, b"written") == 0
        disk.room = 1000  # which the reserve is larger than
        await asyncio.sleep(A_WHILE_S)

        assert [await produce(client, b"refused") for _ in range(3)] == [STORAGE_ERROR] * 3
        assert await client.commit(1) == 0
        assert await is_readable(client, b"written")

        disk.room = 2**40
        await asyncio.sleep(A_WHILE_S)
        assert await produce(client, b"taken") == 0
        (line,) = errors(caplog)
        assert "/data is full" in line

    run_world(scenario)


def test_a_write_that_finds_the_disk_full_is_refused_and_taken_when_it_is_sent_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: GroupWorld) -> None:
        client, disk = await world.connect(), world.simulation.disk(HOST)
        await client.create_topic("t")
        assert await produce(client, b"written") == 0
        disk.fail_write(lambda path: "/t-0/" in path, error=errno.ENOSPC)

        assert await produce(client, b"again") == STORAGE_ERROR
        assert await is_readable(client, b"written")
        await asyncio.sleep(A_WHILE_S)
        assert await produce(client, b"again") == 0
        assert await is_readable(client, b"again")
        (line,) = errors(caplog)
        assert "/data is full" in line

    run_world(scenario)


def test_a_bit_that_flips_far_below_the_end_is_found_though_nobody_reads_it(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: GroupWorld) -> None:
        client, disk = await world.connect(), world.simulation.disk(HOST)
        await client.create_topic("t")
        for number in range(5):
            assert await produce(client, b"value-%d" % number) == 0
        await world.stop()
        disk.restart()
        disk.flip_bit("/data/t-0/00000000000000000000.log", 70, 3)  # in the first batch; a start looks at the last

        await world.start()
        await asyncio.sleep(A_WHILE_S)

        (line,) = errors(caplog)
        assert "t-0 is damaged from offset 0 on" in line
        assert "barnabas topic repair t --data-dir " in line

    run_world(scenario)
