"""`barnabas pipeline run --remote`: a pipeline of every kind of query, in a server that knows nothing of its files."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.cluster.processes import run
from tests.spark.conftest import MakeTopic
from tests.spark.pipelines.conftest import rows_of_delta

if TYPE_CHECKING:
    from barnabas.client import Bus

BARNABAS = (sys.executable, "-m", "barnabas.cli.main")
FILE = """\
name: orders
bootstrap: {bootstrap}
sources:
  - name: records
    type: topic
    topic: {topic}
    parse: {{format: json, schema: "id long, country string", checks: [id > 0]}}
steps:
  - {{name: shaped, python: "shaping:shaped"}}
  - {{name: totals, sql: "SELECT country, count(*) AS orders FROM shaped GROUP BY country"}}
sinks:
  - {{name: out, type: topic, from: shaped, topic: {topic}.out, key: id, value: country}}
  - {{name: table, type: delta, from: shaped, path: orders}}
  - name: newest
    type: delta
    from: totals
    path: totals
    mode: update
    merge: {{keys: [country], order_by: [orders]}}
dead_letters: {topic}.dead
"""
PLAIN = """\
name: plain
bootstrap: {bootstrap}
sources: [{{name: records, type: topic, topic: {topic}}}]
steps: [{{name: few, sql: SELECT key FROM records}}]
sinks: [{{name: shown, type: console}}]
"""
SHAPING = """\
import words
from pyspark.sql import functions as F

@F.udf("string")
def shout(text):
    return words.upper(text)

def shaped(frame):
    return frame.select("id", shout("country").alias("country"))
"""
WORDS = """\
def upper(text):
    return text.upper()
"""
ASKING = """
import json, sys
from typer.testing import CliRunner
from barnabas.cli.main import app

file, wrong, remote = sys.argv[1:]
asked = [["run", file, "--explain"], ["run", wrong]]
done = [CliRunner().invoke(app, ["pipeline", *each, "--remote", remote]) for each in asked]
print(json.dumps([{"exit_code": each.exit_code, "stdout": each.stdout, "stderr": each.stderr} for each in done]))
"""
RECORDS = ['{"id": 1, "country": "at"}', '{"id": 2, "country": "de"}', "no JSON", '{"id": 4, "country": "at"}']


@pytest.fixture
def topic(make_topic: MakeTopic, client: "Bus") -> str:
    name = make_topic(partitions=2)
    for record in RECORDS:
        client.send(name, record).result(60)
    return name


def test_a_pipeline_runs_in_a_connect_server(
    remote: str, spark_folder: Path, bootstrap: str, topic: str, client: "Bus", tmp_path: Path
) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(FILE.format(bootstrap=bootstrap, topic=topic))
    (tmp_path / "shaping.py").write_text(SHAPING)
    (tmp_path / "words.py").write_text(WORDS)

    done = run(spark_folder, *BARNABAS, "pipeline", "run", str(file), "--once", "--remote", remote)

    assert done.stdout.splitlines()[-1] == (
        "pipeline orders: done; out 3 rows written up to batch 0, table 3 rows written up to batch 0, "
        "newest 2 rows written up to batch 0, dead_letters 1 row written up to batch 0"
    )
    written = [(message.key, message.value) for message in client.consume(f"{topic}.out", until_end=True)]
    assert sorted(written) == [(b"1", b"AT"), (b"2", b"DE"), (b"4", b"AT")]
    (dead,) = client.consume(f"{topic}.dead", until_end=True)
    assert dead.value == b"no JSON"
    orders, totals = rows_of_delta(str(tmp_path / "orders")), rows_of_delta(str(tmp_path / "totals"))
    assert {row["id"]: row["country"] for row in orders} == {1: "AT", 2: "DE", 4: "AT"}
    assert {row["country"]: row["orders"] for row in totals} == {"AT": 2, "DE": 1}


def test_a_plan_is_explained_by_the_server_and_what_it_refuses_has_its_place_in_the_file(
    remote: str, spark_folder: Path, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """By one client: it takes longer to start than to ask."""
    file, wrong = tmp_path / "plain.yaml", tmp_path / "refused" / "wrong.yaml"
    wrong.parent.mkdir()
    file.write_text(PLAIN.format(bootstrap=bootstrap, topic=topic))
    wrong.write_text(file.read_text().replace("SELECT key", "SELECT kex"))

    done = run(spark_folder, sys.executable, "-c", ASKING, str(file), str(wrong), remote)

    assert done.stderr == "", "Spark itself is silent"
    plan, refusal = json.loads(done.stdout)
    assert plan["exit_code"] == 0, plan
    assert "== plain.shown ==" in plan["stdout"]
    assert "Physical Plan" in plan["stdout"]
    assert not (tmp_path / ".checkpoints").exists()
    assert refusal["exit_code"] == 1
    assert refusal["stderr"].startswith(f"{wrong}:4:33: [UNRESOLVED_COLUMN")
    assert len(refusal["stderr"].splitlines()) == 1
