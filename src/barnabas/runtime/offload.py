"""Blocking work away from the event loop, in pools by urgency: nothing waits behind what is less urgent than itself.

Acknowledgements wait for syncs, consumers for reads. Computing is decompressing, compressing and checking batches of
clients: clients decide how long it takes, so it has few threads of low priority. Maintenance (compaction, retention,
deletion) is in the background.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol, Self, TypeVar

T = TypeVar("T")

COMPUTE_THREADS: Final = 2  # at most, and one processor is left to everybody else
BACKGROUND_THREADS: Final = 2  # compaction has one for long
SYNC_THREADS: Final = 5  # those that the flusher uses at once, and one for the metadata log
NICENESS: Final = 10  # of threads whose work may wait


class Offload(Protocol):
    """Runs a blocking function where it does not block the loop. The simulation runs it in place."""

    async def run(self, function: Callable[[], T]) -> T: ...


class ThreadOffload:
    """A bounded pool of threads."""

    def __init__(self, max_threads: int, *, name: str = "io", niceness: int = 0) -> None:
        self._name = name
        self._niceness = niceness
        self._max_threads = max_threads
        self._pool = self._made()
        self._retired: list[ThreadPoolExecutor] = []

    def _made(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(
            self._max_threads,
            thread_name_prefix=f"barnabas-{self._name}",
            initializer=_be_nice,
            initargs=(self._niceness,),
        )

    def resize(self, max_threads: int) -> None:
        """Use so many threads from now on; work that was begun, or waits, is done by the existing ones."""
        if max_threads != self._max_threads:
            self._pool.shutdown(wait=False)
            self._retired.append(self._pool)
            self._max_threads = max_threads
            self._pool = self._made()

    async def run(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        """Wait for running work and end the threads."""
        for pool in (*self._retired, self._pool):
            pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class Threads:
    """The pools of a node."""

    syncs: Offload
    reads: Offload
    compute: Offload
    background: Offload

    @classmethod
    def of_system(cls, *, reads: int) -> Self:
        """Threads of the operating system, started when first needed."""
        computing = max(1, min(COMPUTE_THREADS, (os.cpu_count() or 1) - 1))
        return cls(
            syncs=ThreadOffload(SYNC_THREADS, name="sync"),
            reads=ThreadOffload(reads, name="read"),
            compute=ThreadOffload(computing, name="compute", niceness=NICENESS),
            background=ThreadOffload(BACKGROUND_THREADS, name="background", niceness=NICENESS),
        )

    @classmethod
    def in_one(cls, offload: Offload) -> Self:
        """One pool for all kinds of work: for the simulation, which has no threads."""
        return cls(offload, offload, offload, offload)

    def resize(self, *, reads: int) -> None:
        """Use so many threads for reads, if there are any."""
        if isinstance(self.reads, ThreadOffload):
            self.reads.resize(reads)

    def close(self) -> None:
        """Wait for running work and end the threads, if there are any."""
        for pool in (self.compute, self.background, self.reads, self.syncs):
            if isinstance(pool, ThreadOffload):
                pool.close()


def _be_nice(niceness: int) -> None:
    """Lower the priority of this thread. Only Linux can do this per thread; other systems have it per process."""
    if niceness and sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
