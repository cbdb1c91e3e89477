"""A pipeline runs once at a time: a run holds a lock on a file beside its checkpoints.

The lock is the system's (`flock`), so it ends with the process that holds it, however that ends, and what the file says
(who that is) is for people only. Where the checkpoint is not on this machine there is no such lock: there Spark ends
one of two runs when both write the same batch of their log, and sinks take each batch once.
"""

import errno
import fcntl
import os
import socket
from pathlib import Path
from typing import IO, Final

from barnabas.core.errors import BarnabasError
from barnabas.spark.pipelines.problems import PipelineRunning
from barnabas.spark.private_files import make_private_folder, open_private
from barnabas.spark.tables.files import local_path

FILE_NAME: Final = "pipeline.lock"
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of file systems that have none

# Queries go on also where nobody keeps the object that started them, and so must the lock.
_running_claims: "set[Claim]" = set()


class Claim:
    """The right to run a pipeline; of one object, for one run at a time."""

    def __init__(self, name: str, checkpoint: str) -> None:
        self._name = name
        self._folder = local_path(checkpoint)
        self._file: IO[str] | None = None
        self._is_running = False

    def take(self) -> None:
        """Take it, unless it is taken already by this object; raises `PipelineRunning` if another has it."""
        if self._folder is not None and self._file is None:
            self._file = _lock(self._folder, self._name)

    def begin(self) -> None:
        """Take the claim for a run. There is one run at a time, also of this object."""
        if self._is_running:
            raise PipelineRunning(_running(self._name, f"{socket.gethostname()} {os.getpid()}"))
        self.take()
        self._is_running = True
        _running_claims.add(self)

    def release(self) -> None:
        """Release the claim; the file stays, since two processes that remove and create it could both hold the lock."""
        self._is_running = False
        _running_claims.discard(self)
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None


def _lock(folder: Path, name: str) -> IO[str]:
    make_private_folder(folder)
    file = open_private(folder / FILE_NAME, "a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read()
        file.close()
        raise PipelineRunning(_running(name, holder)) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            file.close()
            raise BarnabasError(f"cannot lock {folder / FILE_NAME}: {error.strerror}") from None
    file.truncate(0)
    file.write(f"{socket.gethostname()} {os.getpid()}\n")
    file.flush()
    return file


def _running(name: str, holder: str) -> str:
    """The holder, in words; the file is empty for a moment after the lock is taken."""
    host, _, pid = holder.strip().partition(" ")
    if not pid:
        who = ""
    elif host != socket.gethostname():
        who = f" (pid {pid} on {host})"
    else:
        who = " (in this process)" if pid == str(os.getpid()) else f" (pid {pid})"
    return f"pipeline {name} is already running{who}: stop that one first, or give this one its own checkpoint"
