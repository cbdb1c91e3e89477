"""Metadata logs for tests: opened in one line, with commits to make."""

import asyncio
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from barnabas.core.metadata import Decision, Image, NewTopic, allocate_producer_ids, create_topic, register_node
from barnabas.runtime.metadata_log import METADATA_PARTITION, MetadataLog, MetadataLogConfig
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.metadata_snapshot import SnapshotId, parse_name
from barnabas.testing.disk import SimulatedDisk

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


def open_metadata(
    disk: SimulatedDisk, *, offload: GatedOffload | None = None, config: MetadataLogConfig | None = None
) -> tuple[DataDir, MetadataLog]:
    data_dir = DataDir(disk, "/data")
    for _ in data_dir.open_logs(lambda _partition: LogConfig()):
        pass
    metadata = MetadataLog.open(
        data_dir, offload=offload or GatedOffload(), clock=FixedClock(), node_id=1, config=config
    )
    return data_dir, metadata


def register(image: Image) -> Decision[object]:
    return register_node(image, node_id=1, host="h", port=9092, rack=None, incarnation=UUID(int=1))


def ids(count: int = 1) -> Callable[[Image], Decision[range]]:
    return lambda image: allocate_producer_ids(image, count)


def topic(name: str, partitions: int = 1) -> Callable[[Image], Decision[object]]:
    new = NewTopic(name, partitions, 1)
    return lambda image: create_topic(image, new, topic_id=UUID(int=len(image.topics) + 1))


def snapshots(disk: SimulatedDisk) -> list[SnapshotId]:
    return [found for name in disk.list_dir(DIRECTORY) if (found := parse_name(name)) is not None]
