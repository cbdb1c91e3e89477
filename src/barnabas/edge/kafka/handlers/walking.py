"""Iterating over the partitions of a request, in turns with all other work: there may be a hundred thousand."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from barnabas.runtime.turns import PER_TURN, in_turns

T = TypeVar("T")
Topic = TypeVar("Topic")
Partition = TypeVar("Partition")


async def over_partitions(
    topics: Sequence[Topic],
    partitions_of: Callable[[Topic], Sequence[Partition]],
    look: Callable[[Topic, Partition], T],
    *,
    per_turn: int = PER_TURN,
) -> list[tuple[Topic, list[T]]]:
    """Every topic of a request with the result of `look` for each of its partitions.

    Anything may change between two partitions: `look` keeps nothing from one to the next.
    """
    if len(topics) == 1 and len(partitions := partitions_of(topics[0])) < per_turn:  # as most requests are
        return [(topics[0], [look(topics[0], each) for each in partitions])]
    if len(topics) <= per_turn and sum(len(partitions_of(topic)) for topic in topics) < per_turn:
        return [(topic, [look(topic, each) for each in partitions_of(topic)]) for topic in topics]
    found: list[tuple[Topic, list[T]]] = []
    places = ((topic, each) for topic in topics for each in (None, *partitions_of(topic)))  # None begins a topic
    async for topic, each in in_turns(places, per_turn=per_turn):
        if each is None:
            found.append((topic, []))
        else:
            found[-1][1].append(look(topic, each))
    return found
