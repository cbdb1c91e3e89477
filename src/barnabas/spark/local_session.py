"""A Spark session that starts wherever Python does: Java is found, and only loopback is listened on."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from barnabas.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"


def session(
    app_name: str = "barnabas", *, master: str = "local[2]", settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """The running Spark session, or a new one. ``settings`` are Spark's own and win over ours."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ImportError("a Spark session needs PySpark: pip install 'barnabas[spark]'") from error

    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in {**_defaults(), **(settings or {})}.items():
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


def _defaults() -> dict[str, str]:
    return {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


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
