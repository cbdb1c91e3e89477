"""What is counted of the requests of one kind: how many, how large, how long until they are answered.

Done for every request, so it is a few additions: how long it took is counted by the number of bits of its nanoseconds,
which needs no search for a bucket. Whoever reads it gets a histogram whose bounds are powers of two.
"""

from time import perf_counter_ns
from typing import Final

from barnabas.runtime.answers import Answer
from barnabas.runtime.histogram import Histogram

FIRST_BITS: Final = 16
"""Of the lowest bound: 66 microseconds."""
LAST_BITS: Final = 34
"""Of the highest: 17 seconds."""
BOUNDS: Final = tuple(2**bits / 1e9 for bits in range(FIRST_BITS, LAST_BITS + 1))


class RequestCounts:
    """The requests of one API since the node started."""

    __slots__ = ("by_bits", "request_bytes", "requests", "response_bytes", "total_ns")

    def __init__(self) -> None:
        self.requests = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.by_bits = [0] * 65
        """How many took how long: by the bits of the nanoseconds from when the request was received whole until its
        answer was ready, which includes what it waited for."""
        self.total_ns = 0

    def note_answered(self, begun_ns: int, answer: Answer) -> None:
        """A request that was received at `begun_ns`, by `perf_counter_ns`, has its answer."""
        took_ns = perf_counter_ns() - begun_ns
        self.by_bits[took_ns.bit_length()] += 1
        self.total_ns += took_ns
        if len(answer) == 1:
            self.response_bytes += len(answer[0])
        else:
            self.response_bytes += sum(map(len, answer))

    @property
    def seconds(self) -> Histogram:
        """How long they took."""
        found = Histogram(BOUNDS)
        found.counts = [
            sum(self.by_bits[: FIRST_BITS + 1]),
            *self.by_bits[FIRST_BITS + 1 : LAST_BITS + 1],
            sum(self.by_bits[LAST_BITS + 1 :]),
        ]
        found.total = self.total_ns / 1e9
        return found
