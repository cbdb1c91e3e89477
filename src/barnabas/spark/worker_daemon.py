"""Spark's Python daemon, with what tasks need loaded before it forks.

Spark's daemon forks a worker for each task that finds none free, and each would import Arrow, numba and the client for
itself, a second and a half of work. Set as `spark.python.daemon.module`, this one imports them once, for all.
Nothing is opened or started here: a fork inherits modules, not connections or threads.
"""

import contextlib
import importlib
from typing import Final

_OF_TASKS: Final = (
    "pyspark.worker",
    "pyspark.sql.pandas.types",
    "barnabas.spark.source.reader",
    "barnabas.spark.source.stream_reader",
    "barnabas.spark.source.fetching",
    "barnabas.spark.sink.writers",
    "barnabas.spark.sink.publishing",
    "barnabas.core.records.columnar",
    "pandas",  # by which Spark hands rows to a sink in Python
)


def preload() -> None:
    for name in _OF_TASKS:
        with contextlib.suppress(ImportError):  # whatever task needs it will say so
            importlib.import_module(name)


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    manager()
