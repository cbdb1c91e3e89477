"""What a user gets wrong is said in the first line, by the driver, without a stack of the JVM or of Python."""

import socket
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from tests.spark.source.streams import batch, run_available, stream


def said(refusal: "pytest.ExceptionInfo[PySparkException]") -> str:
    """The first line; there is no other that a reader would have to go through."""
    text = str(refusal.value)
    assert "Traceback" not in text
    assert "\tat " not in text
    return text.splitlines()[0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"subscribe": "t", "startingOffset": "earliest"},
            "unknown option 'startingoffset'; did you mean 'startingOffsets'?",
        ),
        ({"subscribe": "t", "assign": '{"t": [0]}'}, "options 'subscribe' and 'assign' contradict each other"),
        ({}, "give one of the options that name the topics to read: 'subscribe', 'subscribePattern', 'assign'"),
        ({"subscribe": "t", "group": "g"}, "option 'group' is for a stream, and this is a batch read"),
        ({"subscribe": "t", "startingOffsets": "latest"}, "a batch read cannot start at the latest offset"),
    ],
)
def test_bad_options_are_refused_by_the_driver(
    spark: Any, bootstrap: str, options: dict[str, str], expected: str
) -> None:
    with pytest.raises(PySparkException) as refusal:
        batch(spark, bootstrap, **options).collect()

    assert expected in said(refusal)


def test_an_option_that_is_wrong_for_a_stream_is_refused(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    with pytest.raises(PySparkException) as refusal:
        run_available(stream(spark, bootstrap, "t", endingOffsets="latest"), tmp_path)

    assert "option 'endingOffsets' is for a batch read, and this is a stream" in said(refusal)


def test_a_topic_that_does_not_exist_is_refused(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    with pytest.raises(PySparkException) as of_batch:
        batch(spark, bootstrap, "no-such-topic").collect()
    with pytest.raises(PySparkException) as of_stream:
        run_available(stream(spark, bootstrap, "no-such-topic"), tmp_path)

    expected = "topic 'no-such-topic' does not exist, and option 'subscribe' names it"
    assert expected in said(of_batch)
    assert expected in said(of_stream)


def test_a_cluster_that_nobody_serves_is_given_up_in_time(spark: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        started = time.monotonic()

        with pytest.raises(PySparkException) as refusal:
            batch(spark, address, "t", kafka__default__api__timeout__ms=1000).collect()

    assert f"no broker at {address} answered within 1 s: cannot connect to {address}" in said(refusal)
    assert time.monotonic() - started < 45
