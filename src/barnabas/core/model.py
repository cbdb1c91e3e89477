"""Small values that every layer uses: partitions, offsets, epochs.

Offsets, epochs and timestamps stay plain ``int``; what they mean is in the name of the variable:
``end_offset`` is exclusive, ``last_offset`` inclusive, ``_ms`` counts milliseconds since 1970.
"""

from typing import Final, NamedTuple

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
NO_NODE: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as the name of its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
