"""A Spark driver in a process of its own: lines of files, as they come, into a topic; until it is killed.

Arguments: the address of the broker, the topic, and a directory with `files`, which also has the checkpoint.
"""

import sys
from pathlib import Path

from barnabas.spark import session
from tests.spark.sink.crashing import CrashingDataSource


def main() -> None:
    bootstrap, topic, directory = sys.argv[1:]
    spark = session(
        "crashing",
        master="local[2,4]",  # a task may fail three times
        settings={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.files.minPartitionNum": "2",
            "spark.python.worker.faulthandler.enabled": "false",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(CrashingDataSource)
    lines = spark.readStream.format("text").load(str(Path(directory) / "files"))
    query = (
        lines.selectExpr("value", "substring(value, 1, 3) key")
        .writeStream.format("crashing")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("kafka.reconnect.backoff.max.ms", "500")
        .option("checkpointLocation", str(Path(directory) / "checkpoint"))
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
