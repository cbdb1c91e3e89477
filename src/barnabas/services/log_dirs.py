"""The contents of the data directory: the size of each partition, and the free space."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.core.errors import BarnabasError, LogDirNotFound
from barnabas.runtime.disk_space import UNKNOWN_SPACE, DiskSpace, absolute_path, disk_space
from barnabas.runtime.logs import Logs
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Partition
from barnabas.runtime.turns import in_turns
from barnabas.services.served import ServedTopics


@dataclass(slots=True)
class LogDir:
    """A data directory: its partitions by topic, each with its size; none if it is offline."""

    path: str
    sizes: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    space: DiskSpace = UNKNOWN_SPACE
    error: BarnabasError | None = None


async def describe_log_dir(
    logs: Logs, served: ServedTopics, offload: Offload, wanted: Mapping[str, Sequence[int]] | None
) -> LogDir:
    """The data directory with the requested partitions, None for all."""
    described = LogDir(absolute_path(logs.data_dir.path))
    try:
        logs.data_dir.health.check()
    except BarnabasError as error:
        described.error = error.with_traceback(None)
        return described
    async for partition in in_turns(list(_partitions(served, wanted))):
        size = partition.log.size if partition.has_log else 0
        described.sizes.setdefault(partition.name.topic, []).append((partition.name.partition, size))
    described.space = await offload.run(lambda: disk_space(described.path))
    return described


def check_log_dir(logs: Logs, path: str) -> None:
    """Refuse a path that is not the data directory of this node, or one that is offline."""
    own = absolute_path(logs.data_dir.path)
    if absolute_path(path) != own:
        raise LogDirNotFound(f"{path} is not a data directory of this broker; it has {own}")
    logs.data_dir.health.check()


def _partitions(served: ServedTopics, wanted: Mapping[str, Sequence[int]] | None) -> Iterator[Partition]:
    if wanted is None:
        for topic in served.by_name.values():
            yield from topic.partitions.values()
        return
    for name, indexes in wanted.items():
        found = served.by_name.get(name)
        if found is not None:
            yield from (found.partitions[index] for index in dict.fromkeys(indexes) if index in found.partitions)
