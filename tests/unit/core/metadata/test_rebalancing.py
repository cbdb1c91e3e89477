"""Plans for moving replicas: even over nodes and racks, off a node, more or fewer of them, and little at a time."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import InvalidReplicationFactor
from barnabas.core.metadata.placement import place
from barnabas.core.metadata.rebalancing import Move, PartitionReplicas, empty_node, rebalance, with_factor


def after(partitions: Sequence[PartitionReplicas], moves: Sequence[Move]) -> list[PartitionReplicas]:
    moved = {(move.topic, move.partition): move for move in moves}
    result = []
    for each in partitions:
        move = moved.get((each.topic, each.partition))
        assert move is None or move.before == each.replicas
        result.append(each if move is None else each._replace(replicas=move.after))
    return result


def loads(partitions: Sequence[PartitionReplicas]) -> Counter[int]:
    return Counter(node for each in partitions for node in each.replicas)


def leads(partitions: Sequence[PartitionReplicas]) -> Counter[int]:
    return Counter(each.replicas[0] for each in partitions)


def spread(counts: Counter[int], nodes: Sequence[int]) -> int:
    return max(counts[node] for node in nodes) - min(counts[node] for node in nodes)


def test_an_even_cluster_is_left_alone() -> None:
    partitions = [
        PartitionReplicas("a", 0, (1, 2)),
        PartitionReplicas("a", 1, (2, 3)),
        PartitionReplicas("a", 2, (3, 1)),
    ]

    assert rebalance(partitions, dict.fromkeys((1, 2, 3))) == []


def test_a_new_node_takes_its_share_and_nothing_else_moves() -> None:
    partitions = [PartitionReplicas("a", number, (number % 3 + 1, (number + 1) % 3 + 1)) for number in range(12)]

    moves = rebalance(partitions, dict.fromkeys((1, 2, 3, 4)))

    assert sum(len(move.added) for move in moves) == 6
    assert {node for move in moves for node in move.added} == {4}
    balanced = after(partitions, moves)
    assert set(loads(balanced).values()) == {6}
    assert set(leads(balanced).values()) == {3}


def test_racks_without_a_replica_get_one() -> None:
    racks = {1: "x", 2: "x", 3: "y", 4: "y"}
    partitions = [PartitionReplicas("a", 0, (1, 2)), PartitionReplicas("a", 1, (3, 4))]

    balanced = after(partitions, rebalance(partitions, racks))

    for each in balanced:
        assert {racks[node] for node in each.replicas} == {"x", "y"}


def test_leaders_are_evened_out_over_a_node_between_them() -> None:
    """1 leads three, and shares none with 3: 2 takes one of 1's, and gives one of its own to 3."""
    partitions = [
        PartitionReplicas("a", 0, (1, 2)),
        PartitionReplicas("a", 1, (1, 2)),
        PartitionReplicas("a", 2, (1, 2)),
        PartitionReplicas("a", 3, (2, 3)),
        PartitionReplicas("a", 4, (2, 3)),
    ]
    nodes = dict.fromkeys((1, 2, 3))

    balanced = after(partitions, rebalance(partitions, nodes))

    assert spread(leads(balanced), (1, 2, 3)) <= 1


def test_a_node_is_emptied_and_what_it_does_not_hold_stays() -> None:
    racks = {1: "x", 2: "y", 3: "z", 4: "x"}
    partitions = [
        PartitionReplicas("a", 0, (1, 2, 3)),
        PartitionReplicas("a", 1, (4, 2, 3)),
        PartitionReplicas("a", 2, (2, 1, 3)),
    ]

    moves = empty_node(partitions, racks, 1)

    assert moves == [Move("a", 0, (1, 2, 3), (4, 2, 3)), Move("a", 2, (2, 1, 3), (2, 4, 3))]


def test_a_node_is_not_emptied_when_too_few_would_be_left() -> None:
    with pytest.raises(InvalidReplicationFactor, match=r"a-0 has 2 replica\(s\), and there are only 1 node\(s\)"):
        empty_node([PartitionReplicas("a", 0, (1, 2))], {1: None, 2: None}, 1)


def test_a_topic_gets_more_replicas_and_fewer_and_keeps_its_preferred_leaders() -> None:
    nodes = dict.fromkeys((1, 2, 3))
    partitions = [PartitionReplicas("a", 0, (1,)), PartitionReplicas("a", 1, (2,)), PartitionReplicas("b", 0, (3,))]

    grown = after(partitions, with_factor(partitions, nodes, "a", 3))
    assert [(each.replicas[0], len(each.replicas)) for each in grown] == [(1, 3), (2, 3), (3, 1)]
    shrunk = after(grown, with_factor(grown, nodes, "a", 2))
    assert [(each.replicas[0], len(each.replicas)) for each in shrunk] == [(1, 2), (2, 2), (3, 1)]
    with pytest.raises(InvalidReplicationFactor):
        with_factor(partitions, nodes, "a", 4)


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 3)), min_size=1, max_size=4),
    st.integers(3, 6),
    st.integers(0, 3),
)
def test_any_cluster_that_grows_is_even_afterwards(topics: list[tuple[int, int]], count: int, added: int) -> None:
    before, nodes = dict.fromkeys(range(count)), dict.fromkeys(range(count + added))
    partitions = [
        PartitionReplicas(f"t{number}", partition, replicas)
        for number, (size, factor) in enumerate(topics)
        for partition, replicas in enumerate(place(size, factor, before, f"t{number}"))
    ]

    moves = rebalance(partitions, nodes)
    balanced = after(partitions, moves)

    assert spread(loads(balanced), list(nodes)) <= 1
    assert all(len(set(each.replicas)) == len(each.replicas) for each in balanced)
    assert [len(each.replicas) for each in balanced] == [len(each.replicas) for each in partitions]
    assert rebalance(balanced, nodes) == [], "once is enough"


@given(st.integers(1, 40), st.integers(2, 3), st.lists(st.sampled_from("xyz"), min_size=4, max_size=7))
def test_spread_over_racks_is_not_given_up(size: int, factor: int, racks: list[str]) -> None:
    nodes = dict(enumerate(racks))
    partitions = [
        PartitionReplicas("a", each, replicas) for each, replicas in enumerate(place(size, factor, nodes, "a"))
    ]

    for each in after(partitions, rebalance(partitions, nodes)):
        assert len({nodes[node] for node in each.replicas}) == min(factor, len(set(racks)))
