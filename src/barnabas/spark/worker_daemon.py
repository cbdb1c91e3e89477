"""Spark's Python daemon, with what tasks need loaded before it forks, and without a pause at the start of each.

Spark's daemon forks a worker for each task that finds none free, and each would import Arrow, numba and the client for
itself, a second and a half of work. Set as `spark.python.daemon.module`, this one imports them once, for all.
Nothing is opened or started here: a fork inherits modules, not connections or threads.

Spark tells a worker its task in small pieces, and holds a piece back until the one before is acknowledged, which a
kernel may put off for 40 ms. With this daemon it does not. And Spark hangs up on a worker when it has enough of its
rows, as `show()` does: the worker just ends then, where it would print a traceback.
"""

import contextlib
import gc
import importlib
import socket
from collections.abc import Callable
from typing import Final, TypeAlias

Worker: TypeAlias = Callable[[socket.socket, bool], int]
_HUNG_UP: Final = 1

_OF_TASKS: Final = (
    "pyspark.worker",
    "pyspark.sql.pandas.types",
    "barnabas.spark.source.reader",
    "barnabas.spark.source.stream_reader",
    "barnabas.spark.source.fetching",
    "barnabas.spark.sink.writers",
    "barnabas.spark.sink.preparing",
    "barnabas.spark.sink.committing",
    "barnabas.core.records.columnar",
    "pyarrow.compute",
    "pandas",  # by which Spark hands rows to a sink in Python
)


def preload() -> None:
    """Load what tasks need, and exempt it from garbage collection: a worker collects after each task, and would walk
    through all of these modules, 60 ms of work.
    """
    for name in _OF_TASKS:
        with contextlib.suppress(ImportError):  # whatever task needs it will say so
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def acknowledging(worker: Worker) -> Worker:
    """A worker that has what it is told acknowledged at once, where the system can: for each task anew, as the kernel
    falls back by itself.
    """

    def run(connection: socket.socket, authenticated: bool) -> int:
        if connection.family in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_QUICKACK"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return worker(connection, authenticated)

    return run


def allowing_hangups(worker: Worker) -> Worker:
    """A worker for which a connection that Spark has closed is the end, and nothing to report."""

    def run(connection: socket.socket, authenticated: bool) -> int:
        try:
            return worker(connection, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            return _HUNG_UP

    return run


if __name__ == "__main__":
    from pyspark import daemon

    preload()
    daemon.worker = allowing_hangups(acknowledging(daemon.worker))  # type: ignore[assignment]
    daemon.manager()
