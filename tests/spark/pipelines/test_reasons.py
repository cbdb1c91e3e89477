"""A failed query is told in one line, whatever wall of text Spark makes of it."""

import pytest

from barnabas.spark.pipelines.running import reason_of

WALL = """[STREAM_FAILED] Query terminated with exception: Job aborted SQLSTATE: XXKST
Traceback (most recent call last):
  File "worker.py", line 1, in main
{raised}
\tat org.apache.spark.Thing.run(Thing.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (WALL.format(raised="barnabas.core.errors.InvalidRequest: no such table"), "no such table"),
        (WALL.format(raised="ValueError: 5 is odd"), "ValueError: 5 is odd"),
        ("initialOffset: barnabas.core.errors.UnknownTopicOrPartition: there is no x", "there is no x"),
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==", "[DIVIDE_BY_ZERO] Division by zero."),
        ("", "failed"),
    ],
)  # fmt: skip
def test_the_reason_is_found(text: str, reason: str) -> None:
    assert reason_of(text) == reason
