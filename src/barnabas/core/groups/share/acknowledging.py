"""Acknowledgements as a member sends them, and the checks that need no state."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.core.errors import InvalidRequest


class AckType(IntEnum):
    """What a member says of a record, with Kafka's numbers."""

    GAP = 0  # there is no such record in the log
    ACCEPT = 1
    RELEASE = 2  # deliver it again
    REJECT = 3  # never deliver it again
    RENEW = 4  # it needs more time (KIP-1222)


class AckBatch(NamedTuple):
    """What a member says of a range: one word for all of it, or one for each offset."""

    first: int
    last: int
    types: tuple[AckType, ...]


MAX_SAID: Final = 50_000  # ranges and types for one partition: all are looked at in one step

_TYPES: Final = {int(each): each for each in AckType}


def check_acks(batches: Sequence[tuple[int, int, Sequence[int]]], *, is_renewal: bool) -> list[AckBatch]:
    """The acknowledgements of one partition; refused if they are not in order, or say what nobody can mean."""
    if len(batches) + sum(len(types) for _, _, types in batches) > MAX_SAID:
        raise InvalidRequest(f"more than {MAX_SAID} acknowledgements are given for one partition")
    checked: list[AckBatch] = []
    before = -1
    for first, last, types in batches:
        if first < 0 or last < first:
            raise InvalidRequest(f"an acknowledgement of offsets {first} to {last} is not a range")
        if first <= before:
            raise InvalidRequest(f"acknowledgements must ascend: {first} does not follow {before}")
        if len(types) not in (1, last - first + 1):
            raise InvalidRequest(f"{len(types)} acknowledge types are given for {last - first + 1} offsets")
        known = tuple(_TYPES[each] for each in types if each in _TYPES)
        if len(known) != len(types):
            raise InvalidRequest(f"there is no acknowledge type {next(each for each in types if each not in _TYPES)}")
        if AckType.RENEW in known and not is_renewal:
            raise InvalidRequest("a request that renews locks must say so")
        checked.append(AckBatch(first, last, known))
        before = last
    return checked
