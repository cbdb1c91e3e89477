"""Rows that do not fit a table are refused before the first batch, in words; rows written are counted by sink."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'barnabas[tables]'")
pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: pip install 'barnabas[tables]'")

from barnabas.core.errors import InvalidRequest
from barnabas.spark.pipelines import Pipeline, PipelineError
from barnabas.spark.tables import iceberg
from barnabas.spark.tables.fitting import check_fits
from barnabas.spark.tables.settings import TableSettings
from tests.spark.pipelines.conftest import SendJson

FILE = """\
name: fitting
bootstrap: {bootstrap}
sources:
  - {{name: records, type: topic, topic: {topic}, parse: {{format: json, schema: "id long, amount double, c string"}}}}
steps:
  - {{name: counts, sql: "SELECT c, count(*) AS n FROM records WHERE id IS NOT NULL GROUP BY c"}}
  - {{name: rows, sql: "SELECT id, amount FROM records WHERE id < 5"}}
sinks:
{sinks}
checkpoint: {checkpoint}
trigger: available_now
"""
DELTA = "  - {name: table, type: delta, path: delta}"
ICEBERG = "  - {name: table, type: iceberg, warehouse: warehouse, table: shop.orders}"
BOTH = f"{DELTA}\n{ICEBERG.replace('name: table,', 'name: other,')}"


class Making:
    """Pipelines in a directory of their own."""

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        self._bootstrap, self._topic, self._folder = bootstrap, topic, folder
        self._count = 0

    def __call__(self, sinks: str, sql: str | None = None) -> Pipeline:
        self._count += 1
        checkpoint = self._folder / f"checkpoint-{self._count}"
        text = FILE.format(bootstrap=self._bootstrap, topic=self._topic, sinks=sinks, checkpoint=checkpoint)
        if sql is not None:
            text = text.replace("SELECT id, amount FROM", f"{sql} FROM")
        return Pipeline.from_yaml(text, file=str(self._folder / "p.yaml"))


@pytest.fixture
def make(bootstrap: str, topic: str, tmp_path: Path, send_json: SendJson) -> Making:
    send_json(topic, [*({"id": number, "amount": 1.5, "c": "ab"[number % 2]} for number in range(8)), "bad"])
    return Making(bootstrap, topic, tmp_path)


@pytest.fixture
def tables(spark: Any, make: Making) -> None:
    """Both of them, with rows."""
    make(BOTH).run(spark)


def check_refusals(spark: Any, make: Making, sink: str) -> None:
    def refused(sql: str) -> str:
        with pytest.raises(PipelineError) as refusal:
            make(sink, sql).validate(spark)
        assert str(refusal.value) == str(_refusal_of_start(make(sink, sql), spark)), "when it is started, the same"
        (problem,) = refusal.value.problems
        assert problem.position is not None
        assert problem.position.line == 9
        return problem.message

    other = refused("SELECT id, cast(amount AS string) AS amount")
    assert "column 'amount' is double there and string here; convert in a step, as in cast(amount AS double)" in other
    new = refused("SELECT id, amount, c")
    assert "it has no column 'c'; add it to the table with 'evolve: true', or leave it out in a step" in new
    for message in (other, new):
        assert "\n" not in message
        assert "Arrow" not in message
    make(sink, "SELECT id").validate(spark)
    make(sink.replace("}", ", evolve: true}"), "SELECT id, amount, c").validate(spark)


def _refusal_of_start(pipeline: Pipeline, spark: Any) -> PipelineError:
    with pytest.raises(PipelineError) as refusal:
        pipeline.start(spark)
    return refusal.value


@pytest.mark.usefixtures("tables")
def test_rows_that_do_not_fit_a_table_are_refused_with_what_to_do(spark: Any, make: Making) -> None:
    for sink in (DELTA, ICEBERG):
        check_refusals(spark, make, sink)
        with pytest.raises(PipelineError, match="is partitioned by nothing, and partition_by says id"):
            make(sink.replace("}", ", partition_by: [id]}")).validate(spark)


@pytest.mark.parametrize(("column", "kind"), [("amount", "double"), ("array(id)", "array<bigint>")])
def test_a_key_that_does_not_tell_rows_apart_is_refused(spark: Any, make: Making, column: str, kind: str) -> None:
    merging = DELTA.replace("}", ", merge: {keys: [key], order_by: [id]}}")

    with pytest.raises(PipelineError) as refusal:
        make(merging, f"SELECT id, {column} AS key").validate(spark)

    assert f"column key is {kind}, which is no key" in str(refusal.value)


def test_a_table_that_is_not_there_is_not_made_by_looking(spark: Any, make: Making, tmp_path: Path) -> None:
    make(BOTH).validate(spark)

    assert list(tmp_path.iterdir()) == []


def test_a_column_that_a_table_needs_must_be_given(spark: Any, tmp_path: Path) -> None:
    from pyiceberg.schema import Schema  # noqa: PLC0415 - an extra
    from pyiceberg.types import LongType, NestedField  # noqa: PLC0415

    settings = TableSettings("iceberg", str(tmp_path), table="shop.orders")
    catalog = iceberg.open_catalog(settings)
    catalog.create_namespace("shop")
    fields = [NestedField(1, "id", LongType(), required=True), NestedField(2, "n", LongType(), required=False)]
    catalog.create_table("shop.orders", Schema(*fields))

    with pytest.raises(InvalidRequest, match="it needs a value in column 'id', which the rows do not have"):
        check_fits(settings, spark.sql("SELECT 1L AS n"))
    check_fits(settings, spark.sql("SELECT 1 AS id, 2 AS n"))  # an int is widened


SINKS = """\
  - {name: delta, type: delta, path: delta}
  - {name: iceberg, type: iceberg, warehouse: warehouse, table: shop.orders}
  - {name: parquet, type: parquet, path: parquet}
  - {name: topic, type: topic, topic: TOPIC.out}
  - {name: counts, type: topic, topic: TOPIC.counts, from: counts, mode: update}
  - {name: table, type: delta, path: counts, from: counts, mode: update, merge: {keys: [c], order_by: [n]}}\
"""


def test_rows_written_are_counted_by_sink_not_rows_read(spark: Any, make: Making, topic: str) -> None:
    pipeline = make(SINKS.replace("TOPIC", topic))

    done = pipeline.run(spark)

    written = {name: query.rows_written for name, query in done.queries.items()}
    assert written == {
        "delta": 5,
        "iceberg": 5,
        "parquet": 5,
        "topic": 5,
        "counts": 2,
        "table": 2,
        "dead_letters": 1,
    }
    assert {query.rows for query in done.queries.values()} == {9}, "each has read all records"
    assert done.summary().startswith("delta 5 rows written up to batch 0, iceberg 5 rows written up to batch 0, ")
    assert done.summary().endswith("dead_letters 1 row written up to batch 0")
