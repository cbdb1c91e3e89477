"""The durable state of a node of the quorum: Kafka's ``quorum-state``, one line of JSON.

The file is replaced whole and is durable when `write_quorum_state` returns. An unreadable file is never treated as
missing: a node that forgot its vote could vote twice in the same epoch.
"""

from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from barnabas.core.errors import CorruptLog
from barnabas.core.raft.output import QuorumState
from barnabas.core.raft.voters import ReplicaKey
from barnabas.core.uuids import id_text, parse_id
from barnabas.storage.disk import Disk
from barnabas.storage.names import QUORUM_STATE
from barnabas.storage.small_file import read_file, replace_file

_NOBODY: Final = -1
_NO_DIRECTORY: Final = UUID(int=0)
_VERSION: Final = 1
Id = Annotated[int, msgspec.Meta(ge=_NOBODY, le=2**31 - 1)]


class _Written(msgspec.Struct, rename="camel"):
    """The fields of version 1. Version 0 has some more, which say what the log says too, and no directory."""

    leader_id: Id
    leader_epoch: Id
    voted_id: Id
    version: int = msgspec.field(name="data_version")
    voted_directory_id: str = id_text(_NO_DIRECTORY)


def write_quorum_state(disk: Disk, directory: str, state: QuorumState) -> None:
    """Make the state durable, in the directory of the metadata log."""
    voted = state.voted or ReplicaKey(_NOBODY)
    written = _Written(
        leader_id=_NOBODY if state.leader_id is None else state.leader_id,
        leader_epoch=state.epoch,
        voted_id=voted.node_id,
        version=_VERSION,
        voted_directory_id=id_text(voted.directory_id or _NO_DIRECTORY),
    )
    replace_file(disk, f"{directory}/{QUORUM_STATE}", msgspec.json.encode(written))


def read_quorum_state(disk: Disk, directory: str) -> QuorumState | None:
    """The state that was last written; None if there never was one."""
    path = f"{directory}/{QUORUM_STATE}"
    data = read_file(disk, path)
    if data is None:
        return None
    try:
        return _parse(data)
    except ValueError as problem:
        raise CorruptLog(
            f"{path} is damaged ({problem}): this node cannot know whom it voted for. Restore the file, or remove the "
            "node from the quorum, empty its data directory and add it again"
        ) from None


def _parse(data: bytes) -> QuorumState:
    fields: Any = msgspec.json.decode(data)
    written = msgspec.convert(fields, _Written)
    if not 0 <= written.version <= _VERSION:
        raise ValueError(f"version {written.version}; 0 to {_VERSION} are known")
    if written.leader_epoch < 0:
        raise ValueError(f"epoch {written.leader_epoch}")
    directory_id = parse_id(written.voted_directory_id)
    voted = None
    if written.voted_id != _NOBODY:
        voted = ReplicaKey(written.voted_id, None if directory_id == _NO_DIRECTORY else directory_id)
    return QuorumState(written.leader_epoch, None if written.leader_id == _NOBODY else written.leader_id, voted)
