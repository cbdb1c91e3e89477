"""A broker of its own process to measure, and what can be asked of a process."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import scratch_directory

BARNABAS = [sys.executable, "-m", "barnabas.cli.main"]
# An installed package has its bytecode, and so has a checkout after its first run, unless Python is told to keep none.
ENVIRON = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True, slots=True)
class Served:
    """A running broker."""

    bootstrap: str
    pid: int
    ready_after_s: float

    def memory(self) -> int:
        """Bytes of memory it holds."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def processor_s(self) -> float:
        """Seconds of processor time that its threads have taken, to the nanosecond."""
        return time.clock_gettime(_clock_of(self.pid))

    def wake_ups(self) -> int:
        """How often its threads have slept for want of work, and were woken."""
        return sum(map(_wake_ups_of, Path(f"/proc/{self.pid}/task").iterdir()))


def _wake_ups_of(thread: Path) -> int:
    try:
        lines = (thread / "status").read_text().splitlines()
    except OSError:
        return 0  # it has ended
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def _clock_of(pid: int) -> int:
    """The kernel's number for the clock of a process's processor time, as clock_getcpuclockid(3) makes it."""
    return (~pid << 3) | 2


@contextmanager
def served(
    *settings: str, directory: Path | None = None, tree: Path | None = None, processes: int = 1
) -> Iterator[Served]:
    """A broker on a free port, of this checkout or another, with an empty data directory unless one is given.

    Of several processes the addresses are separated by commas, and the process is that of their supervisor.
    """
    with scratch_directory() as scratch:
        sets = [part for setting in settings for part in ("--set", setting)]
        sets += ["--processes", str(processes)] if processes > 1 else []  # an older tree does not know it
        if tree is None and not any(setting.startswith("http.") for setting in settings):
            sets += ["--set", "http.listener=off"]  # what is not measured is not there
        start = time.perf_counter()
        process = subprocess.Popen(
            [*BARNABAS, "serve", "--data-dir", str(directory or scratch / "data"), "--listen", "127.0.0.1:0", *sets],
            stdout=subprocess.PIPE,
            text=True,
            env={**ENVIRON, "PYTHONPATH": str(tree / "src")} if tree else ENVIRON,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            ready_after_s = time.perf_counter() - start
            if "ready on " not in line:
                raise RuntimeError(f"the broker did not start: {line!r}")
            yield Served(line.split("ready on ")[1].split()[0], process.pid, ready_after_s)
        finally:
            process.terminate()
            process.wait()
