"""What clients and replicas move through a topic on this node: integers that all of its partitions share."""

from typing import Final


class Traffic:
    """The counts of one topic since the node started."""

    __slots__ = ("bytes_in", "bytes_out", "failed_fetches", "failed_produces", "records_in", "replica_bytes_out")

    def __init__(self) -> None:
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0  # to consumers
        self.replica_bytes_out = 0  # to followers
        self.failed_produces = 0  # batches that were refused
        self.failed_fetches = 0


UNCOUNTED: Final = Traffic()
"""That of partitions which belong to no topic that is served: in tests."""
