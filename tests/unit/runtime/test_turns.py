"""Turns of the loop: long work gives it back, and of many only one goes on in each turn."""

import asyncio
from collections.abc import Generator
from itertools import pairwise

from barnabas.runtime.turns import finish, in_turns, next_turn, pieces
from barnabas.testing.simulation import Simulation


def test_elements_come_so_many_in_a_turn() -> None:
    async def scenario() -> list[tuple[int, int]]:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await asyncio.sleep(0)
        seen = [(element, turns) async for element in in_turns(range(9), per_turn=3)]
        counting.cancel()
        return seen

    seen = asyncio.run(scenario())

    assert [element for element, _ in seen] == list(range(9))
    first_turns = [turn for _, turn in seen[::3]]
    assert first_turns[0] < first_turns[1] < first_turns[2]
    assert all(seen[at][1] == seen[at + 1][1] == seen[at + 2][1] for at in (0, 3, 6))


def test_of_many_who_wait_one_goes_on_in_each_turn_in_the_order_in_which_they_came() -> None:
    async def scenario() -> list[list[str]]:
        went_on: list[str] = []

        async def work(name: str) -> None:
            for _ in range(2):
                await next_turn()
                went_on.append(name)

        tasks = [asyncio.create_task(work(name)) for name in "abc"]
        seen: list[list[str]] = []
        while not all(task.done() for task in tasks):
            before = len(went_on)
            await asyncio.sleep(0)
            seen.append(went_on[before:])
        return seen

    seen = asyncio.run(scenario())

    assert max(map(len, seen)) == 1
    assert [name for turn in seen for name in turn] == list("abcabc")


def test_between_two_pieces_of_long_work_is_a_turn_for_everybody_else() -> None:
    async def scenario() -> list[int]:
        worked = 0

        async def work() -> None:
            nonlocal worked
            for _ in range(5):
                await next_turn()
                worked += 1

        tasks = [asyncio.create_task(work()) for _ in range(3)]
        pieces_in_turns = []
        while not all(task.done() for task in tasks):
            before = worked
            await asyncio.sleep(0)
            pieces_in_turns.append(worked - before)
        return pieces_in_turns

    seen = asyncio.run(scenario())

    assert sum(seen) == 15
    assert max(first + second for first, second in pairwise(seen)) == 1


def test_one_who_gives_up_keeps_nobody_waiting() -> None:
    async def scenario() -> None:
        first, second = asyncio.create_task(next_turn()), asyncio.create_task(next_turn())
        await asyncio.sleep(0)
        first.cancel()
        async with asyncio.timeout(60):
            await second

    asyncio.run(scenario())


def test_pieces_are_all_of_it() -> None:
    async def scenario() -> list[list[int]]:
        return [list(piece) async for piece in pieces(range(7), per_turn=3)]

    assert asyncio.run(scenario()) == [[0, 1, 2], [3, 4, 5], [6]]


def test_work_in_steps_gives_what_it_returns() -> None:
    def steps() -> Generator[None, None, str]:
        yield
        yield
        return "done"

    assert asyncio.run(finish(steps())) == "done"


def test_a_node_that_dies_while_it_waits_for_its_turn_holds_up_no_other_in_a_simulation() -> None:
    """Simulated nodes share a loop, and so its turns."""

    async def wait_often() -> None:
        for _ in range(5):
            await next_turn()

    with Simulation(1) as simulation:

        async def scenario() -> None:
            dying = [simulation.host("a").start(wait_often()) for _ in range(3)]
            living = simulation.host("b").start(wait_often())
            await asyncio.sleep(0)
            simulation.crash("a")
            async with asyncio.timeout(1):
                await living
            assert not any(task.done() for task in dying)

        simulation.run(scenario)
