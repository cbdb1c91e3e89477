"""Offsets that were to be read and are gone: found, named, and refused or skipped.

Records go when a topic is deleted, when retention or DeleteRecords cut off its beginning, and when a topic was made
anew under the same name, so that it is shorter than what was read of it. One that has grown longer than that again
cannot be told from the old one by its offsets.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.core.model import TopicPartition
from barnabas.spark.source.refusals import DataLoss

_log = logging.getLogger("barnabas.spark")


@dataclass(frozen=True, slots=True)
class Loss:
    """The offsets from `start_offset` up to `end_offset`, exclusive, are gone; an end of None is not known.

    `earliest` and `latest` are what the partition has now, None where it does not exist any more.
    """

    key: TopicPartition
    start_offset: int
    end_offset: int | None
    earliest: int | None
    latest: int | None

    def __str__(self) -> str:
        if self.end_offset is None:
            gone = f"offsets from {self.start_offset} on are gone"
        elif self.end_offset - self.start_offset == 1:
            gone = f"offset {self.start_offset} is gone"
        else:
            gone = f"offsets {self.start_offset} to {self.end_offset - 1} are gone"
        if self.earliest is None:
            why = "the partition does not exist any more"
        elif self.start_offset < self.earliest:
            why = f"it begins at {self.earliest} now"
        else:
            why = f"it ends at {self.latest} now, so the topic was made anew or cut short"
        return f"{self.key}: {gone}, {why}"


def report_loss(losses: Iterable[Loss], *, fail: bool) -> None:
    """Refuse with all that is gone, or warn of it."""
    said = [str(loss) for loss in losses]
    if not said:
        return
    if fail:
        raise DataLoss(
            f"records were lost: {'; '.join(said)}. To go on without them, set the option failOnDataLoss to false"
        )
    for line in said:
        _log.warning("skipping what was lost: %s", line)
