"""A pipeline runs once at a time: who comes second hears at once who was first, and a dead process holds nothing."""

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'barnabas[spark]'")

from barnabas.spark.pipelines import Pipeline, PipelineRunning, claiming
from barnabas.spark.pipelines.claiming import FILE_NAME, Claim

HOLD = """
import sys
from barnabas.spark.pipelines.claiming import Claim
claim = Claim("orders", sys.argv[1])
claim.take()
print("taken", flush=True)
sys.stdin.read()
"""
FILE = """\
name: orders
bootstrap: 127.0.0.1:1
sources: [{{name: o, type: topic, topic: orders}}]
sinks: [{{type: console}}]
checkpoint: {checkpoint}
"""


def hold(checkpoint: Path) -> subprocess.Popen[str]:
    """Another process that has the claim."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(checkpoint)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "taken\n"
    return process


def test_who_comes_second_hears_who_was_first_before_spark_starts(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(FILE.format(checkpoint=tmp_path / "checkpoint"))
    with hold(tmp_path / "checkpoint") as first:
        run = [sys.executable, "-X", "importtime", "-m", "barnabas.cli.main", "pipeline", "run", str(file)]
        second = subprocess.run(run, capture_output=True, text=True, check=False, timeout=60)
        with pytest.raises(PipelineRunning):
            Pipeline.load(file).start()
        first.communicate()

    said = f"pipeline orders is already running (pid {first.pid}): stop that one first, "
    assert second.returncode == 1
    assert f"barnabas: {said}or give this one its own checkpoint\n" in second.stderr
    assert "pyspark" not in second.stderr, "and at once: Spark was not even loaded"


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    with hold(tmp_path) as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert str(first.pid) in (tmp_path / FILE_NAME).read_text(), "what it wrote is still there"

    claim = Claim("orders", str(tmp_path))
    claim.take()

    assert (tmp_path / FILE_NAME).read_text().split()[1] == str(os.getpid())
    claim.release()


def test_it_can_be_taken_again_after_it_was_given_back(tmp_path: Path) -> None:
    first, second = Claim("orders", str(tmp_path)), Claim("orders", str(tmp_path))
    first.take()
    first.take()
    with pytest.raises(PipelineRunning, match=r"running \(in this process\)"):
        second.take()

    first.release()
    second.begin()
    with pytest.raises(PipelineRunning, match="already"):
        second.begin()
    second.release()
    second.begin()
    second.release()


def test_a_pipeline_that_could_not_start_holds_nothing(tmp_path: Path) -> None:
    pipeline = Pipeline.from_yaml(FILE.format(checkpoint=tmp_path).replace("127.0.0.1:1", "'no address'"))
    for _ in range(2):
        with pytest.raises(Exception, match="no address"):
            pipeline.start()

    claim = Claim("orders", str(tmp_path))
    claim.take()
    claim.release()


def test_a_run_is_not_forgotten_with_the_object_that_started_it(tmp_path: Path) -> None:
    Claim("orders", str(tmp_path)).begin()
    gc.collect()

    with pytest.raises(PipelineRunning):
        Claim("orders", str(tmp_path)).take()
    for claim in set(claiming._running_claims):
        claim.release()


def test_where_the_checkpoint_is_elsewhere_there_is_no_lock() -> None:
    claims = [Claim("orders", "s3://bucket/checkpoint") for _ in range(2)]
    for claim in claims:
        claim.begin()
    for claim in claims:
        claim.release()


def test_a_folder_that_cannot_be_locked_is_said(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()

    with pytest.raises(OSError, match="directory"):
        Claim("orders", str(tmp_path)).take()
