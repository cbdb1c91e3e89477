"""Freeing the memory of long requests in turns.

Freeing a hundred thousand objects takes as long as answering many short requests, and Python does it all at once when
the last reference goes. Something that may be long is passed in here first.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

FREED_PER_TURN: Final = 300
LONG: Final = 1000
"""Elements of an array, or a dict, that is freed in turns. The elements are assumed to be small."""
LOOKED_AT: Final = 300
"""Parts that are searched for long arrays, which are near the top: there may be a million parts."""


def let_go(*things: Any) -> None:
    """Keep the elements of long arrays and dicts in these objects for a few more turns, and free some in each."""
    _free([part for array in _long_arrays(things) for part in _copies(array)])


def let_go_flat(*arrays: Collection[Any] | None) -> None:
    """The same for arrays, sets and dicts whose elements contain no long arrays: a short array is not searched.

    For requests that are many and short: searching ten offsets takes longer than committing them.
    """
    _free([part for array in arrays if array is not None and len(array) > LONG for part in _copies(array)])


def _copies(array: Collection[Any]) -> Iterator[list[Any]]:
    yield list(array)
    if isinstance(array, dict):
        yield list(array.values())


def _free(arrays: list[list[Any]]) -> None:
    if arrays:
        asyncio.get_running_loop().call_soon(_free_some, arrays)


def _free_some(arrays: list[list[Any]]) -> None:
    del arrays[-1][-FREED_PER_TURN:]
    if not arrays[-1]:
        arrays.pop()
    if arrays:
        asyncio.get_running_loop().call_soon(_free_some, arrays)


def _long_arrays(things: Sequence[Any]) -> Iterator[Collection[Any]]:
    left = list(things)
    for _ in range(LOOKED_AT):
        if not left:
            return
        thing = left.pop()
        if isinstance(thing, list | tuple | dict) and len(thing) > LONG:
            yield thing
        else:
            left.extend(_parts(thing))


def _parts(thing: Any) -> Iterable[Any]:
    if isinstance(thing, list | tuple):
        return thing
    if isinstance(thing, dict):
        return thing.values()
    return [getattr(thing, name) for name in getattr(thing, "__dataclass_fields__", ())]
