"""Placement: distinct nodes, bounded loads, racks apart, little moved."""

from collections import Counter
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.metadata.placement import load_limit, place
from tests.support.examples import examples


@st.composite
def clusters(draw: st.DrawFn) -> tuple[int, int, dict[int, str | None], str]:
    """A partition count, a replication factor, nodes with racks, a name."""
    ids = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=12, unique=True))
    choices: list[list[str | None]] = [[None], ["a"], ["a", "b"], ["a", "b", "c"], ["a", None]]
    racks = draw(st.sampled_from(choices))
    nodes = {node: draw(st.sampled_from(racks)) for node in ids}
    factor = draw(st.integers(1, min(5, len(ids))))
    return draw(st.integers(1, 60)), factor, nodes, draw(st.sampled_from(["t", "orders", "x.y"]))


@settings(max_examples=examples(400))
@given(clusters())
def test_replicas_are_distinct_and_loads_are_bounded(cluster: tuple[int, int, dict[int, str | None], str]) -> None:
    count, factor, nodes, name = cluster

    places = place(count, factor, nodes, name)

    assert len(places) == count
    for replicas in places:
        assert len(replicas) == len(set(replicas)) == factor
        assert nodes.keys() >= set(replicas)
    loads = Counter(node for replicas in places for node in replicas)
    leaders = Counter(replicas[0] for replicas in places)
    limits = limits_of(count, factor, nodes)
    assert {node: load for node, load in loads.items() if load > limits[node]} == {}
    if set(limits.values()) == {load_limit(count * factor, len(nodes))}:
        assert max(leaders.values()) <= load_limit(count, len(nodes))


def limits_of(count: int, factor: int, nodes: dict[int, str | None]) -> dict[int, int]:
    """The most replicas a node may have: 1.25 times the average, or what its rack has to take for want of others."""
    racks = {node: str(node) if rack is None else f"rack {rack}" for node, rack in nodes.items()}
    sizes = Counter(racks.values())
    most = next(n for n in range(1, factor + 1) if sum(min(n, size) for size in sizes.values()) >= factor)

    def held(size: int, level: float) -> float:
        return min(max(level * size, min(most - 1, size) * count), min(most, size) * count)

    low, high = 0.0, float(count)
    for _ in range(60):
        level = (low + high) / 2
        is_enough = sum(held(size, level) for size in sizes.values()) >= count * factor
        low, high = (low, level) if is_enough else (level, high)
    return {node: ceil(1.25 * held(sizes[rack], high) / sizes[rack] - 1e-6) for node, rack in racks.items()}


@settings(max_examples=examples(400))
@given(clusters())
def test_no_rack_has_a_second_replica_while_one_that_has_room_has_none(
    cluster: tuple[int, int, dict[int, str | None], str],
) -> None:
    count, factor, nodes, name = cluster
    racks = {node: str(node) if rack is None else f"rack {rack}" for node, rack in nodes.items()}
    sizes = Counter(racks.values())

    for replicas in place(count, factor, nodes, name):
        held = Counter(racks[node] for node in replicas)
        assert all(held[rack] >= min(max(held.values()) - 1, size) for rack, size in sizes.items())


def test_two_processes_of_one_host_share_no_partition_while_there_is_another_host() -> None:
    nodes: dict[int, str | None] = {1: "one", 2: "one", 3: "one", 4: "two"}

    for replicas in place(100, 2, nodes, "orders"):
        assert 4 in replicas


def test_replicas_share_a_host_where_there_is_no_other() -> None:
    assert {frozenset(replicas) for replicas in place(9, 2, {1: "one", 2: "one"}, "orders")} == {frozenset({1, 2})}


@settings(max_examples=examples(200))
@given(clusters(), st.permutations(range(12)))
def test_the_order_of_nodes_makes_no_difference(
    cluster: tuple[int, int, dict[int, str | None], str], order: list[int]
) -> None:
    count, factor, nodes, name = cluster
    ids = list(nodes)
    shuffled = {ids[index]: nodes[ids[index]] for index in order if index < len(ids)}

    assert place(count, factor, shuffled, name) == place(count, factor, nodes, name)


@settings(max_examples=examples(300))
@given(st.integers(2, 5), st.integers(1, 4), st.integers(1, 5), st.integers(1, 80), st.integers(0, 99))
def test_replicas_are_spread_over_racks_of_one_size(
    racks: int, nodes_per_rack: int, factor: int, count: int, name: int
) -> None:
    nodes: dict[int, str | None] = {node: f"rack {node % racks}" for node in range(racks * nodes_per_rack)}
    factor = min(factor, len(nodes))

    for replicas in place(count, factor, nodes, f"topic {name}"):
        assert len({nodes[node] for node in replicas}) == min(factor, racks)


@pytest.mark.parametrize("factor", [1, 3])
@pytest.mark.parametrize("node_count", [3, 4, 5, 10, 20])
def test_a_node_that_joins_takes_its_share_and_little_else_moves(node_count: int, factor: int) -> None:
    count = 1000
    before = place(count, factor, dict.fromkeys(range(node_count)), "t")
    after = place(count, factor, dict.fromkeys(range(node_count + 1)), "t")

    moved = sum(len(set(new) - set(old)) for old, new in zip(before, after, strict=True))

    share = count * factor / (node_count + 1)
    assert moved <= 1.75 * share


def test_a_cluster_of_one_node_holds_everything() -> None:
    assert place(3, 1, {7: None}, "t") == [(7,), (7,), (7,)]


def test_topics_of_one_partition_spread_over_the_nodes() -> None:
    leaders = Counter(place(1, 3, dict.fromkeys(range(3)), f"topic{n}")[0][0] for n in range(300))

    assert min(leaders.values()) > 60


def test_places_never_change() -> None:
    # Were this to change, the next node that joins would have nearly everything moved.
    nodes: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b"}
    assert place(5, 2, nodes, "orders") == [(4, 2), (2, 4), (2, 3), (4, 2), (3, 1)]
