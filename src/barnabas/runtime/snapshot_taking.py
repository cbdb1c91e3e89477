"""Taking snapshots of the image, beside the commits that bring them about.

A snapshot spares the replay, and the log before it. The one before the newest is kept, and the log from there on, so
that damage to one file costs nothing.
"""

import asyncio

import msgspec

from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import encode_record
from barnabas.core.raft.voters import VoterSet
from barnabas.runtime.applied_metadata import AppliedMetadata
from barnabas.runtime.offload import Offload
from barnabas.runtime.raft_driver import RaftDriver
from barnabas.runtime.turns import in_turns
from barnabas.storage.metadata_snapshot import SnapshotId
from barnabas.storage.quorum_log import QuorumLog


class SnapshotConfig(msgspec.Struct, frozen=True, kw_only=True):
    """When a snapshot is taken."""

    max_record_bytes_between_snapshots: int = 20 * 1024 * 1024
    """A snapshot is taken after so many bytes of log."""
    max_records_between_snapshots: int = 200_000
    """A snapshot is taken after so many records."""


class SnapshotTaking:
    """The snapshots that one node takes, one at a time. A commit that brings one about does not wait for it."""

    def __init__(
        self, log: QuorumLog, applied: AppliedMetadata, driver: RaftDriver, *, offload: Offload, config: SnapshotConfig
    ) -> None:
        self._log = log
        self._applied = applied
        self._driver = driver
        self._offload = offload
        self._config = config
        self._task: asyncio.Task[None] | None = None
        self.newest: SnapshotId | None = None
        """What was taken last, or what the node started from."""
        self.taken = 0

    def take_if_due(self, tasks: asyncio.TaskGroup) -> None:
        """Take a snapshot of what is applied, if enough was since the last one."""
        applied, config = self._applied, self._config
        is_due = (
            applied.bytes_applied >= config.max_record_bytes_between_snapshots
            or applied.records_applied >= config.max_records_between_snapshots
        )
        if not is_due or not applied.is_between_commits or (self._task is not None and not self._task.done()):
            return
        end_offset, node = applied.applied_offset, self._driver.node
        epoch = node.log.epoch_at(end_offset - 1)
        if epoch is None:
            return  # a snapshot that was received ends here
        applied.bytes_applied = applied.records_applied = 0
        snapshot, voters = SnapshotId(end_offset, epoch), node.voters.recorded_at(end_offset)
        self._task = tasks.create_task(self._take(applied.image.fork(), snapshot, voters))

    async def wait(self) -> None:
        """Until the snapshot that is being taken, if there is one, is there."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _take(self, image: Image, snapshot: SnapshotId, voters: VoterSet) -> None:
        """Of an image that nobody changes any more."""
        records = [encode_record(record) async for record in in_turns(image.to_records())]
        try:
            await self._offload.run(lambda: self._log.write_snapshot(snapshot, records, voters))
        except OSError as error:
            self._log.health.fail(error)
            return
        self.newest = snapshot
        self.taken += 1
        await self._driver.forget_history()
