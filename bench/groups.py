"""Consumer groups: how soon they are stable, commits a second, replay after a restart, and reading together.

Members are bare connections that say what a client says and do nothing else, so that the coordinator is measured and
not a hundred clients. The broker waits for no latecomers (`group.initial.rebalance.delay.ms=0`).
"""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from barnabas.core.groups.encoding import encode_key, encode_value
from barnabas.core.groups.records import OffsetRecord
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.disk import OsDisk
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.wire_client import WireClient
from barnabas.wire.apis import (
    CONSUMER_GROUP_HEARTBEAT,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from bench.measure import Row, rate, scratch_directory
from bench.served import Served, served

COORDINATOR_NOT_AVAILABLE, LOADING = 15, 14
NO_DELAY = "group.initial.rebalance.delay.ms=0"
TOPIC, PARTITIONS = "read", 200
ROUNDS = 3


def rows(*, quick: bool) -> Iterator[Row]:
    with served(NO_DELAY, f"num.partitions={PARTITIONS}") as broker:
        for members in (2, 10) if quick else (2, 10, 100):
            for name, settle in (("classic", _settle_classic), ("KIP-848", _settle_consumer)):
                took = statistics.median(
                    asyncio.run(_timed(broker, members, f"{name}-{members}-{number}", settle))
                    for number in range(ROUNDS)
                )
                yield Row(f"a group of {members} is stable, {name}", f"{took * 1000:,.0f} ms")
        count = 2_000 if quick else 20_000
        took = statistics.median(asyncio.run(commit_many(broker, count)) for _ in range(ROUNDS))
        yield Row("commits of one offset, 16 connections, on disk", rate(count / took, "commits/s"))
    yield _replay_row(20_000 if quick else 1_000_000)
    yield _together_row(100_000 if quick else 2_000_000)


# How soon a group is stable

Settle = Callable[[list[WireClient], str, UUID], Awaitable[None]]


async def _timed(broker: Served, members: int, group: str, settle: Settle) -> float:
    host, _, port = broker.bootstrap.rpartition(":")
    clients = [await WireClient.connect(host, int(port)) for _ in range(members)]
    asked = {
        "topics": [{"name": TOPIC, "topic_id": None}],
        "allow_auto_topic_creation": True,
        "include_topic_authorized_operations": False,
    }
    topic = await clients[0].ask(METADATA, 12, asked)
    await clients[0].ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [group]})
    start = time.perf_counter()
    await settle(clients, group, topic.topics[0].topic_id)
    took = time.perf_counter() - start
    for client in clients:
        client.close()
    return took


async def _settle_classic(clients: list[WireClient], group: str, _: UUID) -> None:
    """All members are in one generation, and each has its assignment."""
    generations = dict.fromkeys(range(len(clients)), -1)

    async def member(number: int) -> None:
        member_id = ""
        while len(set(generations.values())) > 1 or generations[number] < 0:
            joined = await _join(clients[number], group, member_id)
            member_id = joined.member_id
            if joined.error_code:
                continue
            assignments = [{"member_id": each.member_id, "assignment": b"x"} for each in joined.members]
            synced = await clients[number].ask(
                SYNC_GROUP,
                5,
                {
                    "group_id": group,
                    "generation_id": joined.generation_id,
                    "member_id": member_id,
                    "protocol_type": "consumer",
                    "protocol_name": "range",
                    "assignments": assignments,
                },
            )
            if synced.error_code == 0:
                generations[number] = joined.generation_id
                await _stay(clients[number], group, joined.generation_id, member_id, generations)

    await asyncio.gather(*map(member, range(len(clients))))


async def _stay(client: WireClient, group: str, generation: int, member_id: str, generations: dict[int, int]) -> None:
    """Heartbeat until everybody is in this generation, or it is time to join the next."""
    values = {"group_id": group, "generation_id": generation, "member_id": member_id}
    while set(generations.values()) != {generation}:
        if (await client.ask(HEARTBEAT, 4, values)).error_code:
            return
        await asyncio.sleep(0.002)


async def _join(client: WireClient, group: str, member_id: str) -> Any:
    return await client.ask(
        JOIN_GROUP,
        9,
        {
            "group_id": group,
            "session_timeout": 45_000,
            "rebalance_timeout": 60_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x01\x00\x04read\xff\xff\xff\xff"}],
        },
        timeout_s=90,
    )


async def _settle_consumer(clients: list[WireClient], group: str, topic_id: UUID) -> None:
    """Each member has its share of the partitions. Members heartbeat as fast as they are answered."""
    owned: dict[int, set[int]] = {number: set() for number in range(len(clients))}
    share = PARTITIONS // len(clients)

    async def member(number: int) -> None:
        values: dict[str, Any] = {
            "group_id": group,
            "member_id": f"member-{number}",
            "member_epoch": 0,
            "rebalance_timeout": 60_000,
            "subscribed_topic_names": [TOPIC],
            "topic_partitions": [],
        }
        while any(len(each) not in (share, share + 1) for each in owned.values()):
            answer = await clients[number].ask(CONSUMER_GROUP_HEARTBEAT, 1, values)
            assert answer.error_code == 0, answer
            values["member_epoch"] = answer.member_epoch
            if answer.assignment is not None:
                parts = answer.assignment.topic_partitions
                owned[number] = {partition for part in parts for partition in part.partitions}
                values["topic_partitions"] = [{"topic_id": topic_id, "partitions": sorted(owned[number])}]
            await asyncio.sleep(0.001)

    await asyncio.gather(*map(member, range(len(clients))))


# Commits


async def commit_many(broker: Served, count: int) -> float:
    host, _, port = broker.bootstrap.rpartition(":")
    clients = [await WireClient.connect(host, int(port)) for _ in range(16)]
    await clients[0].ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [f"commits-{n}" for n in range(16)]})

    async def commit(number: int) -> None:
        for offset in range(count // len(clients)):
            topics = [
                {
                    "name": TOPIC,
                    "partitions": [{"partition_index": number, "committed_offset": offset, "committed_metadata": None}],
                }
            ]
            values = {
                "group_id": f"commits-{number}",
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "topics": topics,
            }
            answer = await clients[number].ask(OFFSET_COMMIT, 8, values)
            assert answer.topics[0].partitions[0].error_code == 0, answer

    start = time.perf_counter()
    await asyncio.gather(*map(commit, range(len(clients))))
    took = time.perf_counter() - start
    for client in clients:
        client.close()
    return took


# Replay


def _replay_row(count: int) -> Row:
    """A broker is started on a partition of commits; what is asked of one of its groups waits for the replay."""
    with scratch_directory() as scratch:
        directory = scratch / "data"
        with served("offsets.topic.num.partitions=1", directory=directory) as broker:
            asyncio.run(_find(broker))
        _fill(directory, count)
        with served("offsets.topic.num.partitions=1", directory=directory) as broker:
            took = asyncio.run(_wait_loaded(broker))
            ready = broker.ready_after_s
    return Row(f"replay of {count:,} commits of 1,000 groups", f"{took:.1f} s", f"ready to serve after {ready:.1f} s")


async def _find(broker: Served) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    client = await WireClient.connect(host, int(port))
    await client.ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["group-1"]})
    client.close()


def _fill(directory: Path, count: int) -> None:
    data_dir = DataDir(OsDisk(), str(directory))
    config = LogConfig(max_message_bytes=2**24)
    for _ in data_dir.open_logs(lambda _: config):
        pass
    log = data_dir.create_log(TopicPartition("__consumer_offsets", 0), config)
    epoch = max(log.epochs.latest, 0)
    for first in range(0, count, 1000):
        entries = [OffsetRecord(f"group-{n % 1000}", TOPIC, n % 7, n) for n in range(first, first + 1000)]
        batch = encode_batch([Record(n, 1, encode_key(each), encode_value(each)) for n, each in enumerate(entries)])
        log.append(batch, leader_epoch=epoch, now_ms=1)
    data_dir.close()


async def _wait_loaded(broker: Served) -> float:
    host, _, port = broker.bootstrap.rpartition(":")
    client = await WireClient.connect(host, int(port))
    start = time.perf_counter()
    values = {"groups": [{"group_id": "group-1", "topics": None}], "require_stable": False}
    while True:
        answer = await client.ask(OFFSET_FETCH, 8, values, timeout_s=120)
        if answer.groups[0].error_code == 0:
            assert answer.groups[0].topics
            client.close()
            return time.perf_counter() - start
        assert answer.groups[0].error_code in (LOADING, COORDINATOR_NOT_AVAILABLE), answer


# Reading together

_READER = """
import sys, time
from confluent_kafka import Consumer
bootstrap, group, total = sys.argv[1], sys.argv[2], int(sys.argv[3])
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                     "enable.auto.commit": False, "fetch.queue.backoff.ms": 5})
consumer.subscribe(["together"])
seen, first, last = 0, None, None
deadline = time.time() + 60
while time.time() < deadline:
    messages = consumer.consume(5000, 0.2)
    if messages:
        first = first or time.time()
        last = time.time()
        seen += len(messages)
    elif last and time.time() - last > 2:
        break
consumer.close()
print(seen, first, last)
"""


def _together_row(count: int) -> Row:
    from confluent_kafka import Producer  # noqa: PLC0415 - slow to load

    with served(NO_DELAY, "num.partitions=4", "log.flush.policy=os") as broker:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 10**6}
        )
        for number in range(count):
            producer.produce("together", bytes(100), partition=number % 4)
            if number % 10_000 == 0:
                producer.poll(0)
        assert producer.flush(120) == 0
        alone = _read(broker, "one", 1, count)
        together = _read(broker, "four", 4, count)
    return Row(
        "a group of 4 reads 100 B records, 4 partitions",
        rate(together, "records/s"),
        f"one consumer {rate(alone, 'records/s')}",
        together / alone,
    )


def _read(broker: Served, group: str, members: int, count: int) -> float:
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", _READER, broker.bootstrap, group, str(count)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(members)
    ]
    lines = [reader.communicate()[0].split() for reader in readers]
    seen = [line for line in lines if line[0] != "0"]
    total = sum(int(line[0]) for line in seen)
    assert total >= count, f"{total} of {count} records were read"
    return total / (max(float(line[2]) for line in seen) - min(float(line[1]) for line in seen))
