"""Snapshots of the metadata log: files beside its segments, each the records that make the state as of an offset.

A snapshot is named by where it ends, ``<offset>-<epoch>.checkpoint`` as Kafka names them. It is replaced whole, and a
checksum covers all of it. It holds the voters of the quorum at that place, none where they are fixed, and records,
which are opaque here. The one that a node is formatted with holds voters alone, and is in Kafka's format.

One that another node has arrives in pieces: they are put together beside it, checked, and only then given its name.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.core.errors import CorruptLog, CorruptRecord, InvalidRecord, UnsupportedRecordFormat
from barnabas.core.raft.control_records import decode_bootstrap, decode_voters, encode_bootstrap, encode_voters
from barnabas.core.raft.log_view import BOOTSTRAP_SNAPSHOT, SnapshotId
from barnabas.core.raft.voters import NO_VOTERS, VoterSet
from barnabas.core.records.batch import Buffer
from barnabas.core.records.checksum import crc32c
from barnabas.storage.disk import Disk
from barnabas.storage.names import TEMPORARY
from barnabas.storage.small_file import read_file, replace_file

__all__ = ["SUFFIX", "MetadataSnapshots", "SnapshotContents", "SnapshotId", "parse_name"]

SUFFIX: Final = ".checkpoint"
_PART: Final = ".part" + TEMPORARY  # of one that is being received: worthless after a crash
_MAGIC: Final = b"BARNMET2"
_MAGIC_WITHOUT_VOTERS: Final = b"BARNMETA"  # of versions that knew no voters
_HEADER: Final = struct.Struct(">8sI")  # magic, checksum of the rest
_PLACE: Final = struct.Struct(">qiI")  # offset, epoch, number of records
_LENGTH: Final = struct.Struct(">I")


class SnapshotContents(NamedTuple):
    """What is in a snapshot."""

    records: list[bytes]
    voters: VoterSet


class MetadataSnapshots:
    """The snapshots in one directory. Calls block."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def ids(self) -> list[SnapshotId]:
        """What snapshots there are, the oldest first."""
        return sorted(found for name in self._disk.list_dir(self._directory) if (found := parse_name(name)) is not None)

    def write(self, snapshot: SnapshotId, records: Iterable[bytes], voters: VoterSet = NO_VOTERS) -> None:
        """Write a snapshot; when this returns it is durable."""
        held = list(records)
        is_first = snapshot == BOOTSTRAP_SNAPSHOT and voters.voters and not held
        data = encode_bootstrap(voters) if is_first else _encode(snapshot, held, voters)
        replace_file(self._disk, self._path(snapshot), data)

    def read(self, snapshot: SnapshotId) -> SnapshotContents:
        """What is in a snapshot; `CorruptLog` when it is damaged."""
        return self._read(self._path(snapshot), snapshot)

    def _read(self, path: str, snapshot: SnapshotId) -> SnapshotContents:
        return _decode(path, snapshot, read_file(self._disk, path) or b"")

    def size(self, snapshot: SnapshotId) -> int:
        """How many bytes a snapshot has, for those who receive it; 0 if there is none."""
        path = self._path(snapshot)
        return self._disk.file_size(path) if self._disk.exists(path) else 0

    def read_piece(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Some bytes of a snapshot, to be sent."""
        return self._disk.open(self._path(snapshot)).read(position, max_bytes)

    def write_piece(self, snapshot: SnapshotId, position: int, data: Buffer) -> None:
        """Bytes of a snapshot that is being received. Those at position 0 start it again."""
        file = self._disk.open(self._path(snapshot) + _PART, create=True)
        if position == 0:
            file.truncate(0)
        file.write(position, data)

    def check_received(self, snapshot: SnapshotId) -> SnapshotContents:
        """What is in a snapshot of which all bytes were received, and which are durable by now."""
        path = self._path(snapshot) + _PART
        self._disk.open(path).sync()
        return self._read(path, snapshot)

    def take_received(self, snapshot: SnapshotId) -> None:
        """Give a snapshot that was received and checked its name, durably."""
        path = self._path(snapshot)
        self._disk.rename(path + _PART, path)
        self._disk.sync_dir(self._directory)

    def remove(self, snapshot: SnapshotId) -> None:
        """Remove a snapshot that is no longer needed."""
        self._disk.remove(self._path(snapshot))

    def _path(self, snapshot: SnapshotId) -> str:
        return f"{self._directory}/{snapshot.end_offset:020d}-{snapshot.epoch:010d}{SUFFIX}"


def parse_name(name: str) -> SnapshotId | None:
    """The snapshot that a file name stands for."""
    offset, _, epoch = name.removesuffix(SUFFIX).partition("-")
    if name.endswith(SUFFIX) and len(offset) == 20 and offset.isdecimal() and len(epoch) == 10 and epoch.isdecimal():
        return SnapshotId(int(offset), int(epoch))
    return None


def _encode(snapshot: SnapshotId, records: list[bytes], voters: VoterSet) -> bytes:
    blob = encode_voters(voters)
    parts = [_PLACE.pack(*snapshot, len(records)), _LENGTH.pack(len(blob)), blob]
    for record in records:
        parts += (_LENGTH.pack(len(record)), record)
    body = b"".join(parts)
    return _HEADER.pack(_MAGIC, crc32c(body)) + body


def _decode(path: str, snapshot: SnapshotId, data: bytes) -> SnapshotContents:
    if snapshot == BOOTSTRAP_SNAPSHOT and not data.startswith(_MAGIC):  # which earlier versions wrote
        try:
            return SnapshotContents([], decode_bootstrap(data))
        except (CorruptRecord, InvalidRecord, UnsupportedRecordFormat) as error:
            raise CorruptLog(f"{path} is damaged: {error}") from None
    if len(data) < _HEADER.size + _PLACE.size:
        raise CorruptLog(f"{path} is damaged: {len(data)} bytes are too few for a snapshot")
    magic, checksum = _HEADER.unpack_from(data)
    if magic not in (_MAGIC, _MAGIC_WITHOUT_VOTERS) or crc32c(memoryview(data)[_HEADER.size :]) != checksum:
        raise CorruptLog(f"{path} is damaged: its checksum does not fit its bytes")
    end_offset, epoch, count = _PLACE.unpack_from(data, _HEADER.size)
    if (end_offset, epoch) != snapshot:
        raise CorruptLog(f"{path} holds the snapshot of offset {end_offset} and epoch {epoch}: it was renamed")
    voters, at = NO_VOTERS, _HEADER.size + _PLACE.size
    try:
        if magic == _MAGIC:
            blob, at = _take(data, at)
            voters = decode_voters(blob)
        records = []
        for _ in range(count):
            record, at = _take(data, at)
            records.append(record)
    except (CorruptRecord, struct.error) as error:  # another node may send anything, with a checksum that fits
        raise CorruptLog(f"{path} is damaged: {error}") from None
    return SnapshotContents(records, voters)


def _take(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes with their length before them, and where they end."""
    (length,) = _LENGTH.unpack_from(data, at)
    end = at + _LENGTH.size + length
    if end > len(data):
        raise CorruptRecord(f"{length} bytes are claimed at {at}, {len(data) - at} are left")
    return data[at + _LENGTH.size : end], end
