"""The console that `barnabas serve --console` runs beside its node: a process that is started and stopped with it."""

import logging
import subprocess
import sys
from typing import Final

from barnabas.cli.console import address_of, check_installed
from barnabas.node import Node

STOP_S: Final = 5.0


class ConsoleProcess:
    """The process; none until the node is ready."""

    def __init__(self, listen: str) -> None:
        check_installed()
        address_of(listen)  # refused before the node starts
        self._listen = listen
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, node: Node) -> None:
        """Start it for a node that serves HTTP; without that there is nothing to look at."""
        address = node.http.address
        if address is None:
            logging.getLogger("barnabas").warning("there is no console: the node serves no HTTP (http.listener)")
            return
        host, port = address
        shown = "127.0.0.1" if host == "0.0.0.0" else "[::1]" if host == "::" else f"[{host}]" if ":" in host else host
        command = [sys.executable, "-m", "barnabas.cli.main", "console"]
        command += ["--api", f"http://{shown}:{port}", "--listen", self._listen]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def stop(self) -> None:
        """Stop it."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
