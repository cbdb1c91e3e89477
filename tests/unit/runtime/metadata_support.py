"""Metadata logs for tests: opened in one line, with commits to make."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast
from uuid import UUID

from barnabas.core.metadata import Image, MetadataDecision, NewTopic, allocate_producer_ids, create_topic
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.records import Endpoint
from barnabas.runtime.cluster_metadata import Decide
from barnabas.runtime.metadata_log import MetadataLog, MetadataLogConfig
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.metadata_snapshot import SnapshotId, parse_name
from barnabas.testing.disk import SimulatedDisk
from tests.support.nodes import register_node

T = TypeVar("T")

DIRECTORY = f"/data/{METADATA_PARTITION}"
EVERY_3 = MetadataLogConfig(max_records_between_snapshots=3)


class GatedOffload:
    """Runs in place, but only while the gate is open: what a slow disk looks like to the loop."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, function: Callable[[], T]) -> T:
        await self.gate.wait()
        return function()


class FixedClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000

    def elapsed_ms(self) -> int:
        loop = asyncio.events._get_running_loop()  # what is only looked at has none
        return 0 if loop is None else int(loop.time() * 1000)


class LooseTasks:
    """What stands in for the node's tasks: they live as long as the loop of the test."""

    def create_task(self, work: Coroutine[Any, Any, T], *, name: str | None = None) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work, name=name)
        tasks.append(task)
        return task


tasks: list[asyncio.Task[Any]] = []
"""Those of the test: the loop alone would not keep them."""
runners: list[asyncio.Runner] = []
"""That of the test, which the fixture `loop_of_test` makes."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Take a step on the loop of the test."""
    return runners[-1].run(work)


async def start_metadata(
    disk: SimulatedDisk, *, offload: GatedOffload | None = None, config: MetadataLogConfig | None = None
) -> tuple[DataDir, MetadataLog]:
    """Open a metadata log, which leads at once."""
    data_dir = DataDir(disk, "/data")
    for _ in data_dir.open_logs(lambda _partition: LogConfig()):
        pass
    metadata = MetadataLog.open(
        data_dir, offload=offload or GatedOffload(), clock=FixedClock(), node_id=1, config=config
    )
    await metadata.start(cast("asyncio.TaskGroup", LooseTasks()))
    return data_dir, metadata


def open_metadata(disk: SimulatedDisk, *, config: MetadataLogConfig | None = None) -> tuple[DataDir, MetadataLog]:
    """The same outside of the loop."""
    return run(start_metadata(disk, config=config))


def commit(metadata: MetadataLog, decide: Decide[T]) -> T:
    """Commit outside of the loop; a snapshot that this brings about is there when it returns."""

    async def step() -> T:
        reply = await metadata.commit(decide)
        await metadata.wait_snapshot()
        return reply

    return run(step())


def register(image: Image) -> MetadataDecision[object]:
    return register_node(
        image, node_id=1, endpoints=[Endpoint("PLAINTEXT", "h", 9092)], rack=None, incarnation=UUID(int=1)
    )


def ids(count: int = 1) -> Callable[[Image], MetadataDecision[range]]:
    return lambda image: allocate_producer_ids(image, count)


def topic(name: str, partitions: int = 1) -> Callable[[Image], MetadataDecision[object]]:
    new = NewTopic(name, partitions, 1)
    return lambda image: create_topic(image, new, topic_id=UUID(int=len(image.topics) + 1))


def snapshots(disk: SimulatedDisk) -> list[SnapshotId]:
    return [found for name in disk.list_dir(DIRECTORY) if (found := parse_name(name)) is not None]
