"""A Spark Connect server for all tests here, in a process of its own. The clients are processes too: one that has a
session of its own, as that of these tests may, cannot have one of a server beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.cluster.processes import LOOPBACK, free_port, started

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server runs, and has its warehouse."""
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")
    pytest.importorskip("grpc_status", reason="Spark Connect is not installed: pip install 'barnabas[connect]'")
    return tmp_path_factory.mktemp("connect")


@pytest.fixture(scope="session")
def remote(spark_folder: Path) -> Iterator[str]:
    """The address of the server."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.driver.memory": "1g",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = ["spark-submit", "--master", "local[2]", "--class", SERVER, *options, "spark-internal"]
    with started(spark_folder, "server", *command, port=port):
        yield f"sc://{LOOPBACK}:{port}"
