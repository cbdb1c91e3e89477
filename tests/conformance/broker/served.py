"""A broker as users run it: `barnabas serve` in a process of its own, on a free loopback port."""

import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

READY: Final = re.compile(r"is ready on 127\.0\.0\.1:(\d+)")
STOP_TIMEOUT_S: Final = 60


class ServedBroker:
    """Runs while its `with` block lasts. It keeps its port over restarts, so that clients find it again."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.data_dir = directory / "data"
        self._log = directory / "broker.log"
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What the broker wrote to its log: warnings and errors."""
        return self._log.read_text()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.stop()

    def start(self) -> None:
        assert self._process is None
        command = [sys.executable, "-m", "barnabas.cli.main", "serve", "--data-dir", str(self.data_dir)]
        command += ["--listen", self.bootstrap]
        for setting in self._settings:
            command += ["--set", setting]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        ready = READY.search(self._process.stdout.readline())
        assert ready is not None, self.log
        self.port = int(ready[1])

    def stop(self) -> None:
        """Stop it as an operator does."""
        assert self._end(signal.SIGTERM) == 0, self.log

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None
        with process:
            process.send_signal(number)
            try:
                return process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
