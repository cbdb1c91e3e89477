"""Reading: an asynchronous iterator over the records of a synchronous reader.

Records come from the thread a chunk at a time, and the next chunk is fetched when the one before is used up: a slow
task holds its reader back, and a record counts as processed, as everywhere, when the next one is asked for.

A task that is cancelled while it waits loses nothing: the chunk that is on its way is handed out to whoever asks next.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from types import TracebackType
from typing import Final, Protocol, Self

from barnabas.client.aio.calling import Lane
from barnabas.client.group_reading import GroupRecords
from barnabas.client.message import Message
from barnabas.client.readers import Records
from barnabas.client.rewindable import TransactionalReader
from barnabas.core.errors import InvalidRequest

_GENERATED: Final = 500


class Source(Protocol):
    """Where a reader takes records from: `fill` and `close` block, `take` does not."""

    def fill(self) -> bool: ...
    def take(self) -> Message | None: ...
    def close(self) -> None: ...


class FromChunks:
    """A source of chunks."""

    def __init__(self, chunks: Records) -> None:
        self._chunks = chunks
        self._note_processed = chunks.note_processed if isinstance(chunks, GroupRecords) else None
        self._buffer: deque[Message] = deque()
        self._last: Message | None = None

    def fill(self) -> bool:
        chunk = self._chunks.next_chunk()
        if chunk is None:
            return False
        self._buffer.extend(chunk)
        return True

    def take(self) -> Message | None:
        if self._last is not None and self._note_processed is not None:
            self._note_processed(self._last)
        self._last = self._buffer.popleft() if self._buffer else None
        return self._last

    def close(self) -> None:
        self._chunks.close()


class FromGenerator:
    """A source that runs ahead a generator that comes to an end by itself."""

    def __init__(self, records: Generator[Message, None, None]) -> None:
        self._records = records
        self._buffer: deque[Message] = deque()

    def fill(self) -> bool:
        for record in self._records:
            self._buffer.append(record)
            if len(self._buffer) >= _GENERATED:
                return True
        return bool(self._buffer)

    def take(self) -> Message | None:
        return self._buffer.popleft() if self._buffer else None

    def close(self) -> None:
        self._records.close()


class Reader(AsyncIterator[Message]):
    """Records for one task at a time: `async for message in reader`.

    It ends where the synchronous one would. `aclose`, or the end of an `async with` block, ends it before, and leaves
    its group at once; so does closing its bus.
    """

    def __init__(self, open_source: Callable[[], Source]) -> None:
        self._open_source = open_source
        self._source: Source | None = None
        self._lane = Lane("barnabas-reader")
        self._filling: asyncio.Future[bool] | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def __anext__(self) -> Message:
        while not self._is_closed:
            if self._filling is None:
                record = None if self._source is None else self._source.take()
                if record is not None:
                    return record
                self._filling = self._lane.begin(self._fill)
            filling = self._filling
            try:
                has_more = await asyncio.shield(filling)
            except asyncio.CancelledError:
                raise  # and what is on its way is for whoever asks next
            except BaseException:
                await self.aclose()
                raise
            if self._filling is filling:
                self._filling = None
            if not has_more:
                await self.aclose()
        raise StopAsyncIteration

    def _fill(self) -> bool:
        """In the thread of the lane."""
        if self._source is None:
            self._source = self._open_source()
        return self._source.fill()

    async def aclose(self) -> None:
        """Commit what was processed, leave the group and close the connections."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._lane.call(self._close)  # after the call that is under way
        finally:
            self._lane.end()

    def _close(self) -> None:
        if self._source is not None:
            self._source.close()

    def __del__(self) -> None:
        """One that is dropped in the middle leaves its group all the same."""
        if not self._is_closed and self._source is not None:
            threading.Thread(target=self._source.close, name="barnabas-reader-end", daemon=True).start()
            self._lane.end()

    @property
    def offsets(self) -> TransactionalReader:
        """What a transaction commits of this reader."""
        if not isinstance(self._source, TransactionalReader):
            raise InvalidRequest('commit_offsets needs a reader from consume(..., group=..., mode="transactional")')
        return self._source
