"""What Spark looks for, as `pyspark_barnabas` is: this one makes `format("barnabas-table")` known."""

from barnabas.spark.tables.source import TableDataSource as DefaultSource

__all__ = ["DefaultSource"]
