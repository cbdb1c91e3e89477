"""The generation of a data directory: a number that grows at each start, so that an older copy can be told.

A directory that was copied, and put back later under the same id, lacks what was written since. The controller knows
the generation that was registered last. A directory whose newest generation is lower is an older copy.

The number is on disk before the node registers with it: so a directory that is no copy never has a lower one than is
registered, wherever the node dies. It is the time of the start where the clock allows: of two copies that are used in
turn, each is older than what the other one registered.
"""

from typing import Final, NamedTuple

from barnabas.core.errors import StorageExhausted
from barnabas.core.metadata.brokers import NO_GENERATION
from barnabas.storage.data_dir import DataDir
from barnabas.storage.names import GENERATION
from barnabas.storage.small_file import read_file, replace_file

_MAX_DIGITS: Final = 18


class Generation(NamedTuple):
    """What a directory had as its node started, and what it has since."""

    previous: int
    current: int


def begin_generation(data_dir: DataDir, *, now_ms: int) -> Generation:
    """Begin the next generation, durably. A disk that is full keeps the last one."""
    path = f"{data_dir.path}/{GENERATION}"
    with data_dir.health.guarded():
        previous = _parse(read_file(data_dir.disk, path))
    current = max(previous + 1, now_ms)
    try:
        with data_dir.health.guarded():
            replace_file(data_dir.disk, path, f"{current}\n".encode())
    except StorageExhausted:
        current = previous
    return Generation(previous, current)


def _parse(data: bytes | None) -> int:
    """Damaged is the same as not there: a directory that says nothing counts as an older copy, which is safe."""
    text = b"" if data is None else data.strip()
    return int(text) if text.isdigit() and len(text) <= _MAX_DIGITS else NO_GENERATION
