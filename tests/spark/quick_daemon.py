"""Spark's Python daemon for its planning, with what that needs loaded before it forks: run by `quick_python`.

Spark forks a process for each step of each plan (to look a source up, to plan a read, to plan a write, to publish a
batch), and each of them loads pyspark, Arrow and the client by itself, half a second of work. Tests plan a thousand
times. What runs in these processes is the same.

Only what planning itself uses is loaded. There is one such daemon for each kind of step, and a Spark that runs one
pipeline has half a dozen of them: numba and pandas, which only tasks use, would cost it ten seconds of work. What
commits to tables loads PyIceberg or pandas, a second of work for each query: the Spark that many tests share is asked
to load them here, once.
"""

import contextlib
import gc
import importlib
import os
import sys
from typing import Final

OF_PLANNING: Final = (
    "pyspark.sql.pandas.types",
    "barnabas.spark.source.data_source",
    "barnabas.spark.source.batch_planner",
    "barnabas.spark.source.stream_planner",
    "barnabas.spark.sink.writers",
    "barnabas.spark.sink.committing",
    "barnabas.spark.tables.source",
)

TABLES_VARIABLE: Final = "TEST_SPARK_LOADS_TABLES"
COMMITTING: Final = ("pyspark.sql.worker.commit_data_source_write", "pyspark.sql.worker.python_streaming_sink_runner")
OF_TABLES: Final = (
    "deltalake",
    "pyarrow.dataset",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "barnabas.spark.tables.delta",
    "barnabas.spark.tables.iceberg",
)

if __name__ == "__main__":
    from pyspark import daemon

    is_of_tables = TABLES_VARIABLE in os.environ and sys.argv[1] in COMMITTING
    for name in (*sys.argv[1:2], *OF_PLANNING, *(OF_TABLES if is_of_tables else ())):
        with contextlib.suppress(ImportError):  # whoever needs it will say so
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    daemon.manager()
