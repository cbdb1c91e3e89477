"""Starting the processes of nodes: on their own, or kept, so that they end with this process.

Settings of a node are those of its file alone: variables that set them for a single node are not handed on.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from barnabas.config import ENVIRONMENT_PREFIX
from barnabas.core.errors import BarnabasError
from barnabas.testing.cluster import keeper


class Starter(Protocol):
    """Starts a command in a session of its own, with its output at the end of a file."""

    def start(self, command: Sequence[str], log: Path) -> int: ...


class Detached:
    """Processes that outlive this one."""

    def start(self, command: Sequence[str], log: Path) -> int:
        """Start a command; returns the id of its process."""
        return os.posix_spawn(
            command[0],
            list(command),
            _environ(),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )


class Kept:
    """Processes that end with this one, however it ends, or with `close`. See `keeper`."""

    def __init__(self, remove: Path | None = None) -> None:
        """`remove`: a directory that goes with them."""
        command = [sys.executable, "-I", "-S", keeper.__file__]
        self._keeper = subprocess.Popen(
            [*command, *([] if remove is None else [str(remove)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=_environ(),
        )

    def start(self, command: Sequence[str], log: Path) -> int:
        """Start a command; returns the id of its process."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        try:
            print(json.dumps({"command": list(command), "log": str(log)}), file=self._keeper.stdin, flush=True)
            answer = self._keeper.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise BarnabasError("the process that keeps the nodes has ended: start the cluster again")
        return int(answer)

    def close(self) -> None:
        """Kill every process that is left; returns when all of them are gone."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait()
        self._keeper.stdout.close()


def _environ() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
