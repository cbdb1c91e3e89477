"""The parts of a log: what it shares with the other logs of its data directory, and what opening it found."""

from typing import NamedTuple

from barnabas.core.replica.leader_epochs import LeaderEpochs
from barnabas.core.replica.producers import NO_LIMIT, ProducerStates
from barnabas.storage.cache import OpenFiles
from barnabas.storage.checkpoints import Checkpoints
from barnabas.storage.health import DirectoryHealth
from barnabas.storage.segment import Segment


class LogContext(NamedTuple):
    """What a log shares with the others of its data directory."""

    files: OpenFiles
    checkpoints: Checkpoints
    health: DirectoryHealth
    max_producers: int = NO_LIMIT  # idempotent ones that each of them remembers


class Contents(NamedTuple):
    """What opening a partition directory found."""

    segments: list[Segment]
    epochs: LeaderEpochs
    producers: ProducerStates
    log_start_offset: int
    end_offset: int
    is_new: bool = False
    was_clean: bool = False
    flushed_offset: int | None = None  # where that is not the end: what belongs to the rest could not be written
    has_unwritten_epochs: bool = False
