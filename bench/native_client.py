"""The client of `native/client.c`, built where there is a C compiler, on the librdkafka that confluent-kafka brings."""

import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path


@cache
def build() -> Path | None:
    """The program, or None when it cannot be had here."""
    library = _library()
    compiler = shutil.which("cc") or shutil.which("gcc")
    if library is None or compiler is None:
        return None
    program = Path(tempfile.mkdtemp(prefix="barnabas-bench-native-")) / "client"
    source = Path(__file__).parent / "native" / "client.c"
    command = [compiler, "-O2", "-o", str(program), str(source), str(library), f"-Wl,-rpath,{library.parent}"]
    done = subprocess.run(command, capture_output=True, check=False)
    return program if done.returncode == 0 else None


def _library() -> Path | None:
    import confluent_kafka  # noqa: PLC0415 - slow to load, and only asked for here

    package = Path(confluent_kafka.__file__).parent
    return next(iter((package.parent / "confluent_kafka.libs").glob("librdkafka-*.so*")), None)


def run(*arguments: str) -> float:
    """Seconds that the program says it took."""
    program = build()
    assert program is not None
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"client {' '.join(arguments)}: {done.stderr.strip()}")
    return float(done.stdout)


def run_at_once(count: int, *arguments: str) -> float:
    """Seconds until all of so many programs have ended, starting included."""
    program = build()
    assert program is not None
    start = time.perf_counter()
    running = [subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL) for _ in range(count)]
    codes = [each.wait() for each in running]
    if any(codes):
        raise RuntimeError(f"client {' '.join(arguments)}: {sum(map(bool, codes))} of {count} failed")
    return time.perf_counter() - start
