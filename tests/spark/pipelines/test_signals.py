"""A pipeline on the command line: a table on a terminal, lines elsewhere, and an end by Ctrl-C or a signal."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'barnabas[tables]'")

from tests.spark.pipelines.conftest import ReadTable, SendJson

if TYPE_CHECKING:
    from barnabas.client import Bus

WAIT_S = 120.0
# The command with a pipeline that has no Spark: how it takes signals can be seen in a second.
FAKE = """
import contextlib, sys, threading, time
from barnabas.cli import pipeline_running
from barnabas.spark.pipelines.progress import PipelineProgress, QueryProgress

class Fake:
    name = "fake"
    def claimed(self):
        return contextlib.nullcontext()
    def check_topics(self):
        pass
    def run(self, spark, *, once, seconds, should_stop, on_progress):
        print("running", flush=True)
        while not should_stop():
            on_progress(PipelineProgress("fake", "running", {"out": QueryProgress("out", 1, 9, rows_written=5)}))
            time.sleep(0.01)
        print("stopping", flush=True)
        for _ in range(600 if "stuck" in sys.argv else 0):
            time.sleep(0.1)  # Python sees a signal that comes just before a sleep only after it
        queries = {"out": QueryProgress("out", 2, 9, rows_written=7)}
        return PipelineProgress("fake", "stopped", queries, notes=["group g: in step"])

pipeline_running.quiet_session = lambda *_, **__: None
pipeline_running._LINE_EVERY_S = 0
choices = dict(once=False, seconds=None, explain=False, master=None, remote=None, verbose=False)
pipeline_running.run_pipeline(Fake(), **choices)
"""

# The first terminal that the leader of a session opens is the session's.
AT_TERMINAL = "import os, sys; os.open(os.ttyname(0), os.O_RDWR); os.execv(sys.argv[1], sys.argv[1:])"


@pytest.fixture
def fake() -> Iterator[Any]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", FAKE, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_with_a_last_line(fake: Any, number: signal.Signals) -> None:
    process = fake()

    process.send_signal(number)
    out, err = process.communicate(timeout=90)

    assert process.returncode == 0
    assert out == "stopping\npipeline fake: stopped; out 7 rows written up to batch 2\ngroup g: in step\n"
    assert err.splitlines() in ([], ["pipeline fake: out 5 rows written up to batch 1"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_it_at_once(fake: Any, number: signal.Signals) -> None:
    process = fake("stuck")
    process.send_signal(number)
    assert process.stdout.readline() == "stopping\n"

    process.send_signal(number)

    assert process.wait(60) == -number
    assert "Traceback" not in process.stderr.read()


class Terminal:
    """A command at a terminal of its own, which what it starts shares with it; what it shows is read all the time."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (40, 120))
        self.shown = ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", AT_TERMINAL, *command],
            cwd=cwd,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm"},
            start_new_session=True,
        )
        os.close(theirs)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                select.select([self._ours], [], [])
                self.shown += os.read(self._ours, 65536).decode(errors="replace")
            except OSError:  # nobody has it open any more
                return

    def press(self, key: bytes) -> None:
        os.write(self._ours, key)

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while text not in self.shown:
            assert self.process.poll() is None, self.shown
            assert time.monotonic() < deadline, self.shown
            time.sleep(0.05)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_at_a_terminal_a_table_shows_it_and_ctrl_c_ends_it(
    topic: str, bootstrap: str, client: "Bus", send_json: SendJson, read_table: ReadTable, tmp_path: Path
) -> None:
    send_json(topic, [{"id": number} for number in range(5)])
    command = [str(Path(sys.executable).parent / "barnabas"), "pipeline", "archive", topic, "table", "-b", bootstrap]
    terminal = Terminal([*command, "--schema", "id long"], tmp_path)
    try:
        terminal.wait_for(f"archive-{topic}: running")
        terminal.wait_for("rows written")
        wait_for_file(terminal, tmp_path / ".checkpoints" / f"archive-{topic}" / "archive" / "commits" / "0")
        terminal.press(b"\x03")
        assert terminal.process.wait(60) == 0, terminal.shown
    finally:
        terminal.process.kill()
        terminal.process.wait()

    assert f"pipeline archive-{topic}: stopped; archive 5 rows written up to batch 0" in terminal.shown
    assert "Traceback" not in terminal.shown
    assert sorted(row["id"] for row in read_table(tmp_path / "table")) == list(range(5))


def wait_for_file(terminal: Terminal, path: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not path.exists():
        assert terminal.process.poll() is None, terminal.shown
        assert time.monotonic() < deadline, terminal.shown
        time.sleep(0.05)
