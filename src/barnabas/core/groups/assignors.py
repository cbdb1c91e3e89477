"""Server-side assignors: which member of a consumer group is to have which partitions.

Owns the two that Kafka has: `uniform` (the default: even, sticky, rack-aware) and `range` (contiguous per topic, the
same numbers of each topic to the same member). Must not know of epochs, nor of who has what at the moment: sticky is
to the previous target.

What every assignor holds to: each partition of a subscribed topic goes to exactly one member that is subscribed to
it, the same input gives the same output, and an output given back as the previous target gives itself.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from barnabas.core.groups.placing import Assignment, Infos, Members, MemberSpec, Placed, Target, TopicInfo
from barnabas.core.groups.spreading import Even, Uneven

__all__ = ["ASSIGNORS", "RANGE", "UNIFORM", "Assignment", "MemberSpec", "Target", "TopicInfo", "assign"]

UNIFORM: Final = "uniform"
RANGE: Final = "range"


def assign(name: str, members: Members, infos: Infos) -> dict[str, Target]:
    """The target of every member by the assignor of that name. `infos` has every topic that a member names."""
    if not members:
        return {}
    return _ASSIGNORS[name](members, infos)


def _assign_uniform(members: Members, infos: Infos) -> dict[str, Target]:
    subscriptions = {member.topic_ids for member in members.values()}
    placed = Placed(members, infos)
    if len(subscriptions) == 1:
        Even(placed).fill()
    else:
        Uneven(placed).fill()
    return placed.result()


def _assign_range(members: Members, infos: Infos) -> dict[str, Target]:
    """Static members first, by instance id, so that a restart under another member id changes nothing."""
    order = sorted(members, key=lambda member_id: _range_order(member_id, members[member_id]))
    subscribers: dict[UUID, list[str]] = defaultdict(list)
    for member_id in order:
        for topic_id in members[member_id].topic_ids:
            subscribers[topic_id].append(member_id)
    result: dict[str, Target] = {member_id: {} for member_id in order}
    for topic_id in sorted(subscribers):
        shares, extra = divmod(infos[topic_id].partition_count, len(subscribers[topic_id]))
        start = 0
        # With fewer partitions than members, those past the last one get nothing.
        for position, member_id in enumerate(subscribers[topic_id] if shares else subscribers[topic_id][:extra]):
            end = start + shares + (position < extra)
            result[member_id][topic_id] = tuple(range(start, end))
            start = end
    return result


def _range_order(member_id: str, member: MemberSpec) -> tuple[bool, str]:
    return (member.instance_id is None, member.instance_id or member_id)


_ASSIGNORS: Final[Mapping[str, Callable[[Members, Infos], dict[str, Target]]]] = {
    UNIFORM: _assign_uniform,
    RANGE: _assign_range,
}
ASSIGNORS: Final[tuple[str, ...]] = tuple(_ASSIGNORS)
