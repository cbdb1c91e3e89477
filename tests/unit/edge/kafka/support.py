"""A broker without a socket, and a client that asks it in any version.

`serving` builds a broker as `node.Node` does. `ask` builds a request with kio, sends it through the bytes of its
version, has the handler answer, and reads the answer's bytes with kio again, so that every question also checks that
the answer can be written in that version. It refuses an answer with a field that no version has: a typing error.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from functools import cache
from io import BytesIO
from typing import Any, get_args

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from barnabas.core.metadata.records import Endpoint
from barnabas.core.metadata.topics import NewTopic
from barnabas.core.records.record import Record, encode_batch
from barnabas.edge.kafka.asked import Asked
from barnabas.node import Node, Ports
from barnabas.runtime.descriptors import MOST_FILES
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.logs import Logs
from barnabas.runtime.offload import Threads
from barnabas.services.broker import Broker
from barnabas.services.formation import open_data_dir
from barnabas.services.session import Session
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.storage.disk import Disk
from barnabas.testing.dice import SimulatedDice, derive_random
from barnabas.testing.disk import SimulatedDisk
from barnabas.testing.loop import SimulatedLoop
from barnabas.wire.apis import Api
from barnabas.wire.frame import RequestHeader
from barnabas.wire.own_fields import OWN_FIELDS, with_own_fields
from barnabas.wire.requests import read_request
from barnabas.wire.responses import write_response
from tests.support.ports import NOW_MS, FixedClock, InPlace
from tests.support.served import HANDLERS, versions_of

NODE_ID = 1
ENDPOINTS = [Endpoint("PLAINTEXT", "broker.test", 9092), Endpoint("OUTSIDE", "outside.test", 9192)]


def config_of(**settings: str) -> BrokerConfig:
    """A broker's configuration; underscores stand for the dots of names."""
    return BrokerConfig.from_properties({name.replace("_", "."): text for name, text in settings.items()})


@asynccontextmanager
async def serving(
    config: BrokerConfig | None = None, *, disk: Disk | None = None, path: str = "/data"
) -> AsyncIterator[Broker]:
    """A broker that serves until the block ends."""
    chosen = config or BrokerConfig()
    config = BrokerConfig.from_properties(
        {"broker.rack": "a", **chosen.given, "log.dirs": path, "node.id": str(NODE_ID)}
    )
    ports = Ports(
        disk or SimulatedDisk(1), FixedClock(), SimulatedDice(derive_random(1, "dice")), Threads.in_one(InPlace())
    )
    node = Node(config, ports)
    data_dir, meta = open_data_dir(ports.disk, config, ports.dice, max_open_files=MOST_FILES)
    logs = Logs(data_dir)
    logs.flusher = Flusher(ports.threads.syncs, listener=logs)
    async with asyncio.TaskGroup() as tasks:
        metadata = node._open_metadata(data_dir, meta)
        broker = node._build(metadata, logs)
        await metadata.start(tasks)
        broker.served.start(tasks)
        await node._join(broker, ENDPOINTS, data_dir)
        broker.groups.start(tasks)
        broker.transactions.start(tasks)
        broker.shares.start(tasks)
        flushing = tasks.create_task(logs.flusher.run())
        yield broker
        broker.groups.close()
        broker.transactions.close()
        broker.shares.close()
        await broker.served.wait_all_removed()
        await metadata.close()
        flushing.cancel()


def run(
    scenario: Callable[[Broker], Awaitable[None]], config: BrokerConfig | None = None, *, is_virtual: bool = False
) -> None:
    """Run a scenario with a broker of its own; in virtual time, for one that waits for a time to pass."""

    async def main() -> None:
        async with serving(config) as broker:
            await scenario(broker)

    try:
        with asyncio.Runner(loop_factory=(lambda: SimulatedLoop(1)) if is_virtual else None) as runner:
            runner.run(main())
    except* AssertionError as group:
        raise group.exceptions[0] from None


async def create(broker: Broker, name: str, partitions: int = 1, **configs: str) -> None:
    settings = {key.replace("_", "."): text for key, text in configs.items()}
    await broker.topics.create(NewTopic(name, partitions, 1, None, settings))


async def produce(broker: Broker, topic: str, *timestamps: int, partition: int = 0) -> None:
    """Append one batch with a record for each timestamp, and wait until it is durable."""
    append(broker, topic, *timestamps, partition=partition)
    served = broker.served.get_partition(topic, partition)
    await broker.logs.flusher.wait_flushed(served.log, served.end_offset)


def append(broker: Broker, topic: str, *timestamps: int, partition: int = 0) -> None:
    """Append one batch, which nobody is told of before it is flushed."""
    records = [Record(number, timestamp, b"k", b"v") for number, timestamp in enumerate(timestamps)]
    broker.served.get_partition(topic, partition).append(bytearray(encode_batch(records)), now_ms=NOW_MS)


def new_session(listener: str = "PLAINTEXT") -> Session:
    """A client that is called ``test``."""
    session = Session(listener=listener, peer=("127.0.0.1", 1), local=("127.0.0.1", 9092))
    session.client_id = "test"
    return session


async def ask(broker: Broker, api: Api, version: int, **request: Any) -> Any:
    """The answer to a request in a version, read back by kio."""
    return await ask_as(new_session(), broker, api, version, request)


async def ask_as(session: Session, broker: Broker, api: Api, version: int, request: Mapping[str, Any]) -> Any:
    """The same for a client that is known."""
    entity = through_bytes(api, version, request)
    values = await HANDLERS[api.key](broker, entity, Asked(version, session))
    assert unknown_fields(api, values) == []
    own = {each.name for each in OWN_FIELDS if each.schema == f"{api.name}.response"}  # kio knows no other tags
    data = bytes(write_response(api.key, version, {name: each for name, each in values.items() if name not in own}))
    answer, size = entity_reader(load_response_schema(api.key, version))(data, 0)
    assert size == len(data)
    return answer


def through_bytes(api: Api, version: int, request: Mapping[str, Any]) -> Any:
    """The request as the server reads it; what a version does not have is left out."""
    schema = load_request_schema(api.key, version)
    buffer = BytesIO()
    entity_writer(schema)(buffer, build(schema, request))
    data = memoryview(buffer.getvalue())
    return read_request(RequestHeader(api, version, 1, None, 0), data, len(data))


def build(schema: Any, values: Mapping[str, Any]) -> Any:
    """A kio entity of plain values: mappings for entities, ints for durations."""
    chosen = {}
    for field in fields(schema):
        if field.name in values:
            chosen[field.name] = _converted(field.type, values[field.name])
        elif field.default is MISSING:
            chosen[field.name] = _zero(field.type)
    return schema(**chosen)


def _converted(annotation: Any, value: Any) -> Any:
    entity = _entity_in(annotation)
    if isinstance(value, list | tuple):
        return tuple(build(entity, each) if isinstance(each, Mapping) else each for each in value)
    if isinstance(value, Mapping):
        return build(entity, value)
    if "Timedelta" in str(annotation):
        return timedelta(milliseconds=value)
    return value


def _zero(annotation: Any) -> Any:
    text = str(annotation)
    if "None" in text:
        return None
    if "tuple" in text:
        return ()
    if "Timedelta" in text:
        return timedelta(seconds=30)
    if annotation is bytes:
        return b""
    if is_dataclass(annotation):
        return build(annotation, {})
    is_text = isinstance(annotation, type) and issubclass(annotation, str)  # kio's names and ids too
    return "" if is_text else 0 if annotation is not bool else False


def _entity_in(annotation: Any) -> Any:
    if is_dataclass(annotation):
        return annotation
    for inner in get_args(annotation):
        found = _entity_in(inner)
        if found is not None:
            return found
    return None


def unknown_fields(api: Api, values: Mapping[str, Any]) -> list[str]:
    """The fields of an answer that are in no version of it."""
    return sorted(_paths_of(values) - _known_paths(api))


def _paths_of(values: Mapping[str, Any], prefix: str = "") -> set[str]:
    paths = set()
    for name, value in values.items():
        paths.add(prefix + name)
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, Mapping):
                paths |= _paths_of(each, f"{prefix}{name}.")
    return paths


@cache
def _known_paths(api: Api) -> frozenset[str]:
    paths: set[str] = set()
    for version in versions_of(api):
        paths |= _schema_paths(load_response_schema(api.key, version))
    return frozenset(paths)


def _schema_paths(schema: Any, prefix: str = "") -> set[str]:
    paths = set()
    for field in fields(with_own_fields(schema)):
        paths.add(prefix + field.name)
        inner = _entity_in(field.type)
        if inner is not None:
            paths |= _schema_paths(inner, f"{prefix}{field.name}.")
    return paths
