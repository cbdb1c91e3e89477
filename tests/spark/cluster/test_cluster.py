"""A pipeline on a cluster of Spark's own kind, a master and a worker: by `--master`, and by `spark-submit`."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.spark.pipelines import submit
from barnabas.spark.spark_home import lean_spark_home
from tests.spark.cluster.processes import LOOPBACK, free_port, run, started
from tests.spark.conftest import MakeTopic
from tests.spark.quick_java import SPARK_SUBMIT_OPTS

if TYPE_CHECKING:
    from barnabas.client import Bus

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")

# Executors have the options of all Javas here, which change nothing but how long they take.
FILE = """\
name: copied
bootstrap: {bootstrap}
sources: [{{name: records, type: topic, topic: {topic}}}]
steps: [{{name: shaped, python: "shaping:shaped"}}]
sinks: [{{name: out, type: topic, topic: {topic}.out}}]
spark: {{spark.executor.memory: 512m, spark.sql.shuffle.partitions: 2, spark.executor.extraJavaOptions: "{options}"}}
"""
SHAPING = """\
from pyspark.sql import functions as F

@F.udf("string")
def shout(text):
    return bytes(text).decode().upper()

def shaped(frame):
    return frame.select(shout("value").alias("value"))
"""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster."""
    port = free_port()
    here = ["--host", LOOPBACK, "--webui-port", "0"]
    leader = ["spark-class", "org.apache.spark.deploy.master.Master", *here, "--port", str(port)]
    worker = ["spark-class", "org.apache.spark.deploy.worker.Worker", *here, "--cores", "2", "--memory", "1g"]
    address = f"spark://{LOOPBACK}:{port}"
    with (
        started(tmp_path, "master", *leader, port=port),
        started(tmp_path, "worker", *worker, address, says="Successfully registered with master"),
    ):
        yield address


def test_a_pipeline_runs_on_a_cluster_and_goes_on_under_spark_submit(
    master: str, bootstrap: str, make_topic: MakeTopic, client: "Bus", tmp_path: Path
) -> None:
    topic = make_topic()
    file = tmp_path / "copied.yaml"
    file.write_text(FILE.format(bootstrap=bootstrap, topic=topic, options=os.environ[SPARK_SUBMIT_OPTS]))
    (tmp_path / "shaping.py").write_text(SHAPING)

    client.send(topic, "first").result(60)
    barnabas = [sys.executable, "-m", "barnabas.cli.main", "pipeline", "run"]
    done = run(tmp_path, *barnabas, str(file), "--once", "--master", master)

    assert "pipeline copied: done; out 1 row written" in done.stdout
    assert _values(client, f"{topic}.out") == [b"FIRST"]

    client.send(topic, "second").result(60)
    spark_submit = [str(lean_spark_home() / "bin" / "spark-submit"), "--master", master]
    settings = ["--conf", f"spark.driver.host={LOOPBACK}", "--conf", "spark.ui.enabled=false"]
    done = run(tmp_path, *spark_submit, *settings, submit.__file__, str(file), "--once")

    assert "pipeline copied: done; out 1 row written" in done.stdout
    assert _values(client, f"{topic}.out") == [b"FIRST", b"SECOND"]


def _values(client: "Bus", topic: str) -> list[bytes | None]:
    return [message.value for message in client.consume(topic, until_end=True)]
