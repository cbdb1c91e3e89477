"""What is in the logs of simulated nodes, read past everything that a node does: from its page cache, or from what a
power cut would leave of it.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import check_batch, iter_whole_batches
from barnabas.core.records.record import decode_batch
from barnabas.testing.disk import SimulatedDisk
from barnabas.testing.disk_names import Directory
from barnabas.testing.disk_pages import CachedFile

SUFFIX: Final = ".log"


class Written(NamedTuple):
    """A batch as it is in a log."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    data: bytes

    def __repr__(self) -> str:
        values = b", ".join(value[:12] for value in self.values)
        return f"[{self.base_offset}..{self.end_offset} of epoch {self.leader_epoch}: {values!r}]"

    @property
    def values(self) -> list[bytes]:
        return [record.value or b"" for record in decode_batch(self.data)]


class _Parsed:
    """A file, as far as it was read."""

    def __init__(self, file: CachedFile) -> None:
        self.file = file
        self.size = 0
        self.batches: list[Written] = []

    def is_start_of(self, file: CachedFile, data: bytes) -> bool:
        """Whether the file has only grown since."""
        last = self.batches[-1].data if self.batches else b""
        return file is self.file and data[self.size - len(last) : self.size] == last


class LogView:
    """The logs on one disk. What was read of a file that has only grown since is not read again."""

    def __init__(self, disk: SimulatedDisk, root: str) -> None:
        self._disk = disk
        self._root = root
        self._boot = disk._boot
        self._parsed: dict[tuple[TopicPartition, bool], dict[str, _Parsed]] = defaultdict(dict)

    def batches(self, partition: TopicPartition, *, is_durable: bool) -> list[Written]:
        """All whole batches of a log; of the durable ones those up to the first that is not."""
        if self._boot != self._disk._boot:
            self._boot = self._disk._boot
            self._parsed.clear()
        known = self._parsed[partition, is_durable]
        found: list[Written] = []
        for name, file in self._files(partition, is_durable=is_durable):
            data = file.durable_bytes() if is_durable else file.read(0, file.size())
            parsed = known.get(name)
            if parsed is None or not parsed.is_start_of(file, data):
                parsed = known[name] = _Parsed(file)
            self._parse(parsed, data)
            expected = found[-1].end_offset if found else 0
            if parsed.batches and parsed.batches[0].base_offset != expected:
                break  # the file before this one is not whole
            found += parsed.batches
        return found

    def end_offset(self, partition: TopicPartition, *, is_durable: bool) -> int:
        batches = self.batches(partition, is_durable=is_durable)
        return batches[-1].end_offset if batches else 0

    @staticmethod
    def _parse(parsed: _Parsed, data: bytes) -> None:
        rest = data[parsed.size :]
        try:
            for position, header in iter_whole_batches(rest):
                check_batch(rest, position, header)
                batch = bytes(rest[position : position + header.size])
                parsed.batches.append(Written(header.base_offset, header.next_offset, header.leader_epoch, batch))
                parsed.size += header.size
        except BarnabasError:
            return  # torn, or not written yet

    def _files(self, partition: TopicPartition, *, is_durable: bool) -> Iterator[tuple[str, CachedFile]]:
        tree, path = self._disk._tree, f"{self._root}/{partition}"
        directory = tree.find_durable(path) if is_durable else tree.find(path)
        if not isinstance(directory, Directory):
            return
        for name in sorted(name for name in directory.entries if name.endswith(SUFFIX)):
            file = directory.durable_node(name) if is_durable else directory.entries[name]
            if isinstance(file, CachedFile):
                yield name, file
