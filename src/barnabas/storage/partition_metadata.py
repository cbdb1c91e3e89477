"""Kafka's ``partition.metadata``: the id of the topic that a partition's directory belongs to.

A name can be that of another topic tomorrow, an id cannot. The file is made with the directory and synced with its
first records, so one that cannot be read beside a log that was never known to be synced is what a crash left of it, and
holds nothing. Directories of earlier versions have none.
"""

from typing import Final
from uuid import UUID

from barnabas.core.uuids import id_text, parse_id
from barnabas.storage.disk import Disk
from barnabas.storage.names import PARTITION_METADATA, TEMPORARY
from barnabas.storage.small_file import read_file

_VERSION: Final = "version: 0"
_TOPIC_ID: Final = "topic_id: "


class DamagedTopicId(ValueError):
    """The file is there and holds no id."""


def read_topic_id(disk: Disk, directory: str) -> UUID | None:
    """The id of the topic; None when there is no file."""
    data = read_file(disk, f"{directory}/{PARTITION_METADATA}")
    if data is None:
        return None
    lines = data.decode("ascii", "replace").splitlines()
    if len(lines) != 2 or lines[0] != _VERSION or not lines[1].startswith(_TOPIC_ID):
        raise DamagedTopicId(f"{directory}/{PARTITION_METADATA} is damaged")
    try:
        return parse_id(lines[1].removeprefix(_TOPIC_ID))
    except ValueError as problem:
        raise DamagedTopicId(f"{directory}/{PARTITION_METADATA} is damaged: {problem}") from None


def make_topic_id(disk: Disk, directory: str, topic_id: UUID) -> str:
    """Write the file in a directory that is new; durable when it and the directory are synced. Gives its path."""
    path = f"{directory}/{PARTITION_METADATA}"
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write(0, _encode(topic_id))
    return path


def put_topic_ids(disk: Disk, ids: dict[str, UUID]) -> None:
    """Write the files in directories that have none: each is there whole after a crash, or not at all.

    One sync for all: whichever is lost can be written again.
    """
    for directory, topic_id in ids.items():
        temporary = disk.open(f"{directory}/{PARTITION_METADATA}{TEMPORARY}", create=True)
        temporary.truncate(0)
        temporary.write(0, _encode(topic_id))
    disk.sync_all()
    for directory in ids:
        disk.rename(f"{directory}/{PARTITION_METADATA}{TEMPORARY}", f"{directory}/{PARTITION_METADATA}")


def _encode(topic_id: UUID) -> bytes:
    return f"{_VERSION}\n{_TOPIC_ID}{id_text(topic_id)}\n".encode()
