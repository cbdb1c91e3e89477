"""A pipeline for the tests that kill things: its driver in a session of its own, its input, and what readers see."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from barnabas.client import Bus
from barnabas.spark.sink.steps import Step
from tests.conformance.broker.served import ServedBroker
from tests.spark.sink.crashing import PLAN

ROOT: Final = Path(__file__).parents[3]
TIMEOUT_S: Final = 90.0
ROWS_IN_FILE: Final = 20
TOPIC: Final = "lines"
_POLL_S: Final = 0.05


def wait_for(what: str, condition: Callable[[], Any], timeout_s: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s for {what}"
        time.sleep(_POLL_S)


def processes_of_session(session_id: int) -> dict[int, str]:
    """The processes of a session that still run, with their command lines."""
    found = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                state, _, _, session = (directory / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == session_id and state != "Z":
                    found[int(directory.name)] = (directory / "cmdline").read_text().replace("\0", " ")
            except (OSError, ValueError):  # it has just ended
                continue
    return found


class Pipeline:
    """Files to a topic. Its driver may be killed and started again."""

    def __init__(self, directory: Path, served: ServedBroker) -> None:
        self._directory = directory
        self._files = directory / "files"
        self._plan = directory / "plan"
        self._served = served
        self._driver: subprocess.Popen[bytes] | None = None
        self._log = directory / "driver.log"
        self._file_count = 0
        self.expected: list[str] = []
        self._files.mkdir()
        self._plan.mkdir()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def start(self) -> None:
        assert self._driver is None
        command = [sys.executable, "-m", "tests.spark.sink.driver", self._served.bootstrap, TOPIC, str(self._directory)]
        environment = {**os.environ, PLAN: str(self._plan), "PYTHONPATH": str(ROOT)}
        with self._log.open("ab") as log:
            self._driver = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, *, but_workers: bool = False) -> None:
        """SIGKILL to the driver, its JVM and its Python workers, or to all but those."""
        driver, self._driver = self._driver, None
        assert driver is not None
        for pid, command in processes_of_session(driver.pid).items():
            if not (but_workers and "pyspark.daemon" in command):
                os.kill(pid, signal.SIGKILL)
        driver.wait(10)
        if not but_workers:
            wait_for("the driver's processes to end", lambda: not processes_of_session(driver.pid))

    def arm(self, step: Step, action: str) -> None:
        for name in ("go", "reached", "taken"):
            (self._plan / name).unlink(missing_ok=True)
        (self._plan / "new").write_text(f"{step.value} {action}")
        (self._plan / "new").rename(self._plan / "armed")

    def wait_until_reached(self) -> int:
        """Wait for the step that is armed; gives the process that came to it."""
        wait_for("the step", self._reached_or_over)
        return int((self._plan / "reached").read_text())

    def _reached_or_over(self) -> bool:
        assert self._driver is not None
        assert self._driver.poll() is None, self.log[-5000:]
        return (self._plan / "reached").exists()

    def go_on(self) -> None:
        (self._plan / "go").touch()

    def feed(self, file_count: int = 2) -> None:
        """More input, in files that appear whole."""
        for _ in range(file_count):
            lines = [f"{row:03} of file {self._file_count}" for row in range(ROWS_IN_FILE)]
            unfinished = self._directory / "unfinished"
            unfinished.write_text("".join(f"{line}\n" for line in lines))
            unfinished.rename(self._files / f"{self._file_count:04}.txt")
            self._file_count += 1
            self.expected += lines

    def published(self) -> list[str]:
        """What a reader of committed records sees."""
        with Bus(self._served.bootstrap, config={"reconnect.backoff.max.ms": "500"}) as bus:
            return [(message.value or b"").decode() for message in bus.consume(TOPIC, until_end=True)]

    def wait_until_published(self) -> None:
        """Wait until there is as much output as input; and it is that."""
        wait_for("the output", self._is_all_there_or_over)
        assert sorted(self.published()) == sorted(self.expected)

    def _is_all_there_or_over(self) -> bool:
        assert self._driver is not None
        assert self._driver.poll() is None, self.log[-5000:]
        return len(self.published()) >= len(self.expected)
