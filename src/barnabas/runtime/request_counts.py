"""What is counted of the requests of one kind: how many, how large, how long until they are answered."""

from bisect import bisect_left
from time import perf_counter

from barnabas.runtime.answers import Answer
from barnabas.runtime.histogram import SECONDS, Histogram


class RequestCounts:
    """The requests of one API since the node started."""

    __slots__ = ("request_bytes", "requests", "response_bytes", "seconds")

    def __init__(self) -> None:
        self.requests = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.seconds = Histogram(SECONDS)
        """From when a request was received whole until its answer was ready, which includes what it waited for."""

    def note_answered(self, begun: float, answer: Answer) -> None:
        """A request that was received at `begun`, by `perf_counter`, has its answer."""
        seconds = perf_counter() - begun
        times = self.seconds  # as `Histogram.observe`, without the call: this is done for every request
        times.counts[bisect_left(SECONDS, seconds)] += 1
        times.total += seconds
        for piece in answer:
            self.response_bytes += len(piece)
