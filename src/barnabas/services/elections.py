"""Elections of leaders that a client asks for."""

from enum import IntEnum

from barnabas.core.metadata.decision import Decision
from barnabas.core.metadata.elections import elect_preferred, elect_unclean
from barnabas.core.metadata.image import Image, PartitionState
from barnabas.runtime.metadata_log import ClusterMetadata


class ElectionType(IntEnum):
    """Who is to lead, numbered as in the protocol."""

    PREFERRED = 0
    UNCLEAN = 1


async def elect(metadata: ClusterMetadata, kind: ElectionType, topic: str, partition: int) -> None:
    """Have a partition led by its first replica, or by anyone at all; refused when it is, or cannot be."""

    def decide(image: Image) -> Decision[PartitionState]:
        if kind is ElectionType.PREFERRED:
            return elect_preferred(image, topic, partition)
        return elect_unclean(image, topic, partition)

    decide(metadata.image)  # mostly it is not needed: no reason to wait for a turn
    await metadata.commit(decide)
