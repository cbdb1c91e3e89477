"""Rows into topics: `df.write` and `df.writeStream` with `format("barnabas")`, exactly once."""

from barnabas.spark.sink.writers import batch_writer, stream_writer

__all__ = ["batch_writer", "stream_writer"]
