"""What must hold in a simulated cluster after everything that happens: the log, the leaders, the images.

A `Watcher` stands between a node's part in the quorum and its image: it sees every leadership and every commit of that
node at the moment it comes, and compares them with what all nodes have seen so far.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence

from barnabas.core.errors import OffsetOutOfRange, StorageError
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import MetadataRecord, NodeRecord, encode_record
from barnabas.core.raft.log_view import SnapshotId
from barnabas.core.records.batch import iter_batches
from barnabas.runtime.metadata_log import MetadataLog
from barnabas.runtime.raft_driver import Proposal
from barnabas.storage.metadata_snapshot import SnapshotContents
from tests.simulation.node_history import Violation


class Checks:
    """What all nodes have seen so far. The first thing that does not fit is kept in `broken`."""

    def __init__(self, counts: Counter[str]) -> None:
        self.counts = counts
        self.leaders: dict[int, int] = {}  # by epoch
        self.committed: dict[int, bytes] = {}  # the hash of the batch that a committed offset is in
        self.images: dict[int, str] = {}  # their hashes by offset
        self.broken: Violation | None = None

    def require(self, holds: bool, what: str) -> None:
        """Not raised where it is found: a node would take it for its own."""
        if not holds and self.broken is None:
            self.broken = Violation(what)

    def raise_broken(self) -> None:
        if self.broken is not None:
            raise self.broken

    def note_leader(self, node_id: int, epoch: int) -> None:
        before = self.leaders.setdefault(epoch, node_id)
        self.require(before == node_id, f"nodes {before} and {node_id} lead epoch {epoch}")

    def note_committed(self, node_id: int, offset: int, batch: bytes) -> None:
        before = self.committed.setdefault(offset, batch)
        self.require(before == batch, f"node {node_id} calls something else committed at {offset} than others did")

    def note_image(self, node_id: int, offset: int, image: Image, why: object) -> None:
        digest = digest_of(image)
        before = self.images.setdefault(offset, digest)
        self.require(before == digest, f"node {node_id} has another image at {offset} than others had: {why}")


def digest_of(image: Image) -> str:
    blob = b"".join(encode_record(record) for record in image.to_records())
    return hashlib.blake2b(blob, digest_size=8).hexdigest()


class Watcher:
    """Follows the log of one life of a node (`raft_driver.LogFollower`), and hands all on to the node's image."""

    def __init__(self, checks: Checks, node_id: int, metadata: MetadataLog) -> None:
        self._checks = checks
        self._node_id = node_id
        self._metadata = metadata
        self._applied = metadata._applied
        self._checked_to = metadata.log_start_offset
        self._epochs = {node.node_id: node.epoch for node in metadata.image.nodes.values()}
        metadata.driver._follower = self
        metadata.driver._disk._follower = self
        metadata.subscribe(self._note_applied)
        if metadata.applied_offset:
            checks.note_image(node_id, metadata.applied_offset, metadata.image, "as it was loaded")

    def _note_applied(self, records: Sequence[MetadataRecord]) -> None:
        metadata = self._metadata
        self._checks.note_image(self._node_id, metadata.applied_offset, metadata.image, records)
        for record in records:
            if isinstance(record, NodeRecord):
                before = self._epochs.get(record.node_id, -1)
                what = f"the epoch of broker {record.node_id} goes from {before} to {record.epoch}"
                self._checks.require(record.epoch >= before, what)
                self._epochs[record.node_id] = record.epoch

    # LogFollower

    def lead(self, epoch: int, start_offset: int) -> None:
        self._checks.note_leader(self._node_id, epoch)
        self._applied.lead(epoch, start_offset)

    def lead_no_more(self) -> None:
        self._applied.lead_no_more()

    def note_proposal(self, proposal: Proposal) -> None:
        self._applied.note_proposal(proposal)

    def note_control(self, base_offset: int, end_offset: int, epoch: int) -> None:
        self._applied.note_control(base_offset, end_offset, epoch)

    def commit_to(self, end_offset: int) -> None:
        self._check_log(end_offset)
        self._applied.commit_to(end_offset)

    def begin_anew(self, snapshot: SnapshotId, contents: SnapshotContents | None) -> None:
        self._checks.counts["snapshot fetched"] += contents is not None
        self._checked_to = max(self._checked_to, snapshot.end_offset)
        self._applied.begin_anew(snapshot, contents)

    def fail(self, error: StorageError) -> None:
        self._applied.fail(error)

    def _check_log(self, end_offset: int) -> None:
        """What this node calls committed is in its log, and the same as in all others."""
        log = self._metadata._log
        if log.health.offline_reason is not None:
            # Others may have committed what this node has appended and not synced. Of a directory that has failed,
            # perhaps for another log in it, nobody reads that: the node is about to end.
            end_offset = min(end_offset, log.flushed_offset)
        offset = max(self._checked_to, log.start_offset)
        while offset < end_offset:
            try:
                data = log.begin_read(offset, max_bytes=1 << 20)()
            except OffsetOutOfRange:
                data = b""
            if not data:
                self._checks.require(False, f"node {self._node_id} calls {end_offset} committed, and has no {offset}")
                return
            for position, header in iter_batches(data):
                batch = hashlib.blake2b(data[position : position + header.size], digest_size=8).digest()
                for each in range(max(offset, header.base_offset), min(header.next_offset, end_offset)):
                    self._checks.note_committed(self._node_id, each, batch)
                offset = header.next_offset
                if offset >= end_offset:
                    break
        self._checked_to = max(self._checked_to, end_offset)
