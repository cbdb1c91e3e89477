"""Over Spark Connect: a server and its client, in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.spark.java import find_java
from tests.spark.source.streams import numbered, produce

SCRIPT = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[2]").getOrCreate()
options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}
print("count", spark.read.format("barnabas").options(**options).load().count())
stream = spark.readStream.format("barnabas").options(**options).option("startingOffsets", "earliest").load()
query = stream.writeStream.format("memory").queryName("streamed").trigger(availableNow=True).start()
query.awaitTermination(60)
print("streamed", spark.sql("SELECT count(*) FROM streamed").first()[0])
spark.stop()
"""


def test_topics_are_read_over_connect(bootstrap: str, topic: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc_status", reason="Spark Connect is not installed: pip install 'pyspark[connect]'")
    produce(bootstrap, topic, numbered(9))
    environment = {**os.environ, "JAVA_HOME": str(find_java().path), "PYSPARK_PYTHON": sys.executable}

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, bootstrap, topic],
        check=False,
        capture_output=True,
        text=True,
        env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        timeout=180,
    )

    assert done.returncode == 0, done.stderr
    assert "count 9" in done.stdout
    assert "streamed 9" in done.stdout
