"""Spark's writers: made in the driver, where options and columns are checked, and sent to the tasks.

Tasks prepare their shares, and the driver publishes them all: a batch is seen whole or not at all, and once.
"""

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from barnabas.spark.sink import steps
from barnabas.spark.sink.columns import Layout, check_columns
from barnabas.spark.sink.messages import ShareWritten
from barnabas.spark.sink.options import WriteOptions, parse_options
from barnabas.spark.sink.shares import Share, ShareRows, share_of_job, share_of_stream
from barnabas.spark.sink.steps import TopicStep
from barnabas.spark.source.refusals import InvalidOption, plain_refusals


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> "StreamTopicWriter":  # noqa: ARG001 - Spark's signature
    """The writer of a stream. In the output mode `complete`, each batch is all rows, and is appended."""
    parsed = parse_options(options, "stream")
    return StreamTopicWriter(parsed, check_columns(schema, parsed.topic))


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> "BatchTopicWriter":
    """The writer of a batch, which is appended."""
    if overwrite:
        raise InvalidOption("a topic can only be appended to: use mode('append')")
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

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        with plain_refusals():
            _commit(self._options, messages, batchId, keep=True)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        _abort(self._options, messages, batchId, None)


class BatchTopicWriter(DataSourceArrowWriter):
    """Publishes a data frame, as batch 0 of a job of its own unless the user has named the write."""

    def __init__(self, options: WriteOptions, layout: Layout) -> None:
        named = options.named
        self._options = options
        self._layout = layout
        # Of one name there is a write to each topic, as of one transaction of Delta to each table. What is made of it
        # by adding a number ends otherwise, so it is not that of another topic.
        self._owner = f"{named.app_id}({options.sink})" if named else uuid.uuid4().hex
        self._batch_id = named.version if named else 0

    def write(self, iterator: Iterator[Any]) -> ShareWritten:
        with plain_refusals():
            share = share_of_job(self._owner, self._batch_id) if self._options.is_exactly_once else None
            return _write(self._options, self._layout, share, iterator, keep=self._options.named is not None)

    def commit(self, messages: list[Any]) -> None:
        with plain_refusals():
            _commit(self._options, messages, self._batch_id, keep=False)

    def abort(self, messages: list[Any]) -> None:
        _abort(self._options, messages, self._batch_id, self._owner)


# What sends is for tasks, and what commits for the process that does: the driver, which only makes the writer, need not
# load either.


def _write(
    options: WriteOptions, layout: Layout, share: Share | None, batches: Iterator[Any], *, keep: bool
) -> ShareWritten:
    from barnabas.spark.sink.preparing import KEPT_BYTES, prepare_share
    from barnabas.spark.sink.sending import send_at_least_once

    rows = ShareRows(batches, KEPT_BYTES if share is not None else 0)
    if share is None:
        return ShareWritten("", -1, send_at_least_once(options, layout, rows))
    if rows.has_any():
        return prepare_share(options, layout, share, rows, keep=keep)
    return ShareWritten(share.owner, share.task, 0)


def _commit(options: WriteOptions, messages: list[Any], batch_id: int, *, keep: bool) -> None:
    if options.is_exactly_once:
        from barnabas.spark.sink.committing import publish_batch

        steps.reached(TopicStep.ALL_PREPARED)
        publish_batch(options, batch_id, messages, keep=keep)
    steps.reached(TopicStep.BATCH_PUBLISHED)


def _abort(options: WriteOptions, messages: list[Any], batch_id: int, owner: str | None) -> None:
    if options.is_exactly_once:
        from barnabas.spark.sink.committing import abort_batch

        abort_batch(options, batch_id, messages, owner)
