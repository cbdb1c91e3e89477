"""A share: what one task has of one batch, and how its transaction and its progress are called.

Spark gives a batch that is run again the same query id, batch id and rows for each task: these names therefore find
what an earlier run left. Every attempt at a task has a transactional id of its own, since two may be under way at once
and only the driver learns which of them counts. The progress is an offset that a consumer group commits, batch id + 1,
in the transaction of the share itself, for a partition of a topic that has no records; with it goes how many rows the
share had.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext

from barnabas.core.errors import InvalidRequest

PROGRESS_PARTITIONS: Final = 50
TASK_PARTITIONS: Final = 40  # of these; the others are for what the driver intends
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Share:
    """A task's rows of one batch of a query, or of a job, in one attempt at that task."""

    owner: str  # the query's id, or the job's
    task: int
    batch_id: int
    attempt: int = 0

    def transactional_id(self, prefix: str) -> str:
        return share_id(prefix, self.owner, self.task, self.attempt)

    def group(self, prefix: str) -> str:
        """Tasks that are more than the progress topic has partitions go on in another group."""
        number = self.task // TASK_PARTITIONS
        return f"{prefix}{self.owner}-{number}" if number else f"{prefix}{self.owner}"

    @property
    def progress_partition(self) -> int:
        return self.task % TASK_PARTITIONS


def share_id(prefix: str, owner: str, task: int, attempt: int) -> str:
    """The transactional id of an attempt at a task."""
    return f"{prefix}{owner}-{task}.{attempt}" if attempt else f"{prefix}{owner}-{task}"


@dataclass(frozen=True, slots=True)
class Progress:
    """The last batch of which a task's share was published, and how many rows that had, where it is known."""

    batch_id: int
    row_count: int | None

    @property
    def offset(self) -> int:
        return self.batch_id + 1

    @property
    def metadata(self) -> str:
        return f"rows={self.row_count}"

    @classmethod
    def parse(cls, offset: int, metadata: str | None) -> "Progress | None":
        """What an offset says; None where nothing was committed."""
        if offset < 1:
            return None
        match = re.fullmatch(r"rows=(\d+)", metadata or "")
        return cls(offset - 1, int(match[1]) if match else None)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A share that is written whole, in a transaction that its task has left open for the driver to end."""

    task: int
    attempt: int
    producer_id: int
    epoch: int
    row_count: int
    digest: str = ""  # of its rows, where they identify what is written

    def transactional_id(self, prefix: str, owner: str) -> str:
        return share_id(prefix, owner, self.task, self.attempt)


def share_of_stream() -> Share:
    """The share of the task that this is called in, which is of a streaming query."""
    context = _context()
    query_id, batch_id = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    if not query_id or batch_id is None or not batch_id.isdecimal():
        raise InvalidRequest(
            f"Spark does not say which query and batch this task is of ({_QUERY_ID} is {query_id!r}, {_BATCH_ID} is "
            f"{batch_id!r}), so it cannot be published exactly once; option 'exactlyOnce' = false writes without"
        )
    return Share(query_id, context.partitionId(), int(batch_id), context.attemptNumber())


def share_of_job(owner: str, batch_id: int) -> Share:
    """The share of the task that this is called in, which is of a batch write."""
    context = _context()
    return Share(owner, context.partitionId(), batch_id, context.attemptNumber())


def _context() -> Any:
    context = TaskContext.get()
    if context is None:
        raise InvalidRequest("rows are written by the tasks of a Spark job, and this is none")
    return context


class ShareRows:
    """The record batches of a share, which can be gone through again while they are no more than fits."""

    def __init__(self, batches: Iterable[Any], limit_bytes: int) -> None:
        self._rest = iter(batches)
        self._kept: list[Any] = []
        self._room_bytes = limit_bytes
        self.can_repeat = True

    def has_any(self) -> bool:
        return next(iter(self), None) is not None

    def __iter__(self) -> Iterator[Any]:
        assert self.can_repeat
        yield from list(self._kept)
        for batch in self._rest:
            if batch.num_rows == 0:
                continue
            self._keep(batch)
            yield batch

    def _keep(self, batch: Any) -> None:
        if not self.can_repeat:
            return
        self._room_bytes -= batch.nbytes
        if self._room_bytes >= 0 or not self._kept:  # the first was looked at and is to be had once more
            self._kept.append(batch)
        else:
            self._kept.clear()
            self.can_repeat = False
