"""The broker of the demo: ``barnabas serve`` as a separate process that can be killed."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from barnabas.cli.demo.findings import DemoFailed


class BrokerProcess:
    """``barnabas serve`` as a process, on the same port every time it is started."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None
        self.port = _free_port()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> float:
        """Start the process and return the seconds until it was ready."""
        command = [sys.executable, "-m", "barnabas.cli.main", "serve", "--listen", self.bootstrap]
        settings = ("log.cleaner.backoff.ms=200", "log.retention.check.interval.ms=1000")
        sets = [part for setting in settings for part in ("--set", setting)]
        begin = time.perf_counter()
        self._process = subprocess.Popen(
            [*command, "--data-dir", str(self._directory), *sets],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the demo, which then stops it
        )
        assert self._process.stdout is not None
        if "ready" not in self._process.stdout.readline():
            raise DemoFailed("the broker did not start")
        return time.perf_counter() - begin

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
