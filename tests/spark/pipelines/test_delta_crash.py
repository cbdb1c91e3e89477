"""The driver is killed after the commit of the table and before its own; the table then has each record once."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.spark.pipelines import jobs
from tests.spark.conftest import MakeTopic
from tests.spark.pipelines.conftest import ReadTable, SendJson

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'barnabas[tables]'")

# Every Python that Spark starts imports this first: the commit of the first batch ends the driver.
KILLER = """
import importlib.util, os, sys

def kill_driver():
    pid = os.getppid()
    while open(f"/proc/{pid}/comm").read().strip() != "java":
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    os.kill(pid, 9)
    os.kill(os.getpid(), 9)

class Patching:
    def find_spec(self, name, path=None, target=None):
        if name != "barnabas.spark.tables.delta":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            real = module.commit_files
            module.commit_files = lambda *arguments, **named: (real(*arguments, **named), kill_driver())
        spec.loader.exec_module = exec_module
        return spec

if os.environ.get("KILL_THE_DRIVER"):
    sys.meta_path.insert(0, Patching())
"""
JOB = """
import sys
from barnabas.spark.pipelines import jobs
topic, table, bootstrap, checkpoint = sys.argv[1:]
jobs.archive(topic, table, bootstrap=bootstrap, checkpoint=checkpoint).run(once=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="finds the driver in /proc")
def test_a_driver_that_dies_between_the_commit_of_the_table_and_that_of_spark_leaves_each_record_once(
    spark: Any,
    bootstrap: str,
    make_topic: MakeTopic,
    send_json: SendJson,
    read_table: ReadTable,
    tmp_path: Path,
) -> None:
    topic = make_topic(partitions=2)
    send_json(topic, [{"id": n} for n in range(50)])
    (tmp_path / "sitecustomize.py").write_text(KILLER)
    (tmp_path / "job.py").write_text(JOB)
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    environment = {**os.environ, "KILL_THE_DRIVER": "yes", "PYTHONPATH": str(tmp_path)}

    # Into a file: workers that outlive the driver for a moment would keep a pipe open.
    with (tmp_path / "printed").open("w") as printed:
        killed = subprocess.run(
            [sys.executable, "job.py", topic, str(table), bootstrap, str(checkpoint)],
            cwd=tmp_path,
            env=environment,
            stdout=printed,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )

    assert killed.returncode != 0
    assert not list((checkpoint / "archive" / "commits").glob("0")), "Spark has not committed the batch"
    assert len(read_table(table)) == 50, "and the table has it"
    send_json(topic, [{"id": n} for n in range(50, 60)])
    archive = jobs.archive(topic, str(table), bootstrap=bootstrap, checkpoint=str(checkpoint))
    archive.run(spark, once=True)
    assert sorted(json.loads(row["value"])["id"] for row in read_table(table)) == list(range(60))
