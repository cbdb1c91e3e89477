"""Attacks by clients that are merely greedy: large fetches, joins without end, the largest requests there are, and
records above a quota.
"""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from barnabas.core.records.record import Record, encode_batch
from barnabas.testing.wire_client import WireClient, encode_request, fetch_request, metadata_request, produce_request
from barnabas.wire.apis import ALTER_CLIENT_QUOTAS, FETCH, JOIN_GROUP, LIST_OFFSETS, METADATA, PRODUCE
from bench.attack import Attack, Run, connect, repeating, skip_answer
from bench.served import Served

FILLED: Final = "filled"
FILLED_BATCHES, BATCH_BYTES = 64, 900_000
ELEMENTS: Final = 90_000  # of 100,000 on a request is refused unread
MEMBERS: Final = 20
NAMED: Final = 12
Values = Mapping[str, Any]


def _fill(broker: Served) -> None:
    """A topic with some tens of megabytes."""

    async def fill() -> None:
        host, _, port = broker.bootstrap.rpartition(":")
        client = await WireClient.connect(host, int(port))
        await client.ask(METADATA, 12, {**metadata_request([FILLED]), "allow_auto_topic_creation": True})
        batch = bytes(encode_batch([Record(0, 0, None, bytes(BATCH_BYTES))]))
        for _ in range(FILLED_BATCHES):
            await client.ask(PRODUCE, NAMED, produce_request({FILLED: {0: batch}}, version=NAMED, acks=1))
        client.close()

    asyncio.run(fill())


def _fetch_all() -> bytes:
    most = FILLED_BATCHES * BATCH_BYTES
    wanted = fetch_request({FILLED: {0: 0}}, version=NAMED, max_bytes=most, partition_max_bytes=most)
    return encode_request(FETCH, NAMED, wanted)


def _list_many() -> bytes:
    partitions = [
        {"partition_index": number, "timestamp": -1, "current_leader_epoch": -1} for number in range(ELEMENTS)
    ]
    values: Values = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": "healthy", "partitions": partitions}],
    }
    return encode_request(LIST_OFFSETS, 6, values)


def _join(number: int) -> bytes:
    values: Values = {
        "group_id": f"storm-{number % 10}",
        "session_timeout": 6_000,
        "rebalance_timeout": 6_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": bytes(1_000)}],
        "reason": None,
    }
    return encode_request(JOIN_GROUP, 9, values)


def _join_without_end(broker: Served, has_begun: threading.Event, is_over: threading.Event) -> None:
    """Very many members join, over and over, each as a new one."""
    with ExitStack() as open_ones:
        members = [(open_ones.enter_context(connect(broker)), _join(number)) for number in range(MEMBERS)]
        for each, _ in members:
            each.settimeout(0.2)
        has_begun.set()
        while not is_over.is_set():
            for each, frame in members:
                each.sendall(frame)
            for each, _ in members:
                if not skip_answer(each, is_over):
                    return


def _limit(broker: Served) -> None:
    """A quota for the client that floods; the healthy one has none."""

    async def limit() -> None:
        host, _, port = broker.bootstrap.rpartition(":")
        client = await WireClient.connect(host, int(port))
        entity = [{"entity_type": "client-id", "entity_name": "flood"}]
        ops = [{"key": "producer_byte_rate", "value": 1_000_000.0, "remove": False}]
        await client.ask(ALTER_CLIENT_QUOTAS, 1, {"entries": [{"entity": entity, "ops": ops}], "validate_only": False})
        client.close()

    _fill(broker)
    asyncio.run(limit())


def _flood() -> Run:
    """Send as much as the socket takes, whatever is answered."""

    def run(broker: Served, has_begun: threading.Event, is_over: threading.Event) -> None:
        batch = bytes(encode_batch([Record(0, 0, None, bytes(100_000))]))
        request = produce_request({FILLED: {0: batch}}, version=NAMED, acks=0)
        frame = encode_request(PRODUCE, NAMED, request, client_id="flood")
        with connect(broker) as connection:
            connection.settimeout(0.2)
            has_begun.set()
            left = memoryview(frame)
            while not is_over.is_set():
                try:
                    left = left[connection.send(left) :] or memoryview(frame)
                except TimeoutError:
                    continue

    return run


GREEDY_CLIENTS: Final[Sequence[Attack]] = (
    Attack("fairness: fetches of 58 MB", repeating(_fetch_all), _fill),
    Attack(f"fairness: {MEMBERS} members join, over and over", _join_without_end),
    Attack(f"fairness: ListOffsets of {ELEMENTS:,} partitions", repeating(_list_many)),
    Attack("fairness: a flood of produces above a quota", _flood(), _limit),
)
"""Each is served along with the others: a small client waits at most three times as long as alone."""
