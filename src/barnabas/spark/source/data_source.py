"""The data source `barnabas`: what Spark asks for by that name.

Spark makes one in a Python worker of the driver, sends it to where it is needed, and asks it for a reader or a writer.
Options are checked as soon as it is known what they are for.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from barnabas.core.errors import BarnabasError
from barnabas.spark.source.options import parse_options
from barnabas.spark.source.refusals import plain_refusals


class BarnabasDataSource(DataSource):
    """Topics as tables and streams."""

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    def schema(self) -> StructType:
        from barnabas.spark.source.rows import row_schema

        with plain_refusals():
            return row_schema(include_headers=parse_options(self.options, None).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        from barnabas.spark.source.reader import BatchReader

        with plain_refusals():
            return BatchReader(parse_options(self.options, "batch"), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from barnabas.spark.source.stream_reader import RefusedStream, StreamReader

        try:
            return StreamReader(parse_options(self.options, "stream"), schema)
        except BarnabasError as refusal:
            return RefusedStream(refusal)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from barnabas.spark import sink

        with plain_refusals():
            return sink.batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from barnabas.spark import sink

        with plain_refusals():
            return sink.stream_writer(self.options, schema, overwrite)
