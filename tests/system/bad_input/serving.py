"""Bad input to a real `barnabas serve` process, and what it may cost.

The oracle: an answer, or a typed error, or a closed connection; the broker lives, serves an honest client meanwhile,
has nothing of ERROR or a traceback in its log, and its memory stays within 8 times the input and a constant.
"""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.served import CLIENT_APIS, CONTROLLER_APIS
from tests.system.running import Client, check_round_trip

MIB: Final = 1024 * 1024
MEMORY_CONSTANT: Final = 400 * MIB  # whatever is sent: interpreter, threads, and a few batches being opened at once
FRAME_LIMIT: Final = 100 * MIB
CLIENTS, CONTROLLERS = "PLAINTEXT", "CONTROLLER"
EVERYWHERE = pytest.mark.parametrize(
    ("listener", "api"),
    [
        pytest.param(listener, api, id=f"{listener.lower()}-{api.name}")
        for listener, apis in ((CLIENTS, CLIENT_APIS), (CONTROLLERS, CONTROLLER_APIS))
        for api in apis
    ],
)
"""Every API, on every kind of listener that serves it."""


class Server:
    """`barnabas serve` in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._log = directory / "stderr"
        listeners = ",".join(f"{name}://127.0.0.1:0" for name in (CLIENTS, CONTROLLERS))
        settings = [f"listeners={listeners}", f"controller.listener.names={CONTROLLERS}"]
        command = [sys.executable, "-m", "barnabas.cli.main", "serve", *(f"--set={each}" for each in settings)]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--data-dir", str(directory / "data")], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        found = re.findall(r"127\.0\.0\.1:(\d+)", self.process.stdout.readline())
        assert len(found) == 2, self.log
        self.ports = dict(zip((CLIENTS, CONTROLLERS), map(int, found), strict=True))
        self.port = self.ports[CLIENTS]

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def check(self) -> None:
        assert self.process.poll() is None, self.log
        assert "Traceback" not in self.log
        assert " ERROR " not in self.log
        check_round_trip(self.port)

    def memory(self, field: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{field}:\s+(\d+) kB", text)
        assert found is not None
        return int(found[1]) * 1024

    @contextmanager
    def bounded_memory(self, input_size: int) -> Iterator[None]:
        """See that the most memory in use grows by no more than the oracle allows."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # forget the peak so far
        before = self.memory("VmRSS")
        yield
        assert self.memory("VmHWM") - before <= 8 * input_size + MEMORY_CONSTANT

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()
        assert "Traceback" not in self.log


@contextmanager
def honest_client(server: Server) -> Iterator[Callable[[], int]]:
    """A client that goes on producing and fetching; gives how often that worked."""
    is_over = threading.Event()
    rounds: list[int] = []
    failures: list[BaseException] = []

    def serve_honestly() -> None:
        try:
            while not is_over.is_set():
                check_round_trip(server.port)
                rounds.append(1)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=serve_honestly)
    thread.start()
    try:
        yield lambda: len(rounds)
    finally:
        is_over.set()
        thread.join(60)
    assert not failures
    assert rounds


def answered_or_closed(server: Server, frame: bytes, listener: str = CLIENTS) -> list[bytes]:
    """Send a frame, and an honest request behind it; what was answered to the frame."""
    with Client(server.ports[listener]) as client:
        return client.ask_raw(frame)[1]
