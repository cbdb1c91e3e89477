"""Leader elections on request."""

from enum import IntEnum

from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.elections import elect_preferred, elect_unclean
from barnabas.core.metadata.image import Image, PartitionState
from barnabas.runtime.cluster_metadata import ClusterMetadata


class ElectionType(IntEnum):
    """The type of an election, numbered as in the protocol."""

    PREFERRED = 0
    UNCLEAN = 1


async def elect(metadata: ClusterMetadata, kind: ElectionType, topic: str, partition: int) -> None:
    """Elect the preferred replica of a partition, or any; refused if that is not needed or not possible."""

    def decide(image: Image) -> MetadataDecision[PartitionState]:
        if kind is ElectionType.PREFERRED:
            return elect_preferred(image, topic, partition)
        return elect_unclean(image, topic, partition)

    decide(metadata.image)  # mostly it is not needed: no reason to wait for a turn
    await metadata.commit(decide)
