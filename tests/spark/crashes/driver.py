"""A Spark driver in a process of its own: it runs a pipeline, again if a query fails, until it is killed.

Arguments: the file of the pipeline, a file that gets a line for each failure, where Spark is (a master, or `connect`
for a Connect server, which is started here and dies with the driver), and settings as NAME=VALUE.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.spark import Pipeline, session
from barnabas.spark.connecting import connect
from barnabas.spark.pipelines.problems import PipelineFailed
from barnabas.spark.spark_home import lean_spark_home
from tests.spark.cluster.processes import LOOPBACK, environment, free_port
from tests.spark.conftest import QUICK

CONNECT: Final = "connect"
RETRYING: Final = "local[5,4]"  # a task that waits at a step keeps a core; one may fail three times
SETTINGS: Final = {
    **QUICK,
    "spark.driver.memory": "1g",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4",  # several batches even of a few rows
    "spark.sql.shuffle.partitions": "2",
}
_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_S: Final = 120.0


def main() -> None:
    file, failed, master = sys.argv[1:4]
    settings = dict(setting.split("=", 1) for setting in sys.argv[4:])
    pipeline = Pipeline.load(file)
    spark = connected() if master == CONNECT else session("crashes", master=master, settings={**SETTINGS, **settings})
    while True:
        try:
            pipeline.run(spark)
        except PipelineFailed as failure:
            with Path(failed).open("a") as failures:
                failures.write(str(failure).replace("\n", " ") + "\n")


def connected() -> Any:
    """A session of a server that is in this session of processes."""
    port = free_port()
    settings = {
        **SETTINGS,
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.ui.enabled": "false",
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = [str(lean_spark_home() / "bin" / "spark-submit"), "--master", RETRYING, "--class", _SERVER]
    server = subprocess.Popen([*command, *options, "spark-internal"], env=environment())
    deadline_s = time.monotonic() + _START_S
    while True:
        try:
            return connect(f"sc://{LOOPBACK}:{port}")
        except BarnabasError:
            if server.poll() is not None or time.monotonic() > deadline_s:
                raise


if __name__ == "__main__":
    main()
