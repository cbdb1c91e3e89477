"""Memory that large reads use, one after the other.

Python fills a new buffer with zeros before anything is read into it. For an answer of megabytes that takes nearly as
long as either of its copies, from the page cache and to the socket. So a large read gets a view of a buffer that was
used before, once nobody has a view of it any more: Python refuses to resize a bytearray for as long as somebody does,
be it a transport, a task, or an answer that its client has not taken.

Invariant: no more than `MOST_BUFFERS` buffers are kept, however long clients hold views of them. A read that finds none
free gets a buffer of its own, which goes with its last view.
"""

from collections import deque
from typing import Final

SMALLEST_READ: Final = 64 * 1024  # a new buffer for less than this costs little
LARGEST_READ: Final = 4 * 1024 * 1024
MOST_BUFFERS: Final = 2


class ReadBuffers:
    """Buffers for the reads of one disk, on any thread."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept = deque(bytearray(1) for _ in range(MOST_BUFFERS))  # the one that was used last comes first

    def take(self, size: int) -> bytearray | memoryview:
        """A buffer of `size` bytes, with anything in it."""
        if SMALLEST_READ <= size <= LARGEST_READ:
            for _ in range(MOST_BUFFERS):
                view = self._take_kept(size)
                if view is not None:
                    return view
        return bytearray(size)

    def _take_kept(self, size: int) -> memoryview | None:
        """A view of the next buffer that is kept; None if somebody has one already."""
        try:
            buffer = self._kept.popleft()  # so that no other thread can take it
        except IndexError:
            return None  # other threads have all of them in hand
        if not _is_free(buffer):
            self._kept.append(buffer)
            return None
        if len(buffer) < size:
            buffer = bytearray(size)
        view = memoryview(buffer)[:size]
        self._kept.appendleft(buffer)
        return view


def _is_free(buffer: bytearray) -> bool:
    """Whether nobody has a view of a buffer."""
    try:
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True
