"""Topics over Spark Connect: read, written, and named in SQL, all in one session."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.cluster.processes import run
from tests.spark.conftest import MakeTopic
from tests.spark.source.streams import numbered, produce

if TYPE_CHECKING:
    from barnabas.client import Bus

SCRIPT = """
import sys
from pyspark.sql import SparkSession

remote, bootstrap, topic, copied, streamed, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
brokers = {"kafka.bootstrap.servers": bootstrap}

records = spark.read.format("barnabas").options(**brokers, subscribe=topic).load()
print("batch", records.count())
for view, read in (("named", topic), ("copies", copied)):
    given = f"`kafka.bootstrap.servers` '{bootstrap}', subscribe '{read}'"
    spark.sql(f"CREATE TEMPORARY VIEW {view} USING barnabas OPTIONS ({given})")
print("view", spark.sql("SELECT count(*) FROM named WHERE cast(key AS string) < 'k5'").first()[0])
print("copies", spark.sql("SELECT count(*) FROM copies").first()[0])
records.select("key", "value").write.format("barnabas").options(**brokers, topic=copied).mode("append").save()
print("copies", spark.sql("SELECT count(*) FROM copies").first()[0])

stream = spark.readStream.format("barnabas").options(**brokers, subscribe=topic, startingOffsets="earliest").load()
for _ in range(2):  # the second time there is nothing left to do
    writer = stream.select("key", "value").writeStream.format("barnabas").options(**brokers, topic=streamed)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
spark.stop()
"""


def test_topics_are_read_and_written_over_connect(
    remote: str, spark_folder: Path, bootstrap: str, make_topic: MakeTopic, client: "Bus", tmp_path: Path
) -> None:
    topic, copied, streamed = make_topic(partitions=2), make_topic(), make_topic()
    produce(bootstrap, topic, numbered(9))
    arguments = [remote, bootstrap, topic, copied, streamed, str(tmp_path / "checkpoint")]

    done = run(spark_folder, sys.executable, "-c", SCRIPT, *arguments)

    assert done.stdout.split() == ["batch", "9", "view", "5", "copies", "0", "copies", "9"]
    for written in (copied, streamed):
        found = [(message.key, message.value) for message in client.consume(written, until_end=True)]
        assert sorted(found) == numbered(9)
