"""Connections that wait for room to receive: finding the next of them does not take longer the more they are."""

import asyncio
from dataclasses import dataclass

from barnabas.runtime.connection_limits import ConnectionLimits
from barnabas.runtime.receiving import ORDINARY_FRAME, ReceiveBudget

ROOM = 8000


@dataclass(eq=False)
class Client:
    """A connection that receives, and counts how often it is asked whether it does."""

    ip: str
    frame_bytes: int
    reserved: int = 0
    reserved_at: float = 0.0
    received: int = 0
    asked: int = 0
    went_on: int = 0

    @property
    def is_held_up(self) -> bool:
        self.asked += 1
        return False

    def go_on(self) -> None:
        self.went_on += 1

    def refuse(self, reason: str, *, kind: str) -> None:
        raise AssertionError((reason, kind))


def test_a_thousand_that_may_not_go_on_are_not_examined_one_by_one() -> None:
    async def scenario() -> None:
        budget = ReceiveBudget(ConnectionLimits(max_queued_bytes=ROOM, max_frame_bytes=2 * ORDINARY_FRAME))
        holder, other = Client("10.0.0.1", 2 * ORDINARY_FRAME), Client("10.0.0.2", 100)
        assert budget.take(holder, ROOM - ROOM // 16)  # what is left is for ordinary frames
        waiting = [Client("10.0.0.1", 2 * ORDINARY_FRAME) for _ in range(1000)]
        assert not any(budget.take(each, 1) for each in waiting)
        assert budget.take(other, 100)
        holder.asked = 0
        budget.give_back(other)
        assert holder.asked < 10
        budget.give_back(holder)
        assert [each.went_on for each in waiting] == [1] * 1000
        budget.close()

    asyncio.run(scenario())


def test_one_of_another_address_or_with_an_ordinary_frame_goes_on_before_them() -> None:
    async def scenario() -> None:
        budget = ReceiveBudget(ConnectionLimits(max_queued_bytes=ROOM, max_frame_bytes=2 * ORDINARY_FRAME))
        holder = Client("10.0.0.1", 2 * ORDINARY_FRAME)
        assert budget.take(holder, ROOM)
        large, ordinary = Client("10.0.0.1", 2 * ORDINARY_FRAME), Client("10.0.0.2", 100)
        assert not budget.take(large, 1)
        assert not budget.take(ordinary, 1)
        holder.reserved -= ROOM // 16  # a part of it is free again
        budget.free += ROOM // 16
        budget.give_back(Client("10.0.0.3", 1))
        assert (large.went_on, ordinary.went_on) == (0, 1)
        budget.close()

    asyncio.run(scenario())
