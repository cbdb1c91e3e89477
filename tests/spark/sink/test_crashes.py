"""A crash between any two steps of a write: every record is published once, for readers of committed records."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client import Bus
from barnabas.spark.sink.steps import Step
from tests.conformance.broker.served import ServedBroker
from tests.spark.sink.running import TOPIC, Pipeline, wait_for

IN_TASKS: list[Step] = [step for step in Step if step is not Step.BATCH_PUBLISHED]
# Spark takes many seconds to start: all of these are for whoever changes the sink.
IS_LONG = os.environ.get("TEST_CRASHES") == "all"
BROKER_KILLED_AT = list(Step) if IS_LONG else [Step.READY, Step.SENT, Step.MARKED, Step.PUBLISHED]
DRIVER_KILLED_AT = list(Step) if IS_LONG else [Step.BATCH_PUBLISHED]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path) as broker:
        with Bus(broker.bootstrap) as bus:
            bus.create_topic(TOPIC, partitions=3)
        yield broker
    assert "Traceback" not in broker.log, broker.log


@pytest.fixture
def pipeline(tmp_path: Path, served: ServedBroker) -> Iterator[Pipeline]:
    running = Pipeline(tmp_path, served)
    running.start()
    try:
        yield running
    finally:
        running.kill()


def test_a_worker_the_broker_or_the_driver_is_killed_between_any_two_steps(
    pipeline: Pipeline, served: ServedBroker
) -> None:
    """One query, one checkpoint, one crash after the other."""
    for step in IN_TASKS:
        pipeline.arm(step, "exit")
        pipeline.feed()
        pipeline.wait_until_reached()
        pipeline.wait_until_published()
    for step in BROKER_KILLED_AT:
        pipeline.arm(step, "wait")
        pipeline.feed()
        pipeline.wait_until_reached()
        served.kill()
        served.start()
        pipeline.go_on()
        pipeline.wait_until_published()
    for step in DRIVER_KILLED_AT:
        pipeline.arm(step, "wait")
        pipeline.feed()
        pipeline.wait_until_reached()
        pipeline.kill()
        pipeline.start()
        pipeline.wait_until_published()
    lose_a_worker(pipeline)
    pipeline.feed()
    pipeline.wait_until_published()


def lose_a_worker(pipeline: Pipeline) -> None:
    """The driver is killed without one of its workers, which then goes on, and finds its transaction taken over."""
    pipeline.arm(Step.MARKED, "outlive")
    pipeline.feed()
    lost = pipeline.wait_until_reached()
    pipeline.kill(but_workers=True)
    pipeline.start()
    pipeline.wait_until_published()
    pipeline.go_on()
    wait_for("the lost worker to give up", lambda: not is_running(lost))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    time.sleep(0.02)
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
