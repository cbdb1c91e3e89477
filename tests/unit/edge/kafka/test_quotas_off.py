"""Without quotas the paths of the data do nothing for them but look whether there are any."""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from kio.index import load_request_schema

from barnabas.services.broker import Broker
from barnabas.wire.apis import FETCH, PRODUCE
from tests.unit.edge.kafka.calling import NAMED, Caller, batch, frame_of
from tests.unit.edge.kafka.support import build, config_of, create, run
from tests.unit.wire.kio_values import encode


def called_files(do: Callable[[], object]) -> list[str]:
    """The files of all functions that are called."""
    files: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            files.append(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(None)
    return files


def test_neither_a_produce_nor_a_fetch_calls_anything_for_quotas() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "orders")
        client = Caller(broker).client
        produced = [{"index": 0, "records": batch(b"v")}]
        fetched = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
        requests = [
            (PRODUCE, {"acks": 1, "topic_data": [{"name": "orders", "partition_data": produced}]}),
            (FETCH, {"session_epoch": -1, "max_bytes": 1000, "topics": [{"topic": "orders", "partitions": fetched}]}),
        ]
        for api, values in requests:
            frame = frame_of(api, NAMED, encode(build(load_request_schema(api.key, NAMED), values)))
            files = called_files(partial(client.handle, memoryview(bytearray(frame))))
            assert len(files) > 10
            assert not [name for name in files if "quota" in name.rpartition("/")[2] and "test_" not in name]

    run(scenario, config_of(log_flush_policy="os"))
