"""The console that `barnabas serve --console` runs beside its nodes: a process that starts and stops with them."""

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from barnabas.cli.console import address_of, check_installed

STOP_S: Final = 5.0
READY: Final = "is ready on"
Address: TypeAlias = tuple[str, int]
log = logging.getLogger("barnabas")


class ConsoleProcess:
    """The process; none until the nodes are ready."""

    def __init__(self, listen: str) -> None:
        check_installed()
        address_of(listen)  # refused before a node starts
        self._listen = listen
        self._process: subprocess.Popen[str] | None = None
        self._hearing: threading.Thread | None = None
        self._is_stopping = False

    def start(self, nodes: Sequence[Address | None], on_ready: Callable[[], None] | None = None) -> None:
        """Start it for nodes that serve HTTP at these addresses; without any there is nothing to look at.

        `on_ready` is called, on a thread, when its pages answer, or when it is certain that they never will. Without it
        what the process says goes to our output.
        """
        apis = [url_of(each) for each in nodes if each is not None]
        if not apis:
            log.warning("there is no console: the node serves no HTTP (http.listener)")
            if on_ready is not None:
                on_ready()
            return
        command = [sys.executable, "-m", "barnabas.cli.main", "console", "--listen", self._listen]
        command += [part for url in apis for part in ("--api", url)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=None if on_ready is None else subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if on_ready is not None:
            self._hearing = threading.Thread(target=self._hear, args=[on_ready], name="console", daemon=True)
            self._hearing.start()

    def _hear(self, on_ready: Callable[[], None]) -> None:
        """Hand on what the process says, behind what `on_ready` does."""
        assert self._process is not None
        assert self._process.stdout is not None
        is_told = False
        for line in self._process.stdout:
            if not is_told and READY in line:
                is_told = True
                on_ready()
            print(line, end="", flush=True)
        if not is_told and not self._is_stopping:
            log.warning("there is no console: it ended with exit code %s", self._process.wait())
            on_ready()

    def stop(self) -> None:
        """Stop it."""
        self._is_stopping = True
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._hearing is not None:
            self._hearing.join(STOP_S)
        if self._process.stdout is not None:
            self._process.stdout.close()


def url_of(address: Address) -> str:
    """Where a node's API is, for a process of this machine."""
    host, port = address
    shown = "127.0.0.1" if host in ("", "0.0.0.0") else "::1" if host == "::" else host
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
