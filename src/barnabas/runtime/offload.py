"""Blocking work away from the event loop: syncs, cold reads, compaction."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    """Runs a blocking function where it does not hold up the loop. The simulation runs it in place."""

    async def run(self, function: Callable[[], T]) -> T: ...


class ThreadOffload:
    """A bounded pool of threads."""

    def __init__(self, max_threads: int) -> None:
        self._pool = ThreadPoolExecutor(max_threads, thread_name_prefix="barnabas-io")

    async def run(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        """Wait for what is running and end the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)
