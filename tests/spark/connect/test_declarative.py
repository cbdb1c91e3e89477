"""Spark's own declarative pipelines, run by its own command: a topic becomes a table, and rows of it a topic."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.spark.spark_home import lean_spark_home
from tests.spark.cluster.processes import environment, run
from tests.spark.conftest import MakeTopic
from tests.spark.quick_java import SPARK_SUBMIT_OPTS
from tests.spark.source.streams import numbered, produce

if TYPE_CHECKING:
    from barnabas.client import Bus

SPECIFICATION = """\
name: declared
storage: file://{folder}/storage
libraries: [{{glob: {{include: flows.py}}}}]
"""
FLOWS = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
BROKERS = {{"kafka.bootstrap.servers": "{bootstrap}"}}

@dp.table
def {table}():
    records = spark.readStream.format("barnabas").options(**BROKERS, subscribe="{topic}", startingOffsets="earliest")
    return records.load().select("key", "value")

dp.create_sink("copies", "barnabas", {{**BROKERS, "topic": "{copied}"}})

@dp.append_flow(target="copies")
def copy():
    return spark.readStream.table("{table}").where("cast(key AS string) < 'k5'")
"""


def test_a_topic_is_read_and_written_by_sparks_own_pipelines(
    remote: str, spark_folder: Path, bootstrap: str, make_topic: MakeTopic, client: "Bus", tmp_path: Path
) -> None:
    topic, copied = make_topic(partitions=2), make_topic()
    produce(bootstrap, topic, numbered(9))
    names = {"bootstrap": bootstrap, "topic": topic, "copied": copied, "table": topic.replace("-", "_")}
    (tmp_path / "spark-pipeline.yaml").write_text(SPECIFICATION.format(folder=tmp_path))
    (tmp_path / "flows.py").write_text(FLOWS.format(**names))
    command = str(lean_spark_home() / "bin" / "spark-pipelines")

    # This command of Spark's does not read the variable that its others do; Java itself reads another.
    quick = {**environment(), "JDK_JAVA_OPTIONS": os.environ[SPARK_SUBMIT_OPTS]}
    run(spark_folder, command, "run", "--remote", remote, "--spec", str(tmp_path / "spark-pipeline.yaml"), env=quick)

    found = [(message.key, message.value) for message in client.consume(copied, until_end=True)]
    assert sorted(found) == numbered(5)
