"""Assignors: everything is assigned once, evenly, with few moves, near where it can be."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.groups.consumer.assignors import MemberSpec, Target, TopicInfo, assign
from barnabas.core.groups.settings import ASSIGNORS, RANGE, UNIFORM
from tests.support.examples import examples

T1, T2, T3 = (UUID(int=number) for number in (1, 2, 3))


def infos(*counts: int) -> dict[UUID, TopicInfo]:
    return {UUID(int=n): TopicInfo(UUID(int=n), count) for n, count in enumerate(counts, start=1)}


def load(target: Target) -> int:
    return sum(map(len, target.values()))


def moves(before: dict[str, Target], after: dict[str, Target]) -> int:
    """How many partitions somebody had that it has no more."""
    return sum(
        len(set(partitions) - set(after.get(member_id, {}).get(topic_id, ())))
        for member_id, target in before.items()
        for topic_id, partitions in target.items()
    )


def fed_back(members: dict[str, MemberSpec], result: dict[str, Target]) -> dict[str, MemberSpec]:
    return {member_id: member._replace(previous=result.get(member_id, {})) for member_id, member in members.items()}


# Range.


def test_range_gives_each_member_the_same_numbers_of_every_topic() -> None:
    both = frozenset({T1, T2})
    result = assign(RANGE, {"m0": MemberSpec(both), "m1": MemberSpec(both)}, infos(3, 3))
    assert result == {"m0": {T1: (0, 1), T2: (0, 1)}, "m1": {T1: (2,), T2: (2,)}}


def test_range_leaves_members_past_the_last_partition_with_nothing() -> None:
    members = {name: MemberSpec(frozenset({T1})) for name in ("m0", "m1", "m2")}
    assert assign(RANGE, members, infos(2)) == {"m0": {T1: (0,)}, "m1": {T1: (1,)}, "m2": {}}


def test_range_orders_static_members_by_instance_so_that_a_new_member_id_moves_nothing() -> None:
    one = frozenset({T1})
    before = assign(RANGE, {"x": MemberSpec(one, instance_id="i0"), "y": MemberSpec(one, instance_id="i1")}, infos(2))
    after = assign(RANGE, {"z": MemberSpec(one, instance_id="i0"), "y": MemberSpec(one, instance_id="i1")}, infos(2))
    assert before["x"] == after["z"]
    assert before["y"] == after["y"]


def test_range_counts_only_those_that_are_subscribed() -> None:
    members = {"m0": MemberSpec(frozenset({T1})), "m1": MemberSpec(frozenset({T1, T2}))}
    assert assign(RANGE, members, infos(2, 2)) == {"m0": {T1: (0,)}, "m1": {T1: (1,), T2: (0, 1)}}


def test_range_gives_partitions_to_members_in_a_rack_of_their_replicas() -> None:
    topics = {T1: TopicInfo(T1, 4, [("a",), ("b",), ("a", "b"), ("b",)])}
    one = frozenset({T1})
    result = assign(RANGE, {"m0": MemberSpec(one, rack="b"), "m1": MemberSpec(one, rack="a")}, topics)
    assert result == {"m0": {T1: (1, 3)}, "m1": {T1: (0, 2)}}


def test_range_keeps_its_ranges_when_racks_bring_nothing_nearer() -> None:
    one = frozenset({T1})
    members = {"m0": MemberSpec(one, rack="a"), "m1": MemberSpec(one, rack="b"), "m2": MemberSpec(one)}
    plain = assign(RANGE, members, infos(6))
    assert assign(RANGE, members, {T1: TopicInfo(T1, 6, [("c",)] * 6)}) == plain
    assert assign(RANGE, members, {T1: TopicInfo(T1, 6, [("a", "b")] * 6)}) == plain


def test_range_keeps_like_topics_together_and_near_where_all_of_them_are() -> None:
    both = frozenset({T1, T2})
    topics = {T1: TopicInfo(T1, 2, [("b", "c"), ("a",)]), T2: TopicInfo(T2, 2, [("b",), ("a", "b")])}
    result = assign(RANGE, {"m0": MemberSpec(both, rack="a"), "m1": MemberSpec(both, rack="b")}, topics)
    assert result == {"m0": {T1: (1,), T2: (1,)}, "m1": {T1: (0,), T2: (0,)}}


# Uniform.


def test_uniform_spreads_the_partitions_of_one_topic_over_the_members() -> None:
    both = frozenset({T1, T2})
    result = assign(UNIFORM, {"m0": MemberSpec(both), "m1": MemberSpec(both)}, infos(2, 2))
    assert result == {"m0": {T1: (0,), T2: (0,)}, "m1": {T1: (1,), T2: (1,)}}


def test_a_newcomer_takes_its_share_and_nothing_else_moves() -> None:
    one = frozenset({T1})
    members = {f"m{n}": MemberSpec(one) for n in range(4)}
    before = assign(UNIFORM, members, infos(20))
    after = assign(UNIFORM, fed_back({**members, "m4": MemberSpec(one)}, before), infos(20))
    assert [load(target) for target in after.values()] == [4] * 5
    assert moves(before, after) == 4


def test_what_a_leaver_had_is_dealt_out_and_nothing_else_moves() -> None:
    one = frozenset({T1})
    members = {f"m{n}": MemberSpec(one) for n in range(5)}
    before = assign(UNIFORM, members, infos(20))
    left = {member_id: member for member_id, member in fed_back(members, before).items() if member_id != "m2"}
    after = assign(UNIFORM, left, infos(20))
    assert moves({member_id: before[member_id] for member_id in left}, after) == 0


def test_partitions_go_to_members_in_a_rack_of_their_replicas() -> None:
    racks = [("a",), ("b",), ("a",), ("b",)]
    topics = {T1: TopicInfo(T1, 4, racks)}
    members = {"m0": MemberSpec(frozenset({T1}), rack="b"), "m1": MemberSpec(frozenset({T1}), rack="a")}
    assert assign(UNIFORM, members, topics) == {"m0": {T1: (1, 3)}, "m1": {T1: (0, 2)}}


def test_a_member_over_its_share_gives_up_what_is_far_first() -> None:
    topics = {T1: TopicInfo(T1, 4, [("a",), ("b",), ("a",), ("b",)])}
    one = frozenset({T1})
    members = {"m0": MemberSpec(one, {T1: (0, 1, 2, 3)}, "b"), "m1": MemberSpec(one, rack="a")}
    assert assign(UNIFORM, members, topics) == {"m0": {T1: (1, 3)}, "m1": {T1: (0, 2)}}


def test_balance_comes_before_racks() -> None:
    topics = {T1: TopicInfo(T1, 4, [("a",)] * 4)}
    one = frozenset({T1})
    result = assign(UNIFORM, {"m0": MemberSpec(one, rack="a"), "m1": MemberSpec(one, rack="b")}, topics)
    assert [load(target) for target in result.values()] == [2, 2]


def test_racks_count_among_different_subscriptions_too() -> None:
    topics = {T1: TopicInfo(T1, 2, [("b",), ("a",)]), T2: TopicInfo(T2, 1)}
    members = {
        "m0": MemberSpec(frozenset({T1}), rack="a"),
        "m1": MemberSpec(frozenset({T1}), rack="b"),
        "m2": MemberSpec(frozenset({T2})),
    }
    assert assign(UNIFORM, members, topics) == {"m0": {T1: (1,)}, "m1": {T1: (0,)}, "m2": {T2: (0,)}}


def test_members_that_could_help_out_do_when_subscriptions_differ() -> None:
    members = {
        "m0": MemberSpec(frozenset({T1}), {T1: (0, 1, 2, 3, 4, 5)}),
        "m1": MemberSpec(frozenset({T1, T2}), {T2: (0, 1)}),
        "m2": MemberSpec(frozenset({T2})),
    }
    result = assign(UNIFORM, members, infos(6, 2))
    assert load(result["m0"]) == 3
    assert load(result["m1"]) == 3
    assert load(result["m2"]) == 2


@pytest.mark.parametrize("name", ASSIGNORS)
def test_nobody_to_assign_to_and_nothing_to_assign(name: str) -> None:
    assert assign(name, {}, infos(3)) == {}
    assert assign(name, {"m0": MemberSpec(frozenset())}, infos(3)) == {"m0": {}}
    assert assign(name, {"m0": MemberSpec(frozenset({T1}))}, infos(0)) == {"m0": {}}


# Whatever the members.

RACKS = st.sampled_from(["a", "b", "c"])


@st.composite
def groups(draw: st.DrawFn, *, is_even: bool | None = None) -> tuple[dict[str, MemberSpec], dict[UUID, TopicInfo]]:
    ids = [UUID(int=number) for number in range(1, draw(st.integers(1, 4)) + 1)]
    topics = {}
    for topic_id in ids:
        count = draw(st.integers(0, 9))
        racks = draw(st.none() | st.lists(st.sets(RACKS, min_size=1, max_size=2), min_size=count, max_size=count))
        topics[topic_id] = TopicInfo(topic_id, count, racks)
    everything = draw(st.frozensets(st.sampled_from(ids), min_size=1))
    had = st.dictionaries(st.sampled_from([*ids, UUID(int=99)]), st.sets(st.integers(0, 10)), max_size=3)
    members = {}
    for number in range(draw(st.integers(1, 7))):
        subscribed = everything if is_even else draw(st.frozensets(st.sampled_from(ids)))
        instance_id = draw(st.none() | st.just(f"i{number}"))
        members[f"m{number}"] = MemberSpec(subscribed, draw(had), draw(st.none() | RACKS), instance_id)
    return members, topics


def check(members: dict[str, MemberSpec], topics: dict[UUID, TopicInfo], result: dict[str, Target]) -> None:
    """Every partition that somebody reads is assigned once, to somebody who reads it."""
    given_out = [(t, p) for target in result.values() for t, partitions in target.items() for p in partitions]
    read = {topic_id for member in members.values() for topic_id in member.topic_ids}
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == {(t, p) for t in read for p in range(topics[t].partition_count)}
    assert all(set(result[member_id]) <= member.topic_ids for member_id, member in members.items())
    assert set(result) == set(members)


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=examples(150), deadline=None)
@given(group=groups())
def test_every_partition_is_assigned_once_and_a_second_time_changes_nothing(
    name: str, group: tuple[dict[str, MemberSpec], dict[UUID, TopicInfo]]
) -> None:
    members, topics = group
    result = assign(name, members, topics)
    check(members, topics, result)
    assert assign(name, fed_back(members, result), topics) == result
    for one in members:
        for other in members:
            if name == UNIFORM and members[one].topic_ids == members[other].topic_ids:
                assert abs(load(result[one]) - load(result[other])) <= 1


def near(members: dict[str, MemberSpec], topics: dict[UUID, TopicInfo], result: dict[str, Target]) -> int:
    """How many partitions have a replica in the rack of their member."""
    return sum(
        members[member_id].rack in racks[partition]
        for member_id, target in result.items()
        for topic_id, partitions in target.items()
        if (racks := topics[topic_id].racks) is not None
        for partition in partitions
    )


def without_racks(topics: dict[UUID, TopicInfo]) -> dict[UUID, TopicInfo]:
    return {topic_id: info._replace(racks=None) for topic_id, info in topics.items()}


@settings(max_examples=examples(200), deadline=None)
@given(group=groups())
def test_range_with_racks_gives_everybody_as_many_of_each_topic_as_without(
    group: tuple[dict[str, MemberSpec], dict[UUID, TopicInfo]],
) -> None:
    members, topics = group
    counts = [
        {member_id: {t: len(partitions) for t, partitions in target.items()} for member_id, target in result.items()}
        for result in (assign(RANGE, members, topics), assign(RANGE, members, without_racks(topics)))
    ]
    assert counts[0] == counts[1]


@settings(max_examples=examples(200), deadline=None)
@given(group=groups(is_even=True))
def test_uniform_with_racks_is_as_even_as_without_and_stays_as_it_is(
    group: tuple[dict[str, MemberSpec], dict[UUID, TopicInfo]],
) -> None:
    members, topics = group
    result = assign(UNIFORM, members, topics)
    plain = assign(UNIFORM, members, without_racks(topics))
    assert sorted(map(load, result.values())) == sorted(map(load, plain.values()))
    assert assign(UNIFORM, fed_back(members, result), topics) == result


def of_one_topic(
    group: tuple[dict[str, MemberSpec], dict[UUID, TopicInfo]],
) -> tuple[dict[str, MemberSpec], dict[UUID, TopicInfo]]:
    """A group that begins, with one topic, so that nothing but racks and shares decides."""
    members, topics = group
    one = frozenset({T1})
    return {name: spec._replace(topic_ids=one, previous={}) for name, spec in members.items()}, {T1: topics[T1]}


@settings(max_examples=examples(200), deadline=None)
@given(group=groups().map(of_one_topic))
def test_uniform_gives_a_partition_away_only_when_whoever_is_near_has_as_much(
    group: tuple[dict[str, MemberSpec], dict[UUID, TopicInfo]],
) -> None:
    members, topics = group
    racks = topics[T1].racks or [()] * topics[T1].partition_count
    result = assign(UNIFORM, members, topics)
    for member_id, target in result.items():
        far = [partition for partition in target.get(T1, ()) if members[member_id].rack not in racks[partition]]
        near_far = [other for other in members if any(members[other].rack in racks[partition] for partition in far)]
        assert all(load(result[other]) >= load(target) for other in near_far)


@settings(max_examples=examples(200), deadline=None)
@given(group=groups().map(of_one_topic))
def test_range_with_racks_is_no_farther_than_without(
    group: tuple[dict[str, MemberSpec], dict[UUID, TopicInfo]],
) -> None:
    members, topics = group
    plain = assign(RANGE, members, without_racks(topics))
    assert near(members, topics, assign(RANGE, members, topics)) >= near(members, topics, plain)


@settings(max_examples=examples(200), deadline=None)
@given(group=groups())
def test_different_subscriptions_with_racks_are_as_level_as_they_get(
    group: tuple[dict[str, MemberSpec], dict[UUID, TopicInfo]],
) -> None:
    """Nobody has a partition that somebody with two fewer could take."""
    members, topics = group
    result = assign(UNIFORM, members, topics)
    for target in result.values():
        for topic_id in target:
            for taker, spec in members.items():
                assert topic_id not in spec.topic_ids or load(result[taker]) >= load(target) - 1


@settings(max_examples=examples(200), deadline=None)
@given(group=groups(is_even=True), joins=st.integers(0, 2), leaves=st.integers(0, 2))
def test_equal_subscriptions_are_even_and_move_no_more_than_they_must(
    group: tuple[dict[str, MemberSpec], dict[UUID, TopicInfo]], joins: int, leaves: int
) -> None:
    members, topics = group
    topics = without_racks(topics)
    before = assign(UNIFORM, members, topics)
    after_members = fed_back(dict(list(members.items())[leaves:]), before)
    subscribed = next(iter(members.values())).topic_ids
    after_members |= {f"n{number}": MemberSpec(subscribed) for number in range(joins)}
    after = assign(UNIFORM, after_members, topics)
    check(after_members, topics, after) if after_members else None
    total = sum(map(load, after.values()))
    share, extra = divmod(total, len(after)) if after else (0, 0)
    loads = sorted((load(target) for target in after.values()), reverse=True)
    assert loads == [share + 1] * extra + [share] * (len(after) - extra)
    # Those that stay keep what fits in their share, and no more than the extras are in question.
    stay = {member_id: target for member_id, target in before.items() if member_id in after}
    kept = sorted((load(target) for target in stay.values()), reverse=True)
    must = sum(max(0, count - share - (place < extra)) for place, count in enumerate(kept))
    assert moves(stay, after) == must


def test_a_large_group_is_assigned_without_quadratic_work() -> None:
    topics = infos(*[100] * 100)
    members = {f"m{number:04}": MemberSpec(frozenset(topics), rack="a") for number in range(1_000)}
    before = assign(UNIFORM, members, topics)
    after = assign(UNIFORM, fed_back({**members, "new": MemberSpec(frozenset(topics))}, before), topics)
    assert {load(target) for target in before.values()} == {10}
    assert moves(before, after) == 9
