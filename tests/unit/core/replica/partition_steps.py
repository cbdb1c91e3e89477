"""What can happen to a partition, for histories that chance writes."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

from barnabas.core.errors import InvalidReplicaAssignment, NoReassignmentInProgress, NotEnoughReplicas
from barnabas.core.replica.leader import Leader
from tests.unit.core.replica.partition_world import World

Step: TypeAlias = Callable[[World, int], None]


def steps() -> Iterator[tuple[str, int, Step]]:
    """What can happen to a node (or a message, by number), and how often it does beside the others."""
    yield "write", 6, _write
    yield "sync", 8, lambda world, which: world.sync(_node(world, which))
    yield "fetch", 12, lambda world, which: world.fetch(_node(world, which))
    yield "deliver", 24, lambda world, which: world.deliver(which % len(world.mail)) if world.mail else None
    yield "lose", 2, lambda world, which: world.lose(which % len(world.mail)) if world.mail else None
    yield "round", 12, _round
    yield "agree", 4, _agree
    yield "propose", 4, lambda world, which: world.propose(_node(world, which))
    yield "wait", 1, lambda world, which: world.propose(_node(world, which), after_ms=40_000)
    yield "hear", 8, lambda world, which: world.hear(_node(world, which))
    yield "hear one", 3, lambda world, which: world.hear(_node(world, which), 1)
    yield "crash", 1, lambda world, which: world.crash(_node(world, which))
    yield "restart", 2, lambda world, which: world.restart(_node(world, which))
    yield "replace disk", 1, lambda world, which: world.replace_disk(_node(world, which))
    yield "fence", 1, lambda world, which: world.fence(_node(world, which))
    yield "let in", 3, lambda world, which: world.let_in(_node(world, which))
    yield "delete", 2, lambda world, which: world.delete_records(_node(world, which))

    yield "move", 1, _move
    yield "cancel", 1, _cancel


def _round(world: World, which: int) -> None:
    """A follower fetches, and nothing comes between."""
    before = len(world.mail)
    world.fetch(_node(world, which))
    for _ in range(2):
        if len(world.mail) > before:
            world.deliver(len(world.mail) - 1)


def _agree(world: World, which: int) -> None:
    """A leader proposes an ISR, and hears what came of it."""
    before = len(world.mail)
    world.propose(_node(world, which))
    if len(world.mail) > before:
        world.deliver(len(world.mail) - 1)
        world.hear(_node(world, which))


def _move(world: World, which: int) -> None:
    nodes = list(world.nodes)
    target = [node for node in nodes[which % len(nodes) :] + nodes[: which % len(nodes)] if (which >> node) & 1]
    if len(target) > 1:
        with contextlib.suppress(InvalidReplicaAssignment):
            world.move(target)


def _cancel(world: World, _which: int) -> None:
    with contextlib.suppress(NoReassignmentInProgress, InvalidReplicaAssignment):
        world.move(None)


def _node(world: World, which: int) -> int:
    return which % len(world.nodes) + 1


def _write(world: World, which: int) -> None:
    leaders = [node_id for node_id, node in world.nodes.items() if isinstance(node.role, Leader)]
    if leaders:
        with contextlib.suppress(NotEnoughReplicas):
            world.write(leaders[which % len(leaders)], f"v{world.now_ms}.{len(world.said)}.{which}")
