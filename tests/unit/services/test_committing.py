"""Very many offsets are committed in pieces, and gathering what became of them does not grow with their square."""

import asyncio
from typing import Any, NoReturn

from barnabas.core.errors import UnknownMemberId
from barnabas.core.groups.offsets import CommitRequest, NewOffset, PartitionErrors
from barnabas.services.committing import OFFSETS_PER_TURN, commit_in_pieces

MANY = 10 * OFFSETS_PER_TURN + 1


def request() -> CommitRequest:
    offsets = [NewOffset("t", index, index, -1, "") for index in range(MANY)]
    return CommitRequest(group="g", offsets=offsets, generation=-1, member_id="")


class Errors(tuple[Any, ...]):
    """What became of a piece; joined to those before it, it would copy all of them again."""

    __slots__ = ()

    def __radd__(self, before: object) -> NoReturn:
        raise AssertionError("all that came before is copied for each piece")


def test_what_became_of_each_piece_is_told_in_order_and_gathered_once() -> None:
    refused = UnknownMemberId("gone")

    async def commit(piece: CommitRequest) -> PartitionErrors:
        return Errors(refused if offset.partition % 7 == 0 else None for offset in piece.offsets)

    errors = asyncio.run(commit_in_pieces(request(), commit))

    assert errors == tuple(refused if index % 7 == 0 else None for index in range(MANY))


def test_a_later_piece_may_be_refused_by_itself() -> None:
    refused = UnknownMemberId("gone")

    async def commit(piece: CommitRequest) -> PartitionErrors:
        if piece.offsets[0].partition == OFFSETS_PER_TURN:
            raise refused
        return (None,) * len(piece.offsets)

    errors = asyncio.run(commit_in_pieces(request(), commit))

    assert [at for at, error in enumerate(errors) if error is refused] == list(
        range(OFFSETS_PER_TURN, 2 * OFFSETS_PER_TURN)
    )
