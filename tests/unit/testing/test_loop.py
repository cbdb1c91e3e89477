"""The simulated loop: virtual time, asyncio's own tools on it, its limits, and what it refuses."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, TypeVar

import pytest

from barnabas.testing.hosts import Host, HostCrashed
from barnabas.testing.loop import SimulatedLoop, SimulationStuck, SimulationTooLong
from barnabas.testing.offload import SimulatedOffload
from barnabas.testing.trace import Trace

T = TypeVar("T")


@contextmanager
def looping(seed: int = 1, **options: Any) -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(seed, **options)
    try:
        yield loop
    finally:
        loop.reap()
        loop.close()


def run(scenario: Callable[[], Coroutine[Any, Any, T]], seed: int = 1, **options: Any) -> T:
    with looping(seed, **options) as loop:
        return loop.run_until_complete(scenario())


# Time.


def test_time_jumps_to_the_next_timer() -> None:
    async def scenario() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(86_400)
        return began, loop.time()

    assert run(scenario) == (0.0, 86_400.0)


def test_call_soon_keeps_its_order() -> None:
    async def scenario() -> list[int]:
        seen: list[int] = []
        for number in range(100):
            asyncio.get_running_loop().call_soon(seen.append, number)
        await asyncio.sleep(1)
        return seen

    assert run(scenario) == list(range(100))


def test_timers_due_at_the_same_instant_run_in_an_order_of_the_seed() -> None:
    async def scenario() -> list[int]:
        seen: list[int] = []
        for number in range(20):
            asyncio.get_running_loop().call_at(1.0, seen.append, number)
        await asyncio.sleep(2)
        return seen

    orders = [run(scenario, seed) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == list(range(20))


def test_a_cancelled_timer_does_not_run_nor_move_the_time() -> None:
    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(1000 + n, pytest.fail, "it ran") for n in range(500)]
        await asyncio.sleep(1)
        for timer in timers:
            timer.cancel()
        await asyncio.sleep(1)
        return loop.time()

    assert run(scenario) == 2.0


# asyncio's tools.


def test_a_timeout_cancels_what_takes_too_long() -> None:
    async def scenario() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(100)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        return asyncio.get_running_loop().time()

    assert run(scenario) == 10.0


def test_a_task_group_ends_its_tasks_when_one_fails() -> None:
    async def scenario() -> list[str]:
        ended: list[str] = []

        async def sleep(name: str) -> None:
            try:
                await asyncio.sleep(100)
            finally:
                ended.append(name)

        async def fail() -> None:
            await asyncio.sleep(1)
            raise ValueError("no")

        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(sleep(str(number)))
                group.create_task(fail())

        with pytest.raises(ExceptionGroup) as caught:
            await work()
        assert isinstance(caught.value.exceptions[0], ValueError)
        return ended

    # A TaskGroup walks through a set of tasks: their order must not come from their addresses.
    assert run(scenario) == run(scenario)


def test_event_queue_lock_and_semaphore_work() -> None:
    async def scenario() -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)
        done, lock, few = asyncio.Event(), asyncio.Lock(), asyncio.Semaphore(2)
        taken: list[int] = []

        async def put() -> None:
            for number in range(10):
                async with few:
                    await queue.put(number)
            done.set()

        async def take() -> None:
            while len(taken) < 10:
                async with lock:
                    taken.append(await queue.get())
                    await asyncio.sleep(0.1)

        async with asyncio.TaskGroup() as group:
            group.create_task(put())
            group.create_task(take())
        assert done.is_set()
        return taken

    assert run(scenario) == list(range(10))


def test_cancelling_runs_the_finally() -> None:
    async def scenario() -> list[str]:
        seen: list[str] = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            finally:
                await asyncio.sleep(1)
                seen.append("cleared up")

        task = asyncio.create_task(work())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return seen

    assert run(scenario) == ["cancelled", "cleared up"]


def test_the_runner_of_asyncio_takes_the_loop() -> None:
    async def scenario() -> float:
        asyncio.get_running_loop().create_task(asyncio.sleep(1000))
        await asyncio.sleep(3)
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        assert runner.run(scenario()) == 3.0


def test_an_asynchronous_generator_that_is_let_go_is_closed() -> None:
    seen: list[str] = []

    async def count() -> AsyncIterator[int]:
        try:
            for number in range(10):
                yield number
        finally:
            seen.append("closed")

    async def scenario() -> None:
        async for _ in count():
            break
        await asyncio.sleep(1)

    run(scenario)
    assert seen == ["closed"]


def test_a_task_factory_is_used() -> None:
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(coro.__qualname__)
        return asyncio.Task(coro, loop=loop, **options)

    async def scenario() -> None:
        await asyncio.create_task(asyncio.sleep(1))

    with looping() as loop:
        loop.set_task_factory(factory)
        loop.run_until_complete(scenario())
    assert "sleep" in made


# Blocking work.


def test_an_executor_runs_in_place_and_later() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        here = threading.get_ident()
        assert await loop.run_in_executor(None, threading.get_ident) == here
        assert await asyncio.to_thread(divmod, 7, 2) == (3, 1)
        assert loop.time() > 0
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, divmod, 1, 0)

    run(scenario)


def test_blocking_work_that_nobody_waits_for_any_more_may_still_be_done() -> None:
    async def scenario(seed: int) -> bool:
        done: list[int] = []
        offload = SimulatedOffload(Random(seed))
        waiting = asyncio.create_task(offload.run(lambda: done.append(1)))
        await asyncio.sleep(0)
        assert offload.outstanding == 1
        waiting.cancel()
        await asyncio.sleep(1)
        assert waiting.cancelled()
        assert offload.outstanding == 0
        return bool(done)

    assert {run(partial(scenario, seed)) for seed in range(20)} == {True, False}


def test_another_thread_is_refused() -> None:
    async def scenario() -> list[BaseException]:
        errors: list[BaseException] = []
        loop = asyncio.get_running_loop()

        def call() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except RuntimeError as error:
                errors.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        return errors

    [error] = run(scenario)
    assert "second thread" in str(error)


# Limits.


async def wait_for_nothing() -> None:
    await asyncio.get_running_loop().create_future()


def test_a_hang_is_reported_with_where_every_task_waits() -> None:
    async def scenario() -> None:
        other = asyncio.create_task(wait_for_nothing(), name="the other one")
        await asyncio.Event().wait()
        other.cancel()

    with looping() as loop:
        task = loop.create_task(scenario())
        with pytest.raises(SimulationStuck) as caught:
            loop.run_until_complete(task)
    message = str(caught.value)
    assert "2 pending tasks" in message
    assert "scenario" in message
    assert "locks.py" in message
    assert "the other one at " in message
    assert "in wait_for_nothing" in message


def test_a_livelock_is_reported() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < 1:  # noqa: ASYNC110 - nothing lets the time go on
            await asyncio.sleep(0)

    with pytest.raises(SimulationTooLong, match="1000 steps"):
        run(scenario, max_steps=1000)


def test_waiting_beside_a_ticking_timer_is_reported() -> None:
    def tick() -> None:
        asyncio.get_running_loop().call_later(1, tick)

    async def scenario() -> None:
        tick()
        await asyncio.Event().wait()

    with pytest.raises(SimulationTooLong, match="1 pending task"):
        run(scenario, max_time_s=100)


def test_real_input_and_output_is_refused() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(NotImplementedError, match="sock_recv"):
            await loop.sock_recv(None, 1)  # type: ignore[arg-type]
        with pytest.raises(NotImplementedError, match="add_reader"):
            loop.add_reader(0, print)
        with pytest.raises(NotImplementedError, match="subprocess_exec"):
            await asyncio.create_subprocess_exec("true")
        with pytest.raises(NotImplementedError, match="getaddrinfo"):
            await loop.getaddrinfo("localhost", 1)
        with pytest.raises(NotImplementedError, match="network"):
            await asyncio.open_connection("localhost", 1)

    run(scenario)


def test_what_nobody_handles_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().call_soon(divmod, 1, 0)
        await asyncio.sleep(1)

    with looping() as loop:
        loop.run_until_complete(scenario())
        [error] = loop.unhandled
    assert isinstance(error, ZeroDivisionError)
    assert "ZeroDivisionError" in caplog.text


def test_a_closed_loop_takes_nothing() -> None:
    loop = SimulatedLoop(1)
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1, print)


# Hosts that die.


def test_no_line_of_a_dead_host_runs_until_the_end() -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            seen.append("cleared up")

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        host = Host("node-1", loop)
        host.start(work())
        waiting = asyncio.create_task(host.run(asyncio.sleep(100)))
        await asyncio.sleep(1)
        loop.bury(host.end_life())
        with pytest.raises(HostCrashed, match="node-1"):
            await waiting
        gc.collect()
        await asyncio.sleep(1000)
        assert seen == []
        assert await host.run(asyncio.sleep(1, "alive again")) == "alive again"

    run(scenario)
    assert seen == ["cleared up"]


# The trace.


def test_the_trace_tells_every_step() -> None:
    trace = Trace(keep=100)

    async def scenario() -> None:
        asyncio.get_running_loop().call_later(2, gc.isenabled)
        await asyncio.sleep(3)

    run(scenario, trace=trace)
    assert (2.0, "timer", "isenabled") in trace.events
    assert [event[0] for event in trace.events] == sorted(event[0] for event in trace.events)
