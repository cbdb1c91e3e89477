"""The commands of docs/pipelines.md run as they stand there.

Those of `barnabas pipeline` run in this process, in the Spark session that is there: three of them would start a Spark
of their own. That the command starts one is shown by `test_signals`.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'barnabas[tables]'")

from typer.testing import CliRunner

from barnabas.cli.main import app
from tests.spark.conftest import QUICK

ROOT = Path(__file__).parents[3]


OF_SPARK = "barnabas pipeline "


def run_in_shell(command: str) -> str:
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout


def run_in_session(command: str) -> str:
    done = CliRunner().invoke(app, shlex.split(command)[1:])
    assert done.exit_code == 0, (command, done.output, done.exception)
    assert "Traceback" not in done.stderr
    return done.stdout


def test_the_commands_of_the_tutorial_run(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "pipelines.md").read_text(), re.DOTALL)
    serve, *commands = [line for block in blocks for line in block.splitlines()]
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("BARNABAS_LISTENERS", "PLAINTEXT://127.0.0.1:0")
    printed: dict[str, str] = {}
    with subprocess.Popen(serve.rstrip(" &").split(), stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            ready = broker.stdout.readline()
            monkeypatch.setenv("BARNABAS_BOOTSTRAP", ready.split("ready on ")[1].split()[0])
            for command in commands:
                printed[command] = run_in_session(command) if command.startswith(OF_SPARK) else run_in_shell(command)
        finally:
            broker.terminate()
            spark.sparkContext.setLogLevel(QUICK["spark.log.level"])  # the command has turned it off

    def output_of(beginning: str) -> str:
        (found,) = [text for command, text in printed.items() if command.startswith(beginning)]
        return found

    assert output_of("barnabas pipeline validate") == "orders.yaml: pipeline orders is valid\n"
    assert "pipeline orders: done; archive 3 rows written" in output_of("barnabas pipeline run")
    status = [line.split("\t") for line in output_of("barnabas pipeline status").splitlines()[2:]]
    assert [(row[1], row[6]) for row in status] == [("done", "0")] * 3, "all is read, so there is no lag"
    assert len(output_of("barnabas consume orders.dead").splitlines()) == 2
    assert '"revenue":10.0' in output_of("barnabas consume revenue")
    assert output_of("python -c") == "3 orders\n"
    assert "type: delta" in output_of("barnabas pipeline archive")
    assert output_of("barnabas consume orders.again") == "not an order\n"
    assert "orders.yaml\torders\tdone" in output_of("barnabas pipeline list")
