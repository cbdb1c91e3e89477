"""Which nodes hold the replicas of new partitions: as the request assigns them, after checks, or by placement."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from barnabas.core.errors import InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.placement import place
from barnabas.core.metadata.records import PartitionRecord

MAX_NEW_PARTITIONS: Final = 100_000  # that one request may make


def in_order(assignments: Mapping[int, Sequence[int]]) -> list[Sequence[int]]:
    """The assignments of partitions 0, 1, ...; a gap is refused."""
    if sorted(assignments) != list(range(len(assignments))):
        raise InvalidReplicaAssignment(
            "partitions should be a consecutive 0-based integer sequence, which "
            f"{', '.join(str(partition) for partition in sorted(assignments)[:10])} is not"
        )
    return [assignments[partition] for partition in range(len(assignments))]


def check_assignments(
    image: Image, assignments: Sequence[Sequence[int]], *, replication_factor: int | None = None
) -> list[tuple[int, ...]]:
    """Refuse assignments that the cluster cannot hold, or that are not all of one size."""
    check_new_count(len(assignments))
    for replicas in assignments:
        if replication_factor is None:
            replication_factor = len(replicas)
        check_replicas(image, replicas)
        if len(replicas) != replication_factor:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
                f"not consistent with previous partitions, which have {replication_factor} replica(s)."
            )
    return [tuple(replicas) for replicas in assignments]


def check_replicas(image: Image, replicas: Sequence[int]) -> None:
    """Refuse replicas that the cluster cannot hold: none, on an unknown node, or twice on one."""
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    for index, node in enumerate(replicas):
        if node not in image.nodes:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {node}, but no such broker is registered."
            )
        if node in replicas[:index]:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes the broker {node} more than once."
            )


def place_partitions(
    image: Image, name: str, *, partition_count: int, replication_factor: int
) -> list[tuple[int, ...]]:
    """Find places for so many partitions of a topic."""
    if replication_factor <= 0:
        raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
    if partition_count <= 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    racks = {node_id: node.rack for node_id, node in image.nodes.items() if node.is_active}
    if replication_factor > len(racks):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {_counted(image, active=len(racks))}."
        )
    return place(partition_count, replication_factor, racks, name)


def _counted(image: Image, *, active: int) -> str:
    registered = f"{len(image.nodes)} broker(s) are registered"
    return registered if active == len(image.nodes) else f"{registered}, and {active} of them active"


def check_new_count(count: int) -> None:
    """Refuse more new partitions than one request may make."""
    if count > MAX_NEW_PARTITIONS:
        raise InvalidPartitions(f"{count} new partitions are over the limit of {MAX_NEW_PARTITIONS} a request")


def new_partitions(
    image: Image, topic_id: UUID, first: int, places: Sequence[tuple[int, ...]]
) -> list[PartitionRecord]:
    """The records of new partitions, from number `first` on: active replicas are in sync, the first of them leads."""
    active = frozenset(node_id for node_id, node in image.nodes.items() if node.is_active)
    return [_new_partition(topic_id, first + index, replicas, active) for index, replicas in enumerate(places)]


def _new_partition(
    topic_id: UUID, partition: int, replicas: tuple[int, ...], active: frozenset[int]
) -> PartitionRecord:
    isr = replicas if active.issuperset(replicas) else tuple(node for node in replicas if node in active)
    if not isr:
        raise InvalidReplicaAssignment(
            f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
            "controlled shutdown."
        )
    return PartitionRecord(topic_id, partition, replicas, isr, isr[0], 0, 0)
