"""What the driver of Raft and its surroundings are to each other: the other nodes, the log's follower, proposals."""

import asyncio
from typing import NamedTuple, Protocol

from barnabas.core.errors import BarnabasError, PeerUnreachable, StorageError
from barnabas.core.raft.log_view import SnapshotId
from barnabas.core.raft.messages import Request, Response
from barnabas.core.raft.voters import VoterSet
from barnabas.core.records.batch import Buffer
from barnabas.storage.metadata_snapshot import SnapshotContents


class Answer(NamedTuple):
    """What one node of the quorum answers another: the message, and the batches or the piece of a snapshot with it."""

    response: Response
    data: Buffer = b""


class Identity(NamedTuple):
    """Where a node is asked, in words, and the cluster that it says it belongs to, if it says so."""

    address: str
    cluster_id: str | None = None


class QuorumPeers(Protocol):
    """The other nodes."""

    async def ask(self, to: int, request: Request) -> Answer:
        """The answer of a node; a `BarnabasError` when there is none."""
        ...

    def note_voters(self, voters: VoterSet) -> None:
        """These vote from now on, and are found where the set says."""
        ...

    async def identify(self, to: int) -> Identity:
        """Who a node is that belongs to another cluster; never raises."""
        ...


class NoPeers:
    """The other nodes of a quorum of one."""

    async def ask(self, to: int, request: Request) -> Answer:
        """Nobody is there to be asked."""
        raise PeerUnreachable(f"this node knows no way to node {to}: {type(request).__name__} is not sent")

    def note_voters(self, voters: VoterSet) -> None:
        """There is no way to any of them."""

    async def identify(self, to: int) -> Identity:
        """Nobody has been asked anything."""
        return Identity(f"node {to}")


class Proposal:
    """Batches that a leader wants to append in its epoch, and where they are once they are appended."""

    def __init__(self, data: bytearray, epoch: int) -> None:
        self.data = data
        self.epoch = epoch
        self.base_offset = self.end_offset = -1
        self.appended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def refuse(self, refusal: BarnabasError) -> None:
        """It will not be appended."""
        if not self.appended.done():
            self.appended.set_exception(refusal)


class LogFollower(Protocol):
    """Whoever makes something of the log. Calls must not wait, and must not raise."""

    def lead(self, epoch: int, start_offset: int) -> None:
        """This node leads from now on: it may propose once all before `start_offset` is applied."""
        ...

    def lead_no_more(self) -> None:
        """What was proposed and is not committed may be lost."""
        ...

    def note_proposal(self, proposal: Proposal) -> None:
        """A proposal is in the log, and follows what was noted last."""
        ...

    def note_control(self, base_offset: int, end_offset: int, epoch: int) -> None:
        """Records of Raft itself are in the log, and follow what was noted last."""
        ...

    def commit_to(self, end_offset: int) -> None:
        """The log is committed up to here."""
        ...

    def begin_anew(self, snapshot: SnapshotId, contents: SnapshotContents | None) -> None:
        """A snapshot replaces all before its end. None: it is the one that the node started from."""
        ...

    def fail(self, error: StorageError) -> None:
        """Nothing is appended or committed here any more."""
        ...
