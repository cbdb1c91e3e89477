"""A failed query is told in one line, whatever wall of text Spark makes of it."""

import pytest

from barnabas.spark.pipelines.reasons import reason_of

WALL = """[STREAM_FAILED] Query terminated with exception: Job aborted SQLSTATE: XXKST
Traceback (most recent call last):
  File "worker.py", line 1, in main
{raised}
\tat org.apache.spark.Thing.run(Thing.scala:1)
"""
DAEMON = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3
in stage 0.0 (TID 3) (127.0.0.1 executor 0): org.apache.spark.SparkException:
Error from python worker:
  /usr/bin/python: Error while finding module specification for 'barnabas.spark.worker_daemon' (ModuleNotFoundError: \
No module named 'barnabas')
PYTHONPATH was:
  /opt/spark/python
org.apache.spark.SparkException: EOFException occurred while reading the port number from barnabas.spark.worker_daemon's
"""
NOT_THERE = (
    "the Python of Spark's workers does not have barnabas: install it there, in the Python that PYSPARK_PYTHON names, "
    "or send it along; docs/spark.md says how"
)
JAVA = """An error occurred while calling o97.load.
: {}
\tat org.apache.spark.Thing.run(Thing.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (WALL.format(raised="barnabas.core.errors.InvalidRequest: no such table"), "no such table"),
        (WALL.format(raised="ValueError: 5 is odd"), "ValueError: 5 is odd"),
        ("initialOffset: barnabas.core.errors.UnknownTopicOrPartition: there is no x", "there is no x"),
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==", "[DIVIDE_BY_ZERO] Division by zero."),
        (JAVA.format("org.apache.spark.SparkException: [X] no good. SQLSTATE: 1"), "[X] no good."),
        (JAVA.format("java.io.IOException: disk"), "IOException: disk"),
        (JAVA.format("java.lang.NullPointerException"), "NullPointerException"),
        (JAVA.format("java.lang.ClassNotFoundException: a.B"), "there is no class a.B: add its JAR with spark.jars"),
        (JAVA.format("java.sql.SQLException: No suitable driver"),
         "there is no JDBC driver for this URL: check the URL, and add the JAR with spark.jars"),
        (DAEMON, NOT_THERE),
        (WALL.format(raised="ModuleNotFoundError: No module named 'barnabas'"), NOT_THERE),
        (WALL.format(raised="ModuleNotFoundError: No module named 'numba'"),
         "the Python of Spark's workers has no module 'numba': install it there, or send it along"),
        ("", "failed"),
    ],
)  # fmt: skip
def test_the_reason_is_found(text: str, reason: str) -> None:
    assert reason_of(text) == reason
