"""Server-side assignors: which member of a consumer group is to have which partitions.

Owns the two that Kafka has: `uniform` (the default: even, sticky) and `range` (contiguous per topic, the same numbers
of like topics to the same member). Must not know of epochs, nor of who has what at the moment: sticky is to the
previous target.

Differs from Kafka: both look at racks, where those of members and replicas are known. Kafka 4.3 hands racks to its
assignors, but the two it has do not use them. Balance comes first: a partition goes to the rack of a replica only if
that does not unbalance the assignment.

Every assignor guarantees: each partition of a subscribed topic goes to exactly one member that is subscribed to
it, the same input gives the same output, and an output given back as the previous target gives itself.
"""

from collections.abc import Callable, Mapping
from typing import Final

from barnabas.core.groups.consumer.placing import Assignment, Infos, Members, MemberSpec, Placement, Target, TopicInfo
from barnabas.core.groups.consumer.ranges import assign_ranges
from barnabas.core.groups.consumer.spreading import Even, Uneven
from barnabas.core.groups.settings import RANGE, UNIFORM

__all__ = ["Assignment", "MemberSpec", "Target", "TopicInfo", "assign"]


def assign(name: str, members: Members, infos: Infos) -> dict[str, Target]:
    """The target of every member by the assignor of that name. `infos` has every topic that a member names."""
    if not members:
        return {}
    return _ASSIGNORS[name](members, infos)


def _assign_uniform(members: Members, infos: Infos) -> dict[str, Target]:
    subscriptions = {member.topic_ids for member in members.values()}
    placed = Placement(members, infos)
    if len(subscriptions) == 1:
        Even(placed).fill()
    else:
        Uneven(placed).fill()
    return placed.result()


_ASSIGNORS: Final[Mapping[str, Callable[[Members, Infos], dict[str, Target]]]] = {
    UNIFORM: _assign_uniform,
    RANGE: assign_ranges,
}
