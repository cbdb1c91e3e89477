"""Contiguous ranges of every topic, the same numbers of like topics to the same member: the work of the range assignor.

Topics are alike when they have the same subscribers and as many partitions; their partitions of one number stay
together. The number of partitions of a member is fixed before racks are considered, so racks do not unbalance: if racks
are known, the same counts are filled with partitions in the member's rack, if that places more of them there than the
plain ranges do.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from uuid import UUID

from barnabas.core.groups.consumer.placing import Infos, Members, MemberSpec, Target

# By the number of a partition: the member that gets it.
Ranges = dict[int, str]


def assign_ranges(members: Members, infos: Infos) -> dict[str, Target]:
    """Static members first, by instance id, so that a restart under another member id changes nothing."""
    order = sorted(members, key=lambda member_id: _order(member_id, members[member_id]))
    result: dict[str, Target] = {member_id: {} for member_id in order}
    for topic_ids, subscribers in _alike(order, members, infos):
        given = _assign_alike(subscribers, topic_ids, members, infos)
        numbers: dict[str, list[int]] = defaultdict(list)
        for partition in sorted(given):
            numbers[given[partition]].append(partition)
        for member_id, partitions in numbers.items():
            result[member_id].update(dict.fromkeys(topic_ids, tuple(partitions)))
    return result


def _order(member_id: str, member: MemberSpec) -> tuple[bool, str]:
    return (member.instance_id is None, member.instance_id or member_id)


def _alike(order: Sequence[str], members: Members, infos: Infos) -> Iterable[tuple[list[UUID], tuple[str, ...]]]:
    """Topics that are alike, and who is subscribed to them."""
    subscribers: dict[UUID, list[str]] = defaultdict(list)
    for member_id in order:
        for topic_id in members[member_id].topic_ids:
            subscribers[topic_id].append(member_id)
    alike: dict[tuple[int, tuple[str, ...]], list[UUID]] = defaultdict(list)
    for topic_id in sorted(subscribers):
        alike[infos[topic_id].partition_count, tuple(subscribers[topic_id])].append(topic_id)
    return ((topic_ids, names) for (_, names), topic_ids in alike.items())


def _assign_alike(subscribers: Sequence[str], topic_ids: Sequence[UUID], members: Members, infos: Infos) -> Ranges:
    count = infos[topic_ids[0]].partition_count
    shares, extra = divmod(count, len(subscribers))
    room = {member_id: shares + (position < extra) for position, member_id in enumerate(subscribers)}
    plain = _fill({}, range(count), dict(room))
    near = _racks(topic_ids, infos)
    if near is None or all(members[member_id].rack is None for member_id in subscribers):
        return plain
    close = _fill_near(near, room, members)
    return close if _count_near(close, near, members) > _count_near(plain, near, members) else plain


def _racks(topic_ids: Sequence[UUID], infos: Infos) -> list[frozenset[str]] | None:
    """The racks in which every one of the topics has a replica, for each number; None if none is known."""
    known = [racks for topic_id in topic_ids if (racks := infos[topic_id].racks) is not None]
    if not known:
        return None
    return [frozenset(each[0]).intersection(*each[1:]) for each in zip(*known, strict=True)]


def _fill(given: Ranges, partitions: Iterable[int], room: dict[str, int]) -> Ranges:
    """Give partitions in their order to members in theirs, each as many as it has room for."""
    takers = (member_id for member_id, left in room.items() for _ in range(left))
    return {**given, **dict(zip(partitions, takers, strict=True))}


def _fill_near(near: Sequence[frozenset[str]], room: dict[str, int], members: Members) -> Ranges:
    """Give partitions to members in a rack of theirs, those with least choice first; the rest goes in ranges."""
    by_rack: dict[str, list[str]] = defaultdict(list)
    room_of: dict[str, int] = defaultdict(int)
    for member_id in reversed(room):
        rack = members[member_id].rack
        if rack is not None and room[member_id]:
            by_rack[rack].append(member_id)
            room_of[rack] += room[member_id]
    choices = [sorted(rack for rack in racks if rack in by_rack) for racks in near]
    given: Ranges = {}
    for partition in sorted(range(len(near)), key=lambda partition: (len(choices[partition]), partition)):
        rack = max(choices[partition], key=lambda rack: room_of[rack], default=None)
        if rack is None or not room_of[rack]:
            continue
        taker = by_rack[rack][-1]
        given[partition] = taker
        room[taker] -= 1
        room_of[rack] -= 1
        if not room[taker]:
            by_rack[rack].pop()
    return _fill(given, (partition for partition in range(len(near)) if partition not in given), room)


def _count_near(given: Ranges, near: Sequence[frozenset[str]], members: Members) -> int:
    return sum(members[member_id].rack in near[partition] for partition, member_id in given.items())
