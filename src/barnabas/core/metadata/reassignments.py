"""Decisions about moving the replicas of a partition to other nodes.

Today nothing can be moved: a target equals the current replicas, or is refused. So no reassignment is ever in progress.
"""

from collections.abc import Sequence

from barnabas.core.errors import InvalidReplicaAssignment, InvalidReplicationFactor, NoReassignmentInProgress
from barnabas.core.metadata.assignments import check_replicas
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image, PartitionState


def reassign(
    image: Image, topic: str, partition: int, replicas: Sequence[int] | None, *, may_change_factor: bool = True
) -> MetadataDecision[PartitionState]:
    """Move a partition to these nodes, the first of them its preferred leader; None cancels a reassignment."""
    state = image.get_topic(topic).get_partition(partition)
    if replicas is None:
        raise NoReassignmentInProgress(f"no reassignment of {topic}-{partition} is in progress")
    check_replicas(image, replicas)
    if not may_change_factor and len(replicas) != len(state.replicas):
        raise InvalidReplicationFactor(
            f"{topic}-{partition} has {len(state.replicas)} replica(s), and the request does not allow {len(replicas)}"
        )
    if tuple(replicas) != state.replicas:
        raise InvalidReplicaAssignment(
            f"{topic}-{partition} is on {list(state.replicas)} and cannot be moved to {list(replicas)}: "
            "replicas cannot be moved yet"
        )
    return MetadataDecision([], state)
