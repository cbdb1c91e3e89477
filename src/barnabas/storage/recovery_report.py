"""What opening logs finds: a report for each, and the words for metadata that is missing."""

from dataclasses import dataclass, field

from barnabas.core.errors import CorruptLog
from barnabas.core.model import TopicPartition


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log found and did."""

    partition: TopicPartition
    was_clean: bool
    checked_bytes: int = 0
    cut_bytes: int = 0
    cut_segments: int = 0
    lost_to: int | None = None  # up to where an operator has given up records that are missing
    notes: list[str] = field(default_factory=list)


def metadata_missing(directory: str, what: str) -> CorruptLog:
    """Missing metadata is never accepted: without it, every partition would belong to a deleted topic."""
    return CorruptLog(
        f"{directory} {what}: it records which topics exist, and nothing here can be used without it. Restore the "
        "directory from a backup and start the node again; or, to start empty, use another data directory"
    )
