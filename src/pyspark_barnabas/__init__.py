"""What Spark looks for: it imports every top-level module called `pyspark_*` and takes its `DefaultSource`.

So `format("barnabas")` is known wherever Barnabas is installed, with no `spark.dataSource.register(...)`.
"""

from barnabas.spark.source.data_source import BarnabasDataSource as DefaultSource

__all__ = ["DefaultSource"]
