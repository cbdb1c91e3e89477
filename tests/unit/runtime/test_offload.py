"""Pools of threads."""

import asyncio
import threading
from collections.abc import Callable

from barnabas.runtime.offload import ThreadOffload


def at_once(count: int) -> Callable[[], int]:
    """Work that ends only when so many do it at the same time."""
    barrier = threading.Barrier(count)
    return lambda: barrier.wait(timeout=60)


def test_a_pool_that_is_given_more_threads_uses_them_and_finishes_what_it_had() -> None:
    async def main() -> None:
        offload = ThreadOffload(1)
        release = threading.Event()
        begun = [asyncio.ensure_future(offload.run(lambda: release.wait(60))) for _ in range(2)]
        await asyncio.sleep(0)
        offload.resize(3)
        work = at_once(3)
        assert sorted(await asyncio.gather(*(offload.run(work) for _ in range(3)))) == [0, 1, 2]
        release.set()
        assert await asyncio.gather(*begun) == [True, True]
        offload.close()

    asyncio.run(main())


def test_closing_waits_for_what_runs_in_the_threads_of_before() -> None:
    async def main() -> None:
        offload = ThreadOffload(2)
        begun, release = threading.Event(), threading.Event()

        def work() -> bool:
            begun.set()
            return release.wait(60)

        running = asyncio.ensure_future(offload.run(work))
        await asyncio.sleep(0)
        assert begun.wait(60)
        offload.resize(1)
        closing = threading.Thread(target=offload.close)
        closing.start()
        closing.join(0.1)
        assert closing.is_alive()
        release.set()
        closing.join(60)
        assert not closing.is_alive()
        assert await running

    asyncio.run(main())
