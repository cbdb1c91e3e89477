"""Kafka's ``.kafka_cleanshutdown``: that a node stopped cleanly, and with which broker epoch it was registered then.

The epoch is told at the next registration. If it is still the one that is registered, nothing was lost in between. What
the metadata say of the node is no substitute: they may not have been read yet, or be newer than the directory, which
may be a copy. Earlier versions wrote an empty file.
"""

from typing import Final

import msgspec

from barnabas.storage.disk import Disk
from barnabas.storage.names import CLEAN_SHUTDOWN
from barnabas.storage.small_file import read_file, replace_file

NO_BROKER_EPOCH: Final = -1


class _Content(msgspec.Struct, rename="camel"):
    version: int
    broker_epoch: int


def has_marker(disk: Disk, directory: str) -> bool:
    """Whether the node of a directory stopped cleanly."""
    return disk.exists(f"{directory}/{CLEAN_SHUTDOWN}")


def take_marker(disk: Disk, directory: str) -> int:
    """Remove the marker; returns its broker epoch, or `NO_BROKER_EPOCH` if it tells none that can be read."""
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    data = read_file(disk, path)
    disk.remove(path)
    try:
        return max(msgspec.json.decode(data or b"", type=_Content).broker_epoch, NO_BROKER_EPOCH)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return NO_BROKER_EPOCH


def put_marker(disk: Disk, directory: str, *, broker_epoch: int) -> None:
    """Mark a directory as clean, durably."""
    data = b"" if broker_epoch == NO_BROKER_EPOCH else msgspec.json.encode(_Content(0, broker_epoch))
    replace_file(disk, f"{directory}/{CLEAN_SHUTDOWN}", data)
