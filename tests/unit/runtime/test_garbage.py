"""Garbage is looked for in few objects at a time, whatever there is, and in the end all of it is found."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from barnabas.runtime.garbage import BUSY_TIMES, MOST_NEW, Collector

MOST_LOOKED_THROUGH = 20_000
"""Objects: some two milliseconds, and with them whoever waits for an answer."""


class Cycle:
    """Garbage, once nobody has it, that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.enable()
    gc.freeze()  # as after the collection of tests


def test_no_look_goes_through_all_there_is() -> None:
    looked_through: list[int] = []

    def count(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and info["generation"] == 2:
            looked_through.append(len(gc.get_objects()))

    there = [[number] for number in range(10 * MOST_LOOKED_THROUGH)]
    gc.collect()  # Python remembers how many there are

    async def scenario() -> None:
        collector = Collector()
        collector.start()
        gc.callbacks.append(count)
        kept = [[number] for number in range(10 * MOST_LOOKED_THROUGH)]
        gc.callbacks.remove(count)
        collector.stop()
        assert len(kept) == len(there)

    asyncio.run(scenario())

    assert len(looked_through) > 5
    assert max(looked_through) < MOST_LOOKED_THROUGH
    assert max(looked_through) <= MOST_NEW + 1000  # beside what there was at the start and could not be set aside


class Processor:
    """How long a processor has worked for this process, by the word of a test."""

    def __init__(self) -> None:
        self.used_s = 0.0
        self.adds_s = 0.0

    def __call__(self) -> float:
        self.used_s += self.adds_s
        return self.used_s


async def set_aside_dead(collector: Collector) -> "weakref.ref[Cycle]":
    """Garbage that no look at what is new finds."""
    collector.start()
    cycle = Cycle()
    found = weakref.ref(cycle)
    gc.collect()
    del cycle
    gc.collect()
    assert found() is not None
    return found


def grow(kept: list[list[int]], objects: int) -> None:
    """Have so many objects set aside beyond twice what there is."""
    wanted = 2 * gc.get_freeze_count() + objects
    while (missing := wanted - gc.get_freeze_count()) > 0:  # to count them is to go through them all
        kept += [[number] for number in range(max(missing, MOST_NEW))]


async def until(condition: Callable[[], bool]) -> None:
    """Let everybody else on until it holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for is outside of the loop
            await asyncio.sleep(0)


LIMIT = 2 * MOST_NEW


def run_alone(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """In a process that has few objects: that of the tests has a million, and twice as many would have to be made."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        processes.submit(run_in_process, scenario).result(120)


def run_in_process(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


async def found_when_quiet() -> None:
    processor = Processor()
    collector = Collector(max_new_set_aside=LIMIT, rounds_per_count=1, used_s=processor, quiet_s=0.001)
    found = await set_aside_dead(collector)
    processor.adds_s = 1.0
    kept: list[list[int]] = []
    grow(kept, 2 * LIMIT)
    used_s = processor.used_s
    await until(lambda: processor.used_s >= used_s + 3)  # it has looked again and again whether there is much to do
    assert found() is not None
    processor.adds_s = 0.0
    await until(lambda: found() is None)
    collector.stop()


def test_what_died_after_it_was_set_aside_is_found_when_the_process_is_quiet() -> None:
    run_alone(found_when_quiet)


async def found_when_never_quiet() -> None:
    processor = Processor()
    processor.adds_s = 1.0
    collector = Collector(max_new_set_aside=LIMIT, rounds_per_count=1, used_s=processor, quiet_s=0.001)
    found = await set_aside_dead(collector)
    kept: list[list[int]] = []
    grow(kept, (BUSY_TIMES + 1) * LIMIT)
    await until(lambda: found() is None)
    collector.stop()


def test_a_process_that_is_never_quiet_does_not_wait_for_ever() -> None:
    run_alone(found_when_never_quiet)
