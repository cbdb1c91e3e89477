"""Making a stopped voter a quorum of one, in its data directory: for when the majority of the voters is lost for good.

Decided in `core.raft.recovering`. The set of voters is durable before the quorum-state is: a crash between them leaves
a log whose epoch is newer than the state, which every start puts right.
"""

from typing import NamedTuple

from barnabas.core.errors import InvalidConfig
from barnabas.core.metadata.formation import MetaProperties
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.raft.recovering import Recovery, plan_recovery
from barnabas.core.raft.voters import ReplicaKey
from barnabas.runtime.metadata_log import METADATA_LOG_CONFIG
from barnabas.storage import meta_properties
from barnabas.storage.data_dir import DataDir
from barnabas.storage.disk import Disk
from barnabas.storage.metadata_loading import load_metadata
from barnabas.storage.quorum_log import QuorumLog


class Survivor(NamedTuple):
    """A voter whose directory is open, and what would make it a quorum."""

    data_dir: DataDir
    meta: MetaProperties
    log: QuorumLog
    recovery: Recovery


def open_survivor(disk: Disk, path: str) -> Survivor:
    """Open the directory of a stopped voter, as its next start would. Refused where it is not that of a voter."""
    directory = f"{path}/{METADATA_PARTITION}"
    meta = meta_properties.read(disk, path) if disk.exists(path) else None
    if meta is None or not disk.exists(directory):
        raise InvalidConfig(f"{path} is not the data directory of a node that was part of a cluster")
    key = ReplicaKey(meta.node_id, meta.directory_id)
    data_dir = DataDir(disk, path, meta=meta)
    try:
        log = data_dir.create_log(METADATA_PARTITION, METADATA_LOG_CONFIG)
        with data_dir.health.guarded():
            loaded = load_metadata(log, replica=key)
            quorum_log = QuorumLog(log, loaded.snapshots)
            recovery = plan_recovery(key, quorum_log.restored(loaded.voters))
    except BaseException:
        data_dir.give_back()
        raise
    return Survivor(data_dir, meta, quorum_log, recovery)


def recover_quorum(survivor: Survivor, *, now_ms: int) -> None:
    """Make a voter the only one; durable when this returns."""
    log, recovery = survivor.log, survivor.recovery
    if recovery.snapshot is not None:
        log.take_snapshot(recovery.snapshot)
    log.append_control(recovery.append, now_ms=now_ms)
    plan = log.begin_flush()
    if plan is not None:
        plan.run()
        log.end_flush(plan)
    log.write_state(recovery.state)


def leave(survivor: Survivor) -> None:
    """Close the directory as clean or unclean as it was: the logs of partitions are untouched."""
    survivor.data_dir.give_back()
