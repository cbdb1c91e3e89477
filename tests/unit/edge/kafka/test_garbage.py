"""No request leaves cycles of objects behind: what it took is free when it is answered, and nobody has to look for it.

Looking for garbage holds the loop, and is seldom done (`runtime.garbage`).
"""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from kio.index import load_request_schema

from barnabas.services.broker import Broker
from barnabas.wire.apis import APIS
from tests.unit.edge.kafka.calling import Caller, frame_of
from tests.unit.edge.kafka.support import build, create, run
from tests.unit.edge.kafka.test_long_requests import MANY, NAMES, NUMBERS, REQUESTS, TOPIC
from tests.unit.wire.kio_values import encode

MAX_GARBAGE = MANY // 2
"""Objects. What is left for each partition or name would be more."""


ALSO: dict[str, tuple[int, int, dict[str, Any]]] = {
    "Produce": (
        0,
        9,
        {"acks": 1, "topic_data": [{"name": TOPIC, "partition_data": [{"index": n, "records": b""} for n in NUMBERS]}]},
    ),
    "Produce of unknown topics": (
        0,
        9,
        {"acks": 1, "topic_data": [{"name": n, "partition_data": [{"index": 0, "records": b""}]} for n in NAMES]},
    ),
    "LeaveGroup of fewer": (13, 5, {"group_id": "g", "members": [{"member_id": name} for name in NAMES]}),
}


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", [*REQUESTS, *ALSO])
def test_a_request_leaves_no_garbage(name: str) -> None:
    key, version, values = (REQUESTS | ALSO)[name]

    async def scenario(broker: Broker) -> None:
        await create(broker, TOPIC, 20)  # so that most of the partitions are not there
        caller = Caller(broker)
        frame = frame_of(APIS[key], version, encode(build(load_request_schema(key, version), values)))
        await caller.send(frame).bytes()
        gc.collect()

        await caller.send(frame).bytes()

        assert gc.collect() < MAX_GARBAGE

    run(scenario)
