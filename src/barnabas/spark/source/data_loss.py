"""Offsets that were to be read and are gone: found, named, and refused or skipped.

Records go when a topic is deleted, when retention or DeleteRecords cut off its beginning, and when a topic was made
anew under the same name: then it has another topic id, or, with brokers that have none, is shorter than what was read
of it. What comes after the start of an open transaction is not gone: it cannot be read yet.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.core.model import TopicPartition
from barnabas.spark.source.refusals import DataLoss, NotCommittedYet

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
            why = f"it ends at {self.latest} now, so the topic was created again or truncated"
        return f"{self.key}: {gone}, {why}"


@dataclass(frozen=True, slots=True)
class MadeAnew:
    """A topic was deleted and created again since its offsets were noted: they were of other records."""

    topic: str

    def __str__(self) -> str:
        return f"topic {self.topic!r} was deleted and created again, so its offsets are those of other records"


@dataclass(frozen=True, slots=True)
class Backwards:
    """A range whose end is before its start: often one that starts behind the end of its partition."""

    key: TopicPartition
    start_offset: int
    end_offset: int

    def __str__(self) -> str:
        return f"{self.key} is to be read from offset {self.start_offset} on, and ends before it, at {self.end_offset}"


@dataclass(frozen=True, slots=True)
class Beyond:
    """A range that options end behind the end of its partition: what they name was never there, or is gone."""

    key: TopicPartition
    end_offset: int
    latest: int

    def __str__(self) -> str:
        return f"{self.key} is to be read up to offset {self.end_offset}, and ends before that, at {self.latest}"


@dataclass(frozen=True, slots=True)
class Uncommitted:
    """The offsets from `start_offset` up to `end_offset`, exclusive, exist, behind the start of an open transaction."""

    key: TopicPartition
    start_offset: int
    end_offset: int

    def __str__(self) -> str:
        return (
            f"{self.key} cannot be read up to offset {self.end_offset} yet: a transaction that began at "
            f"{self.start_offset} is open. Wait for its end, or set the option isolation.level to read_uncommitted"
        )


def report_loss(losses: Iterable[Loss | MadeAnew | Backwards | Beyond], *, fail: bool) -> None:
    """Refuse because of lost records, or warn of them."""
    found = list(losses)
    if not found:
        return
    if fail:
        said = "; ".join(str(each) for each in found)
        raise DataLoss(f"{_heading(found)}: {said}. To go on without them, set the option failOnDataLoss to false")
    for each in found:
        _log.warning("skipping missing records: %s", each)


def _heading(found: list[Loss | MadeAnew | Backwards | Beyond]) -> str:
    if all(isinstance(each, Backwards) for each in found):
        return "nothing can be read"
    is_lost = any(isinstance(each, (Loss, MadeAnew)) for each in found)
    return "records were lost" if is_lost else "requested records do not exist"


def report_uncommitted(found: Iterable[Uncommitted], *, fail: bool) -> None:
    """Refuse to read less than requested, or warn of it."""
    for each in found:
        if fail:
            raise NotCommittedYet(str(each))
        _log.warning("%s", each)
