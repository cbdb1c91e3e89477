"""A failed query is told in one line, whatever wall of text Spark makes of it."""

import pytest

from barnabas.spark.pipelines.reasons import reason_of

WALL = """[STREAM_FAILED] Query terminated with exception: Job aborted SQLSTATE: XXKST
Traceback (most recent call last):
  File "worker.py", line 1, in main
{raised}
\tat org.apache.spark.Thing.run(Thing.scala:1)
"""
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
        (JAVA.format("java.lang.ClassNotFoundException: a.B"), "there is no class a.B: bring its JAR by spark.jars"),
        (JAVA.format("java.sql.SQLException: No suitable driver"),
         "no JDBC driver is there for this URL: see that it is right, and bring the JAR by spark.jars"),
        ("", "failed"),
    ],
)  # fmt: skip
def test_the_reason_is_found(text: str, reason: str) -> None:
    assert reason_of(text) == reason
