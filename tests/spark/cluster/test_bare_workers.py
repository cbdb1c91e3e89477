"""A cluster whose workers do not have Barnabas: what is said then, and the ways to bring it along.

They have all that it needs. Of what is not pure Python there is one for each system, and no way to send it but as a
whole environment.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import barnabas
from tests.spark.cluster.processes import LOOPBACK, attempt, environment, free_port, started

if TYPE_CHECKING:
    from barnabas.client import Bus

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")

pytestmark = pytest.mark.skipif(
    os.environ.get("TEST_CLUSTERS") != "all", reason="takes a minute: TEST_CLUSTERS=all runs it"
)

PACKAGES = Path(barnabas.__file__).parent
PYTHON = "python-of-spark"  # found by PATH, so it is another one for the driver than for the workers
FILE = """\
name: copied
bootstrap: {bootstrap}
sources: [{{name: records, type: topic, topic: {topic}}}]
sinks: [{{name: out, type: topic, topic: {topic}.out}}]
spark: {{spark.executor.memory: 512m, spark.sql.shuffle.partitions: 2{settings}}}
"""


def script(folder: Path, python: str) -> str:
    """The PATH by which Spark finds that Python."""
    folder.mkdir()
    (folder / PYTHON).write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    (folder / PYTHON).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def bare_python(folder: Path) -> str:
    """A Python with all that this one has, but not with Barnabas."""
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "barnabas" not in each.name and each.suffix != ".pth":
            (packages / each.name).symlink_to(each)
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def master(folder: Path) -> Iterator[str]:
    """The address of a cluster whose only worker has no Barnabas."""
    port = free_port()
    here = ["--host", LOOPBACK, "--webui-port", "0"]
    leader = ["spark-class", "org.apache.spark.deploy.master.Master", *here, "--port", str(port)]
    worker = ["spark-class", "org.apache.spark.deploy.worker.Worker", *here, "--cores", "2", "--memory", "1g"]
    address = f"spark://{LOOPBACK}:{port}"
    bare = {**environment(), "PATH": script(folder / "workers", bare_python(folder / "bare"))}
    for name in ("PYSPARK_PYTHON", "PYTHONPATH"):
        bare.pop(name, None)
    with (
        started(folder, "master", *leader, port=port),
        started(folder, "worker", *worker, address, says="Successfully registered with master", env=bare),
    ):
        yield address


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(master: str, bootstrap: str, topic: str, client: "Bus", tmp_path: Path) -> Run:
    """Copy a topic of one record on that cluster."""
    client.send(topic, "first").result(60)
    driver = {**environment(), "PATH": script(tmp_path / "driver", sys.executable), "PYSPARK_PYTHON": PYTHON}
    barnabas = [sys.executable, "-m", "barnabas.cli.main", "pipeline", "run", "copied.yaml", "--once"]

    def run(**settings: str) -> "subprocess.CompletedProcess[str]":
        given = "".join(f", {name.replace('__', '.')}: {value!r}" for name, value in settings.items())
        (tmp_path / "copied.yaml").write_text(FILE.format(bootstrap=bootstrap, topic=topic, settings=given))
        return attempt(tmp_path, *barnabas, "--master", master, env=driver)

    return run


def test_workers_without_the_package_are_told_of_in_a_line(run: Run) -> None:
    done = run()

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "barnabas: copied.out: the Python of Spark's workers does not have barnabas: install it there, in the Python "
        "that PYSPARK_PYTHON names, or send it along; docs/spark.md says how"
    )


def test_the_package_comes_along_in_an_archive(run: Run, topic: str, client: "Bus", tmp_path: Path) -> None:
    shutil.make_archive(str(tmp_path / "packages"), "gztar", PACKAGES.parent, "barnabas")

    done = run(spark__archives=f"{tmp_path}/packages.tar.gz#packages", spark__executorEnv__PYTHONPATH="packages")

    assert "pipeline copied: done; out 1 row written" in done.stdout, done.stderr[-2000:]
    assert [message.value for message in client.consume(f"{topic}.out", until_end=True)] == [b"first"]
