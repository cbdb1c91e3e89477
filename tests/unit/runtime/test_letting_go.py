"""The memory of what is long is given back in turns, some objects in each."""

import asyncio
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from barnabas.runtime.letting_go import FREED_PER_TURN, LONG, LOOKED_AT, let_go, let_go_flat


class Thing:
    """Something that is known to be gone."""


@dataclass
class Request:
    topics: tuple[Any, ...]


def holders(things: list[Thing]) -> dict[str, Any]:
    return {
        "a list": things,
        "an answer": {"topics": [{"name": "t", "partitions": things}]},
        "a request": Request(({"partitions": tuple(things)},)),
        "a dict": dict(enumerate(things)),
        "the keys of a dict": dict.fromkeys(things),
    }


FLAT = ("a list", "a dict", "the keys of a dict")


@pytest.mark.parametrize(
    ("kind", "hand_in"), [*((kind, let_go) for kind in holders([])), *((kind, let_go_flat) for kind in FLAT)]
)
def test_elements_are_freed_some_in_each_turn(kind: str, hand_in: Callable[[Any], None]) -> None:
    async def scenario() -> list[int]:
        things = [Thing() for _ in range(3 * LONG)]
        alive = weakref.WeakSet(things)
        held = holders(things)[kind]
        del things
        hand_in(held)
        del held
        counts = [len(alive)]
        while alive:
            await asyncio.sleep(0)
            counts.append(len(alive))
        return counts

    counts = asyncio.run(scenario())

    assert counts[0] == 3 * LONG
    assert max(before - after for before, after in pairwise(counts)) <= FREED_PER_TURN


def test_what_is_short_is_freed_at_once_as_ever() -> None:
    async def scenario() -> None:
        things = [Thing() for _ in range(LONG)]
        alive = weakref.WeakSet(things)
        let_go(things, None, 3, "text")
        let_go_flat(things, None)
        del things
        assert not alive

    asyncio.run(scenario())


class Counted(dict[str, Any]):
    """An element of which it is known how often it was looked into."""

    looks = 0

    def values(self) -> Any:
        type(self).looks += 1
        return super().values()


def test_of_very_many_short_arrays_few_are_looked_into() -> None:
    async def scenario() -> None:
        let_go([[Counted(partition=0) for _ in range(LONG)] for _ in range(100)])

    asyncio.run(scenario())

    assert Counted.looks <= LOOKED_AT
