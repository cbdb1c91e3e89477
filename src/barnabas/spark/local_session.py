"""A Spark session that starts wherever Python does: Java is found, and only loopback is listened on, unless the
master is on another machine, whose workers call back.

It is tuned for one machine: Arrow between Spark and Python, a quarter of the memory, as many shuffle tasks as cores,
checkpoints without checksum files, and streams whose tasks stay as they were planned. Every setting can be overridden.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.java import find_java
from barnabas.spark.pushdown import push_down_conditions
from barnabas.spark.spark_home import lean_spark_home

if TYPE_CHECKING:
    from socketserver import BaseServer

    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
_LEAST_MEMORY_MIB = 1024
_MOST_MEMORY_MIB = 8192


def session(
    app_name: str = "barnabas", *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """The running Spark session, or a new one. ``settings`` are Spark's own and win over ours.

    ``master`` is ``local[2]`` if it is not given, or whatever ``spark-submit`` was told, if that has started us.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ImportError("a Spark session needs PySpark: pip install 'barnabas[spark]'") from error

    builder = SparkSession.builder.appName(app_name)
    if is_submitted():
        # Java runs already, as spark-submit was told to start it: what we think best must not win over that.
        if master is not None:
            builder = builder.master(master)
        return _started(_configured(builder, {**_EVERYWHERE, **(settings or {})}))
    master = master or "local[2]"
    environment = {
        "JAVA_HOME": str(find_java().path),
        # Workers run on this very Python: what Spark would take is whichever python3 the PATH has.
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
    if _is_here(master):
        environment["SPARK_LOCAL_IP"] = LOOPBACK
        environment["SPARK_HOME"] = str(lean_spark_home())
    with _environment(environment):
        configured = _configured(builder.master(master), {**_defaults(master), **(settings or {})})
        _start_java(configured)
        return _started(configured)


def _start_java(builder: "SparkSession.Builder") -> None:
    """Start Java in its own process session, if none runs: a signal to our process group is meant for us.

    `timeout`, a shell or a supervisor signals the whole group. Java would be gone before a query could be stopped. It
    ends with us in any case: its input is a pipe from this process.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or sys.platform == "win32":
        return
    conf = SparkConf()
    for name, value in builder._options.items():
        conf.set(name, str(value))
    SparkContext._ensure_initialized(gateway=launch_gateway(conf, {"start_new_session": True}))  # type: ignore[no-untyped-call]


def is_submitted() -> bool:
    """Whether this process was started by ``spark-submit``."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _configured(builder: "SparkSession.Builder", settings: Mapping[str, str]) -> "SparkSession.Builder":
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _started(builder: "SparkSession.Builder") -> "SparkSession":
    spark = builder.getOrCreate()
    accumulators = getattr(spark.sparkContext, "_accumulatorServer", None)
    if accumulators is not None and "handle_error" not in vars(accumulators):
        allow_hangups(accumulators)
    push_down_conditions(spark)
    return spark


def allow_hangups(accumulators: "BaseServer") -> None:
    """Take the end of a connection to PySpark's accumulators as what it is; PySpark prints a traceback.

    Java plans with Python on the thread of a query, and that thread reports to the accumulators: interrupted there, as
    it may be when the query is stopped, it drops the connection. The next report opens another.
    """
    report = accumulators.handle_error

    def report_others(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), EOFError):
            report(request, client_address)

    accumulators.handle_error = report_others  # type: ignore[method-assign]


_EVERYWHERE: Final = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.daemon.module": "barnabas.spark.worker_daemon",
    # A stream's tasks are those its source planned, always: what a sink wrote for a task of a batch can be told
    # again after a crash. Spark may otherwise join tasks by what it measured. Batch jobs keep that.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
}


def _defaults(master: str) -> dict[str, str]:
    settings = {
        **_EVERYWHERE,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Checkpoint files on a local disk: without checksum files beside them, half the files are written.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    }
    if _is_here(master):
        settings["spark.driver.bindAddress"] = LOOPBACK
        settings["spark.driver.host"] = LOOPBACK
    if master.startswith("local"):
        settings["spark.driver.memory"] = f"{_driver_memory_mib()}m"
        # Spark's 200 shuffle tasks are for a cluster; each costs milliseconds, and in a stream a file of state.
        settings["spark.sql.shuffle.partitions"] = str(_local_cores(master))
    return settings


def _is_here(master: str) -> bool:
    """Whether all of Spark is on this machine, so that no other machine needs to reach this process."""
    return master.startswith(("local", "spark://127.", "spark://localhost:"))


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
