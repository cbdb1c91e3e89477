"""Snapshots of the metadata log: files beside its segments, each the records that make the state as of an offset.

A snapshot is named by where it ends, ``<offset>-<epoch>.checkpoint`` as Kafka names them. It is replaced whole, and a
checksum covers all of it. Its records are opaque here.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.core.errors import CorruptLog
from barnabas.storage.disk import Disk
from barnabas.storage.small_file import read_file, replace_file

SUFFIX: Final = ".checkpoint"
_MAGIC: Final = b"BARNMETA"
_HEADER: Final = struct.Struct(">8sI")  # magic, checksum of the rest
_PLACE: Final = struct.Struct(">qiI")  # offset, epoch, number of records
_LENGTH: Final = struct.Struct(">I")


class SnapshotId(NamedTuple):
    """Where a snapshot ends: the offset after its last record, and the epoch of that record."""

    end_offset: int
    epoch: int


class MetadataSnapshots:
    """The snapshots in one directory. Calls block."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def ids(self) -> list[SnapshotId]:
        """What snapshots there are, the oldest first."""
        return sorted(found for name in self._disk.list_dir(self._directory) if (found := parse_name(name)) is not None)

    def write(self, snapshot: SnapshotId, records: Iterable[bytes]) -> None:
        """Write a snapshot; when this returns it is durable."""
        replace_file(self._disk, self._path(snapshot), _encode(snapshot, list(records)))

    def read(self, snapshot: SnapshotId) -> list[bytes]:
        """The records of a snapshot; `CorruptLog` when it is damaged."""
        path = self._path(snapshot)
        return _decode(path, snapshot, read_file(self._disk, path) or b"")

    def remove(self, snapshot: SnapshotId) -> None:
        """Remove a snapshot that is of no more use."""
        self._disk.remove(self._path(snapshot))

    def _path(self, snapshot: SnapshotId) -> str:
        return f"{self._directory}/{snapshot.end_offset:020d}-{snapshot.epoch:010d}{SUFFIX}"


def parse_name(name: str) -> SnapshotId | None:
    """The snapshot that a file name stands for."""
    offset, _, epoch = name.removesuffix(SUFFIX).partition("-")
    if name.endswith(SUFFIX) and len(offset) == 20 and offset.isdecimal() and len(epoch) == 10 and epoch.isdecimal():
        return SnapshotId(int(offset), int(epoch))
    return None


def _encode(snapshot: SnapshotId, records: list[bytes]) -> bytes:
    parts = [_PLACE.pack(*snapshot, len(records))]
    for record in records:
        parts += (_LENGTH.pack(len(record)), record)
    body = b"".join(parts)
    return _HEADER.pack(_MAGIC, crc32c(body)) + body


def _decode(path: str, snapshot: SnapshotId, data: bytes) -> list[bytes]:
    if len(data) < _HEADER.size + _PLACE.size:
        raise CorruptLog(f"{path} is damaged: {len(data)} bytes are too few for a snapshot")
    magic, checksum = _HEADER.unpack_from(data)
    if magic != _MAGIC or crc32c(memoryview(data)[_HEADER.size :]) != checksum:
        raise CorruptLog(f"{path} is damaged: its checksum does not fit its bytes")
    end_offset, epoch, count = _PLACE.unpack_from(data, _HEADER.size)
    if (end_offset, epoch) != snapshot:
        raise CorruptLog(f"{path} holds the snapshot of offset {end_offset} and epoch {epoch}: it was renamed")
    records, at = [], _HEADER.size + _PLACE.size
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        records.append(data[at : at + length])
        at += length
    return records
