"""How far a pipeline is, as others see it: its state when its process is gone, its lag, its last batch."""

import io
import json
import os
import socket
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'barnabas[spark]'")

from barnabas.cli.pipeline import app
from barnabas.cli.pipeline_running import _table as table_of
from barnabas.spark.made_once import made_once
from barnabas.spark.pipelines.claiming import Claim
from barnabas.spark.pipelines.lag import reached_offsets
from barnabas.spark.pipelines.progress import PipelineProgress, QueryProgress, read_progress, write_progress
from barnabas.testing.embedded import EmbeddedBroker

RUNNING = PipelineProgress(
    "p",
    "running",
    {"out": QueryProgress("out", batch_id=3, rows=9, rows_written=7, sink="topic o")},
    notes=["group g: in step"],
)
WRITE = """
import sys
from barnabas.spark.pipelines.progress import *
write_progress(sys.argv[1], PipelineProgress("p", "running", {}))
"""


def test_what_is_written_down_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_progress(str(tmp_path / "new" / "checkpoint"), RUNNING)
        claim = Claim("p", str(tmp_path / "new" / "claimed"))
        claim.take()
        claim.release()
        made_once("kept", lambda _: None, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    finally:
        os.umask(before)
    folders = [tmp_path / "new" / "checkpoint", tmp_path / "new" / "claimed", tmp_path / "cache" / "barnabas"]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 3
    files = [file for folder in folders[:2] for file in folder.iterdir()]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 2


def test_who_writes_it_down_is_running_as_long_as_it_lives(tmp_path: Path) -> None:
    write_progress(str(tmp_path), RUNNING)

    found = read_progress(str(tmp_path))

    assert found is not None
    assert (found.describe_state(), found.queries, found.notes) == ("running", RUNNING.queries, RUNNING.notes)


def test_a_process_that_is_gone_was_killed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WRITE, str(tmp_path)], check=True)

    found = read_progress(str(tmp_path))

    assert found is not None
    assert found.state == "running"
    assert found.describe_state() == "not running (was killed)"
    # Somebody else has its number now.
    assert replace(found, process=f"{socket.gethostname()}/{os.getpid()}.1").describe_state().startswith("not running")


def test_another_machine_is_believed_for_a_while() -> None:
    told = replace(RUNNING, process="elsewhere/5.1", updated_s=time.time())

    assert told.describe_state() == "running"
    assert replace(told, updated_s=time.time() - 100).describe_state() == "unknown (was running on elsewhere)"
    assert replace(told, state="failed").describe_state() == "failed"


def test_the_lag_is_that_of_the_newest_report_also_of_an_idle_one() -> None:
    def report(batch_id: int, end: int, latest: int, **durations: int) -> dict[str, Any]:
        offsets = {
            "endOffset": json.dumps({"t": {"0": end}, "t@id": {}}),
            "latestOffset": json.dumps({"t": {"0": latest}}),
        }
        source = {"numInputRows": 2, "processedRowsPerSecond": 1.0, **offsets}
        return {"batchId": batch_id, "durationMs": durations, "sources": [source]}

    first = QueryProgress("out").advanced(report(0, 2, 9, addBatch=5))
    idle = first.advanced(report(1, 9, 9))
    old = idle.advanced(report(0, 2, 9, addBatch=5))

    assert QueryProgress("out").lag is None
    assert (first.lag, idle.lag, old.lag) == (7, 0, 0)
    assert idle.rows == first.rows


FILE = """\
name: p
bootstrap: {bootstrap}
sources:
  - {{name: records, type: topic, topic: t}}
sinks:
  - {{name: out, type: console}}
  - {{name: new, type: console}}
checkpoint: {checkpoint}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline whose query `out` has done a batch; of `new` there is nothing yet."""
    for name, text in {
        "commits/0": "v1\n{}",
        "commits/1": "v1\n{}",
        "offsets/0": 'v1\n{}\n{"t": {"0": 1}}',
        "offsets/1": 'v1\n{}\n{"t": {"0": 2, "1": 0}}\n{"logOffset":4}\n-',
        "offsets/2": 'v1\n{}\n{"t": {"0": 5, "1": 1}}',
    }.items():
        path = tmp_path / "checkpoint" / "out" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    file = tmp_path / "p.yaml"
    file.write_text(FILE.format(bootstrap="127.0.0.1:1", checkpoint=tmp_path / "checkpoint"))
    return file


def test_the_status_has_lag_and_age_of_each_query(file: Path, tmp_path: Path) -> None:
    write_progress(str(tmp_path / "checkpoint"), RUNNING)
    os.utime(tmp_path / "checkpoint" / "out" / "commits" / "1", (0, time.time() - 200))
    with EmbeddedBroker() as broker:
        broker.bus.create_topic("t", partitions=3)
        for partition, count in enumerate((5, 1, 2)):
            for _ in range(count):
                broker.bus.send("t", "x", partition=partition).result(60)
        file.write_text(file.read_text().replace("127.0.0.1:1\n", f"{broker.bootstrap}\n"))

        shown = CliRunner().invoke(app, ["status", str(file), "--json"])
        table = CliRunner().invoke(app, ["status", str(file)])

    out, new = json.loads(shown.output)
    assert (out["state"], out["last batch"], out["done"], out["lag"]) == ("running", 1, "3 min ago", 3 + 1 + 2)
    assert (new["last batch"], new["done"], new["lag"]) == ("-", "-", 8)
    assert (out["sink"], out["rows written"], new["sink"], new["rows written"]) == ("topic o", 7, "-", "-")
    assert "group g: in step" in table.output


def test_where_nobody_answers_the_lag_is_a_dash(file: Path, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["status", str(file), "--json"])

    assert shown.exit_code == 0
    assert [row["lag"] for row in json.loads(shown.output)] == ["-", "-"]
    assert reached_offsets(str(tmp_path / "checkpoint"), "out") == {"t": {0: 2, 1: 0}}


@pytest.mark.parametrize(("width", "has_sink"), [(120, True), (80, False)])
def test_the_table_names_the_sinks_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, width: int, has_sink: bool
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    letters = QueryProgress("dead_letters", lag=0, sink="topic archive-orders.dead-letters")
    queries = {"archive": QueryProgress("archive", rows_written=5, lag=1200, sink="delta table"), "letters": letters}
    console = Console(width=width, file=io.StringIO())

    console.print(table_of(PipelineProgress("p", "running", queries)))

    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "1,200" in shown
    assert ("delta table" in shown, "topic archive-orders.dead-l…" in shown) == (has_sink, has_sink)
    assert "query:" not in shown  # it is a table still
