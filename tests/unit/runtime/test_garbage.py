"""Garbage is looked for in few objects at a time, whatever there is, and in the end all of it is found."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.runtime.garbage import THRESHOLDS, Collector

MOST_LOOKED_THROUGH = 2 * THRESHOLDS[0] * THRESHOLDS[1] * THRESHOLDS[2]


class Cycle:
    """Garbage, once nobody has it, that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.enable()


def test_no_look_goes_through_all_there_is() -> None:
    looked_through: list[int] = []

    def count(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and info["generation"] == 2:
            looked_through.append(len(gc.get_objects()))

    async def scenario() -> None:
        collector = Collector()
        collector.start()
        gc.callbacks.append(count)
        kept = [[number] for number in range(10 * MOST_LOOKED_THROUGH)]
        gc.callbacks.remove(count)
        collector.stop()
        assert len(kept) == 10 * MOST_LOOKED_THROUGH

    asyncio.run(scenario())

    assert len(looked_through) > 5
    assert max(looked_through) < MOST_LOOKED_THROUGH


def test_what_died_after_it_was_set_aside_is_found() -> None:
    async def scenario() -> None:
        collector = Collector(max_new_set_aside=1000, rounds_per_count=1)
        collector.start()
        cycles = [Cycle() for _ in range(1000)]
        found = [weakref.ref(cycle) for cycle in cycles]
        gc.collect()  # sets them aside
        del cycles
        gc.collect()
        assert found[0]() is not None
        more = []
        while found[0]() is not None:
            more += [[number] for number in range(100_000)]
            await asyncio.sleep(0)
        collector.stop()
        assert all(each() is None for each in found)

    asyncio.run(scenario())
