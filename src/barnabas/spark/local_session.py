"""A Spark session that starts wherever Python does: Java is found, and only loopback is listened on.

It is tuned for one machine: Arrow between Spark and Python, a quarter of the memory, as many shuffle tasks as cores,
checkpoints without checksum files, and streams whose tasks stay as they were planned. Every setting can be overridden.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from barnabas.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
_LEAST_MEMORY_MIB = 1024
_MOST_MEMORY_MIB = 8192


def session(
    app_name: str = "barnabas", *, master: str = "local[2]", settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """The running Spark session, or a new one. ``settings`` are Spark's own and win over ours."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ImportError("a Spark session needs PySpark: pip install 'barnabas[spark]'") from error

    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in {**_defaults(master), **(settings or {})}.items():
        builder = builder.config(name, value)
    with _environment(
        {
            "JAVA_HOME": str(find_java().path),
            # Workers run on this very Python: what Spark would take is whichever python3 the PATH has.
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
            "SPARK_LOCAL_IP": LOOPBACK,
        }
    ):
        return builder.getOrCreate()


def _defaults(master: str) -> dict[str, str]:
    settings = {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.daemon.module": "barnabas.spark.worker_daemon",
        # A stream's tasks are those its source planned, always: what a sink wrote for a task of a batch can be told
        # again after a crash. Spark may otherwise join tasks by what it measured. Batch jobs keep that.
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
        # Checkpoint files on a local disk: without checksum files beside them, half the files are written.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    }
    if master.startswith("local"):
        settings["spark.driver.memory"] = f"{_driver_memory_mib()}m"
        # Spark's 200 shuffle tasks are for a cluster; each costs milliseconds, and in a stream a file of state.
        settings["spark.sql.shuffle.partitions"] = str(_local_cores(master))
    return settings


def _local_cores(master: str) -> int:
    """How many tasks run at once: 2 for local[2], all cores for local[*], 1 for local."""
    inside = master.partition("[")[2].rstrip("]").partition(",")[0].strip()
    if inside == "*":
        return os.cpu_count() or 1
    return int(inside) if inside.isdecimal() else 1


def _driver_memory_mib() -> int:
    """A quarter of the machine's memory, from 1 to 8 GiB: the Python workers beside it want some too."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on this system
        return _LEAST_MEMORY_MIB
    return min(max(total // 4 // 2**20, _LEAST_MEMORY_MIB), _MOST_MEMORY_MIB)


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Variables for the JVM that is started inside; this process has its own back afterwards."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
