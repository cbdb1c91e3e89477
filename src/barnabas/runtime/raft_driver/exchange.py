"""What a node of the quorum asks others and answers them: the messages of Raft with the bytes that belong to them.

Reads for others go on beside the driver's line, and so do the requests to them.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from barnabas.core.errors import BarnabasError, CorruptRecord, OffsetOutOfRange, StorageError
from barnabas.core.raft.messages import FetchResponse, FetchSnapshotResponse, Response
from barnabas.core.raft.output import OutgoingRequest, Reply
from barnabas.core.raft.voters import NO_VOTERS, VoterSet
from barnabas.runtime.offload import Offload
from barnabas.runtime.raft_driver.ports import Answer, QuorumPeers
from barnabas.storage.quorum_log import QuorumLog, describe_batches

MAX_FETCH_BYTES: Final = 1024 * 1024
"""What one answer holds of the log, or of a snapshot; of the log one batch at least."""

Begin = Callable[[Coroutine[Any, Any, None]], None]


class Exchange:
    """Asks and answers for one node. `begin` runs what takes longer."""

    def __init__(self, log: QuorumLog, peers: QuorumPeers, *, offload: Offload, begin: Begin) -> None:
        self.peers = peers
        self._log = log
        self._offload = offload
        self._begin = begin
        self._voters = NO_VOTERS

    def note_voters(self, voters: VoterSet) -> None:
        """Tell the way to others who votes now, if that has changed."""
        if voters is not self._voters:
            self._voters = voters
            self.peers.note_voters(voters)

    async def ask(self, outgoing: OutgoingRequest) -> Answer:
        """The answer of another node, described by what is in it; a `BarnabasError` if there is none."""
        answer = await self.peers.ask(outgoing.to, outgoing.request)
        return answer._replace(response=_described(answer))

    def reply(self, reply: Reply) -> None:
        """Answer a request, with what has to be read for it."""
        token, response = reply.token, reply.response
        assert isinstance(token, asyncio.Future)
        if isinstance(response, FetchResponse) and reply.read_from is not None:
            try:
                read = self._log.begin_read(reply.read_from, max_bytes=MAX_FETCH_BYTES)
            except OffsetOutOfRange:  # the log has been cut at its front since: the next fetch is told
                read = bytes
            self._begin(self._read_for(token, response, read))
        elif isinstance(response, FetchSnapshotResponse) and response.refusal is None:
            snapshot, position = response.snapshot, response.position
            assert snapshot is not None
            self._begin(
                self._read_for(
                    token, response, lambda: self._log.snapshots.read_piece(snapshot, position, MAX_FETCH_BYTES)
                )
            )
        elif not token.done():
            token.set_result(Answer(response))

    async def _read_for(self, token: asyncio.Future[Answer], response: Response, read: Callable[[], bytes]) -> None:
        try:
            data = b"" if read is bytes else await self._offload.run(read)
        except (StorageError, OSError) as error:
            refuse(token, StorageError(f"the metadata log cannot be read: {error}"))
            return
        if not token.done():
            token.set_result(Answer(response, data))


def refuse(token: "asyncio.Future[Any]", refusal: BarnabasError) -> None:
    """Have whoever waits hear that it is refused."""
    if not token.done():
        token.set_exception(refusal)


def end(token: asyncio.Future[None], error: BarnabasError | None) -> None:
    """Have whoever waits hear how it ended."""
    if error is not None:
        refuse(token, error)
    elif not token.done():
        token.set_result(None)


def _described(answer: Answer) -> Response:
    """The message with what Raft has to know of the data, as they are and not as the sender says."""
    response = answer.response
    if isinstance(response, FetchResponse):
        try:
            return msgspec.structs.replace(response, batches=describe_batches(answer.data))
        except BarnabasError as error:
            raise CorruptRecord(f"what it sent of the log cannot be read: {error}") from error
    if isinstance(response, FetchSnapshotResponse):
        return msgspec.structs.replace(response, length_bytes=len(answer.data))
    return response
