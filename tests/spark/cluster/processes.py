"""Spark's own processes, as an operator would start them: on loopback, with the Java that we find."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from barnabas.spark.java import find_java
from barnabas.spark.spark_home import lean_spark_home

LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 180.0
RUN_TIMEOUT_S = 300.0


def environment() -> dict[str, str]:
    """What the commands of Spark need to know."""
    return {
        **os.environ,
        "JAVA_HOME": str(find_java().path),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "SPARK_HOME": str(lean_spark_home()),
        "SPARK_LOCAL_IP": LOOPBACK,
    }


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def started(
    folder: Path, name: str, *command: str, port: int | None = None, says: str = "", env: dict[str, str] | None = None
) -> Iterator[None]:
    """One of the commands of Spark, at work: it listens on the port, or has said something."""
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(lean_spark_home() / "bin" / command[0]), *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment() if env is None else env,
            cwd=folder,
            start_new_session=True,
        )
    try:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not (_listens(port) if port is not None else says in log.read_text(errors="replace")):
            assert process.poll() is None, f"{name} has ended: {log.read_text(errors='replace')[-2000:]}"
            assert time.monotonic() < deadline_s, f"{name} does not start: {log.read_text(errors='replace')[-2000:]}"
            time.sleep(0.1)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def attempt(folder: Path, *command: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command up to its end."""
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment() if env is None else env,
        cwd=folder,
        timeout=RUN_TIMEOUT_S,
    )


def run(folder: Path, *command: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command up to its end, which is to be a good one."""
    done = attempt(folder, *command, env=env)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[:2000]}\n...\n{done.stderr[-2000:]}"
    return done


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True
