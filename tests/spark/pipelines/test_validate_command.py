"""`barnabas pipeline validate`: in full by default, the structure alone with --quick, and never a word too much."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")

from pyspark.logger import PySparkLogger

from barnabas.cli import pipeline as command
from barnabas.cli.pipeline import app
from tests.spark.conftest import MakeTopic

FILE = """\
name: orders
bootstrap: {bootstrap}
sources:
  - name: records
    type: topic
    topic: {topic}
    parse: {{format: json, schema: "id long, at string"}}
steps:
  - name: shaped
    sql: |
      SELECT id, at
      FROM records
sinks:
  - {{name: out, type: console}}
checkpoint: {checkpoint}
"""


@pytest.fixture
def file(bootstrap: str, topic: str, tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    path.write_text(FILE.format(bootstrap=bootstrap, topic=topic, checkpoint=tmp_path / "checkpoint"))
    return path


@pytest.fixture
def in_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the session of these tests, which is there already, and as quiet as that of the command."""
    monkeypatch.setattr(command, "quiet_session", lambda *_, **__: spark)
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        monkeypatch.setattr(PySparkLogger.getLogger(name), "disabled", True)


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(command, "quiet_session", refuse)


def validate(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["validate", *map(str, arguments)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.usefixtures("in_session")
def test_a_valid_pipeline_is_said_to_be_and_leaves_no_trace(file: Path, tmp_path: Path) -> None:
    assert validate(file) == (0, f"{file}: pipeline orders is valid\n", "")
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.usefixtures("in_session")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("SELECT id", "SELEC id", "11:7: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'."),
        ("id, at\n", "id, att\n", "11:18: [UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
        ("FROM records", "FROM recods", "12:12: [TABLE_OR_VIEW_NOT_FOUND]"),
        ("id long", "id lng", '7:39: [UNSUPPORTED_DATATYPE] Unsupported data type "LNG".'),
    ],
)
def test_what_only_spark_can_tell_is_found(file: Path, old: str, new: str, said: str) -> None:
    file.write_text(file.read_text().replace(old, new))

    code, out, err = validate(file)

    assert (code, out) == (1, "")
    assert err.startswith(f"{file}:{said}")
    assert len(err.splitlines()) == 1


@pytest.mark.usefixtures("without_spark")
def test_a_missing_topic_is_found_before_spark_starts(file: Path, topic: str) -> None:
    file.write_text(file.read_text().replace(f"topic: {topic}", f"topic: {topic}x"))

    code, out, err = validate(file)

    assert (code, out) == (1, "")
    assert err == f"{file}:6:12: topic '{topic}x' does not exist: did you mean '{topic}'?\n"


def test_a_missing_topic_keeps_a_pipeline_from_running_before_spark_starts(file: Path, topic: str) -> None:
    file.write_text(file.read_text().replace(f"topic: {topic}", f"topic: {topic}x"))

    run = [sys.executable, "-m", "barnabas.cli.main", "pipeline", "run", str(file)]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{file}:6:12: topic '{topic}x' does not exist: did you mean '{topic}'?\n"


@pytest.mark.usefixtures("in_session")
def test_a_topic_that_it_makes_itself_is_not_missing(file: Path, make_topic: MakeTopic) -> None:
    made = f"{make_topic()}.made"
    text = file.read_text().replace("sinks:\n", f"sinks:\n  - {{name: again, type: topic, topic: {made}}}\n")
    file.write_text(text.replace("steps:\n", f"  - {{name: back, type: topic, topic: {made}}}\nsteps:\n"))

    assert validate(file)[0] == 0


@pytest.mark.usefixtures("in_session")
def test_a_broker_that_cannot_be_reached_is_said_and_the_rest_checked(
    file: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.spark.pipelines.topics.PATIENCE_S", 0.0)
    file.write_text(file.read_text().replace(bootstrap, "127.0.0.1:1"))

    code, out, err = validate(file)

    assert (code, err) == (0, "")
    assert out.startswith(
        f"{file}: pipeline orders is valid (topics were not checked: cannot reach 127.0.0.1:1 (connection refused)"
    )

    file.write_text(file.read_text().replace("SELECT id", "SELECT idd"))
    assert validate(file)[0] == 1


@pytest.mark.usefixtures("without_spark")
def test_quick_checks_the_structure_and_says_so(file: Path, bootstrap: str) -> None:
    file.write_text(file.read_text().replace(bootstrap, "127.0.0.1:1").replace("SELECT", "SELEC"))

    said = "pipeline orders is valid (structure only: SQL and columns were not checked)"
    assert validate(file, "--quick") == (0, f"{file}: {said}\n", "")

    file.write_text(file.read_text().replace("type: console", "type: consle"))
    code, out, err = validate("--quick", file)
    assert (code, out) == (1, "")
    assert "unknown type 'consle'" in err


@pytest.mark.usefixtures("in_session")
def test_all_files_are_checked(file: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(file.read_text().replace("SELECT id", "SELECT idd"))

    code, out, err = validate(wrong, file, tmp_path / "nowhere.yaml")

    assert (code, out) == (1, f"{file}: pipeline orders is valid\n")
    assert [line.partition(": ")[0] for line in err.splitlines()] == [f"{wrong}:11:14", str(tmp_path / "nowhere.yaml")]


def test_wrong_usage_exits_with_2() -> None:
    assert validate()[0] == 2
    assert validate("--no-such-option")[0] == 2


def test_options_of_the_source_are_those_it_is_asked_with(file: Path) -> None:
    file.write_text(
        file.read_text().replace("    parse:", "    options: {kafka.security.protocl: x, ordr: 1}\n    parse:")
    )

    code, _, err = validate(file)

    assert code == 1
    assert err.startswith(f"{file}:7:14: unknown option 'ordr'")
