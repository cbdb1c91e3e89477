"""The same where Spark is another: one that tries no task again, a Connect server, a cluster that speculates; and kills
at the writes of Spark's own checkpoint. A driver takes many seconds to start: all of this only with TEST_CRASHES=all.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.spark.sink.steps import TopicStep
from barnabas.spark.source.steps import SourceStep
from barnabas.spark.tables.steps import TableStep
from tests.conformance.broker.served import ServedBroker
from tests.spark.cluster.processes import LOOPBACK, free_port, started
from tests.spark.crashes.driver import CONNECT
from tests.spark.crashes.processes import wait_for
from tests.spark.crashes.running import BROKEN, SINKS, Armed, CrashingPipeline

pytestmark = pytest.mark.skipif(
    os.environ.get("TEST_CRASHES") != "all", reason="many minutes: TEST_CRASHES=all runs it"
)

MakePipeline = Callable[..., CrashingPipeline]
SPECULATING = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.executor.memory": "512m",
}


@pytest.fixture
def make_pipeline(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakePipeline]:
    """Start a pipeline, with a broker of its own, that has done some work."""
    running: list[CrashingPipeline] = []
    with ServedBroker(tmp_path_factory.mktemp("broker")) as served:

        def make(**how: Any) -> CrashingPipeline:
            running.append(CrashingPipeline(tmp_path, served, **how))
            running[0].start()
            run_a_while(running[0])
            return running[0]

        yield make
        for each in running:
            each.kill()
    assert "Traceback" not in served.log, served.log


def run_a_while(pipeline: CrashingPipeline) -> None:
    pipeline.feed()
    pipeline.wait_until_all_is_there()
    pipeline.check()


def kill_workers_at(pipeline: CrashingPipeline, armed: Armed) -> None:
    pipeline.arm(armed)
    pipeline.feed()
    for pid in pipeline.wait_until_reached():
        os.kill(pid, signal.SIGKILL)


def test_a_query_whose_task_fails_is_run_again_and_output_equals_input(make_pipeline: MakePipeline) -> None:
    """No task is tried again: the worker that reads dies, then the one that writes, then the rows are broken."""
    pipeline = make_pipeline(master="local[5]")

    for armed in (dict.fromkeys(SINKS, SourceStep.PART_READ), {"topic": TopicStep.PART_SENT}):
        failures = len(pipeline.failures)
        kill_workers_at(pipeline, armed)
        run_a_while(pipeline)
        assert len(pipeline.failures) > failures

    failures = len(pipeline.failures)
    pipeline.feed(is_broken=True)
    run_a_while(pipeline)
    assert any(BROKEN in failure for failure in pipeline.failures[failures:])


def test_output_equals_input_over_connect(make_pipeline: MakePipeline) -> None:
    sinks = ("topic", "delta", "merge", "parquet")
    pipeline = make_pipeline(master=CONNECT, sinks=sinks)

    kill_workers_at(pipeline, dict.fromkeys(sinks, SourceStep.PART_READ))
    run_a_while(pipeline)
    pipeline.feed(is_broken=True)
    run_a_while(pipeline)
    for armed in (
        {"topic": TopicStep.INTENDED, "delta": TableStep.READY, "merge": TableStep.COMMITTED},
        {"topic": TopicStep.PART_PUBLISHED, "delta": TableStep.COMMITTED, "merge": TableStep.CLEARED},
    ):
        pipeline.arm(armed)
        pipeline.feed()
        pipeline.wait_until_reached()
        pipeline.kill()
        pipeline.start()
        run_a_while(pipeline)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of two hosts: Spark gives no second attempt to the host that has the first."""
    port = free_port()
    address = f"spark://{LOOPBACK}:{port}"
    leader = ["spark-class", "org.apache.spark.deploy.master.Master", "--host", LOOPBACK, "--port", str(port)]
    worker = ["spark-class", "org.apache.spark.deploy.worker.Worker", "--cores", "3", "--memory", "600m", address]
    said = "Successfully registered with master"
    apart = ["--webui-port", "0"]
    with (
        started(tmp_path, "master", *leader, *apart, port=port),
        started(tmp_path, "first", *worker, *apart, "--host", "127.0.0.1", "-d", str(tmp_path / "1"), says=said),
        started(tmp_path, "second", *worker, *apart, "--host", "127.0.0.2", "-d", str(tmp_path / "2"), says=said),
    ):
        yield address


@pytest.mark.parametrize("step", [TopicStep.PART_SENT, TopicStep.PREPARED])
def test_of_a_speculative_task_one_attempt_counts(step: TopicStep, cluster: str, make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(master=cluster, sinks=("topic", "delta"), settings=SPECULATING)

    pipeline.arm({"topic": step, "delta": TableStep.WRITTEN})
    pipeline.feed()
    waiting = pipeline.wait_until_reached()
    pipeline.wait_until_all_is_there()  # the attempts that came first still wait: others have written this
    pipeline.go_on()
    pipeline.wait_until_ended(waiting)

    run_a_while(pipeline)
    assert pipeline.failures == []


WRITES = {"offsets": "offsets/{batch}", "state": "state/0/*/{next}.delta", "commits": "commits/{batch}"}


def test_output_equals_input_after_kills_at_the_writes_of_a_checkpoint(make_pipeline: MakePipeline) -> None:
    """With a state, which has every row by the time it is published."""
    pipeline = make_pipeline(sinks=("state",))
    checkpoint = pipeline.checkpoint_of("state")

    for pattern in WRITES.values():
        last = max(int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*"))
        name = pattern.format(batch=last + 1, next=last + 2)
        pipeline.feed()
        wait_for(name, lambda name=name: any(checkpoint.glob(name)), poll_s=0.001)  # type: ignore[misc]
        pipeline.kill()
        pipeline.start()
        run_a_while(pipeline)


@pytest.mark.parametrize("step", [TopicStep.PREPARED, TopicStep.ALL_PREPARED, TopicStep.BATCH_PUBLISHED])
def test_output_of_a_state_equals_input_after_a_kill_between(step: TopicStep, make_pipeline: MakePipeline) -> None:
    """One task has written its state, all have, and all is published; Spark's log has none of it."""
    pipeline = make_pipeline(sinks=("state",))

    pipeline.arm({"topic": step})
    pipeline.feed()
    pipeline.wait_until_reached()
    pipeline.kill()
    pipeline.start()

    run_a_while(pipeline)
