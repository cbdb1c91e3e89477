"""Committing very many offsets at once: in pieces, which neither block the loop nor are too large to write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec

from barnabas.core.errors import BarnabasError
from barnabas.runtime.letting_go import let_go_flat
from barnabas.runtime.turns import pieces

if TYPE_CHECKING:
    from barnabas.core.groups.offsets import CommitRequest, PartitionErrors

    Commit = Callable[[CommitRequest], Awaitable[PartitionErrors]]

OFFSETS_PER_TURN: Final = 40
"""The most offsets of one decision: its batch is far below `MAX_DECISION_BYTES`, whatever metadata the offsets have."""


async def commit_in_pieces(request: CommitRequest, commit: Commit) -> PartitionErrors:
    """Commit all offsets of a request, so many at a time.

    If the first piece is refused, so is the whole. A later piece may be refused separately, since members may join and
    leave meanwhile: then its partitions get that error.
    """
    first, rest = request.offsets[:OFFSETS_PER_TURN], request.offsets[OFFSETS_PER_TURN:]
    if not rest:
        return await commit(request)
    errors = list(await commit(msgspec.structs.replace(request, offsets=first)))
    begun = []
    async with asyncio.TaskGroup() as tasks:  # all of them wait for the same disk: not one after another
        async for piece in pieces(rest, per_turn=OFFSETS_PER_TURN):
            part = msgspec.structs.replace(request, offsets=piece)
            begun.append(tasks.create_task(_commit_piece(part, commit)))
    for task in begun:
        errors.extend(task.result())
    let_go_flat(begun, rest)
    return tuple(errors)


async def _commit_piece(request: CommitRequest, commit: Commit) -> PartitionErrors:
    try:
        return await commit(request)
    except BarnabasError as refusal:
        return (refusal,) * len(request.offsets)
