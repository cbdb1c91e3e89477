"""Going over what a request names, in turns with everything else: there may be a hundred thousand of it."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from barnabas.runtime.turns import PER_TURN, in_turns

T = TypeVar("T")


async def over_partitions(
    topics: Sequence[Any],
    partitions_of: Callable[[Any], Sequence[Any]],
    look: Callable[[Any, Any], T],
    *,
    per_turn: int = PER_TURN,
) -> list[tuple[Any, list[T]]]:
    """Every topic of a request with what `look` says of each of its partitions.

    Between two partitions anything may happen: `look` keeps nothing of what it found before.
    """
    if len(topics) <= per_turn and sum(len(partitions_of(topic)) for topic in topics) < per_turn:
        return [(topic, [look(topic, each) for each in partitions_of(topic)]) for topic in topics]
    found: list[tuple[Any, list[T]]] = []
    places = ((topic, each) for topic in topics for each in (None, *partitions_of(topic)))  # None begins a topic
    async for topic, each in in_turns(places, per_turn=per_turn):
        if each is None:
            found.append((topic, []))
        else:
            found[-1][1].append(look(topic, each))
    return found
