"""Spark's writers: made in the driver, where options and columns are checked, and sent to the tasks.

A stream publishes each task's share of each batch exactly once. A batch write is all or nothing for each task: if it
fails, the shares of the tasks that were done stay published.
"""

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from barnabas.core.errors import BarnabasError
from barnabas.spark.sink import steps
from barnabas.spark.sink.columns import Layout, check_columns
from barnabas.spark.sink.options import WriteOptions, parse_options
from barnabas.spark.sink.shares import Outcome, Share, ShareRows, group_of, share_of_job, share_of_stream
from barnabas.spark.sink.steps import Step
from barnabas.spark.source.refusals import InvalidOption, plain_refusals

_SETTLED_AT_MOST: Final = 100  # tasks of a failed job; the transactions of others end by their timeout


@dataclass
class ShareWritten(WriterCommitMessage):
    """What a task tells the driver."""

    task: int
    row_count: int
    was_published_before: bool


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> "StreamTopicWriter":  # noqa: ARG001 - Spark's signature
    """The writer of a stream. In the output mode `complete`, each batch is all rows, and is appended."""
    parsed = parse_options(options, "stream")
    return StreamTopicWriter(parsed, check_columns(schema, parsed.topic))


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> "BatchTopicWriter":
    """The writer of a batch, which is appended."""
    if overwrite:
        raise InvalidOption("rows are appended to a topic, never put in the place of others: use mode('append')")
    parsed = parse_options(options, "batch")
    return BatchTopicWriter(parsed, check_columns(schema, parsed.topic))


class StreamTopicWriter(DataSourceStreamArrowWriter):
    """Publishes the batches of a streaming query."""

    def __init__(self, options: WriteOptions, layout: Layout) -> None:
        self._options = options
        self._layout = layout

    def write(self, iterator: Iterator[Any]) -> ShareWritten:
        with plain_refusals():
            share = share_of_stream() if self._options.is_exactly_once else None
            return _write(self._options, self._layout, share, iterator, keep=True)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's name
        """All is published already, each share in its task."""
        steps.reached(Step.BATCH_PUBLISHED)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        """What is open is aborted when the batch is run again, or by its timeout."""


class BatchTopicWriter(DataSourceArrowWriter):
    """Publishes a data frame, as batch 0 of a job of its own unless the user has named the write."""

    def __init__(self, options: WriteOptions, layout: Layout) -> None:
        named = options.named
        self._options = options
        self._layout = layout
        self._owner = named.app_id if named else uuid.uuid4().hex
        self._batch_id = named.version if named else 0
        self._is_named = named is not None

    def write(self, iterator: Iterator[Any]) -> ShareWritten:
        with plain_refusals():
            share = share_of_job(self._owner, self._batch_id) if self._options.is_exactly_once else None
            return _write(self._options, self._layout, share, iterator, keep=self._is_named)

    def commit(self, messages: list[Any]) -> None:
        steps.reached(Step.BATCH_PUBLISHED)
        self._forget_progress(len(messages))

    def abort(self, messages: list[Any]) -> None:
        if not self._options.is_exactly_once:
            return
        failed = [task for task, message in enumerate(messages) if message is None]
        with contextlib.suppress(BarnabasError):  # why the job failed is what a user must hear
            from barnabas.spark.sink.publishing import settle

            for task in failed[:_SETTLED_AT_MOST]:
                settle(self._options, Share(self._owner, task, self._batch_id))
            self._forget_progress(len(messages))

    def _forget_progress(self, task_count: int) -> None:
        """Nobody asks for the progress of a job that has ended, except where the user may make the write again."""
        if self._is_named or not self._options.is_exactly_once:
            return
        groups = sorted({group_of(self._options.prefix, self._owner, task) for task in range(task_count)})
        admin = self._options.settings.admin()  # held: what it was asked is forgotten with it
        for done in admin.delete_consumer_groups(groups).values():
            with contextlib.suppress(Exception):  # it expires by itself
                done.result(self._options.contact_s)


def _write(
    options: WriteOptions, layout: Layout, share: Share | None, batches: Iterator[Any], *, keep: bool
) -> ShareWritten:
    # What sends is for tasks: the driver, which only makes the writer, need not load it.
    from barnabas.spark.sink.publishing import KEPT_BYTES, publish_at_least_once, publish_exactly_once

    rows = ShareRows(batches, KEPT_BYTES if share is not None else 0)
    if share is None:
        outcome = publish_at_least_once(options, layout, rows)
    elif rows.has_any():
        outcome = publish_exactly_once(options, layout, share, rows, keep=keep)
    else:
        outcome = Outcome(0)
    return ShareWritten(share.task if share else -1, outcome.row_count, outcome.was_published_before)
