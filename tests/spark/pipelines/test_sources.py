"""Sources that are no topics: files, tables and databases, and what is said of those that cannot be read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.spark.pipelines import Pipeline, PipelineError
from tests.spark.pipelines.conftest import ReadTable, SendJson

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'barnabas[tables]'")

DERBY = "org.apache.derby.jdbc.EmbeddedDriver"  # comes with Spark
FILES = """\
name: files
sources:
  - {{name: as_json, type: files, path: json, format: json, schema: "id long, name string"}}
  - {{name: as_csv, type: files, path: csv, format: csv, options: {{header: true, inferSchema: true}}}}
  - {{name: as_text, type: files, path: text, format: text}}
  - {{name: as_parquet, type: files, path: parquet, format: parquet}}
  - {{name: as_orc, type: files, path: orc, format: orc}}
  - {{name: a_table, type: table, format: parquet, path: table, stream: true}}
  - {{name: a_delta, type: table, format: delta, path: delta, stream: true}}
steps:
  - name: all
    sql: |
      SELECT id, name FROM as_json UNION ALL SELECT cast(id AS long), name FROM as_csv
      UNION ALL SELECT cast(null AS long), value FROM as_text UNION ALL SELECT * FROM as_parquet
      UNION ALL SELECT * FROM as_orc UNION ALL SELECT * FROM a_table UNION ALL SELECT * FROM a_delta
sinks:
  - {{name: out, type: delta, path: out}}
"""


def pipeline_of(text: str, folder: Path) -> Pipeline:
    (folder / "p.yaml").write_text(text)
    return Pipeline.load(folder / "p.yaml")


def add_files(spark: Any, folder: Path, number: int) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.orc as pa_orc  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    for kind in ("json", "csv", "text", "parquet", "orc", "table"):
        (folder / kind).mkdir(exist_ok=True)
    (folder / "json" / f"{number}.json").write_text(json.dumps({"id": number, "name": "json"}) + "\n")
    (folder / "csv" / f"{number}.csv").write_text(f"id,name\n{number},csv\n")
    (folder / "text" / f"{number}.txt").write_text(f"text {number}\n")
    for kind in ("parquet", "table"):
        pq.write_table(pa.table({"id": [number], "name": [kind]}), folder / kind / f"{number}.parquet")
    pa_orc.write_table(pa.table({"id": [number], "name": ["orc"]}), folder / "orc" / f"{number}.orc")


def test_files_and_tables_are_streams_each_file_once(spark: Any, read_table: ReadTable, tmp_path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415
    from deltalake import write_deltalake  # noqa: PLC0415

    write_deltalake(str(tmp_path / "delta"), pa.table({"id": [0], "name": ["delta"]}))
    add_files(spark, tmp_path, 0)
    files = pipeline_of(FILES.format(), tmp_path)

    files.run(spark, once=True)
    add_files(spark, tmp_path, 1)
    files.run(spark, once=True)

    kinds = ("json", "csv", "parquet", "orc", "table")
    expected = [(number, kind) for number in (0, 1) for kind in kinds] + [(None, "text 0"), (None, "text 1")]
    found = [(row["id"], row["name"]) for row in read_table(tmp_path / "out")]
    assert sorted(found, key=repr) == sorted([*expected, (0, "delta")], key=repr)


JOIN = """\
name: joined
bootstrap: {bootstrap}
sources:
  - {{name: records, type: topic, topic: {topic}, parse: {{format: json, schema: "id long"}}}}
  - {{name: people, type: jdbc, url: "jdbc:derby:{database}", table: people, options: {{driver: {driver}}}}}
  - name: adults
    type: jdbc
    url: "jdbc:derby:{database}"
    query: SELECT "id" AS "adult_id" FROM people WHERE "age" > 17
    options: {{driver: {driver}}}
  - {{name: towns, type: table, format: parquet, path: towns}}
  - {{name: notes, type: table, format: iceberg, path: warehouse, table: shop.notes}}
  - {{name: lines, type: files, path: lines, format: csv, stream: false, schema: "id long, line string"}}
steps:
  - name: all
    sql: |
      SELECT id, age, adult_id IS NOT NULL AS is_adult, town, note, line FROM records JOIN people USING (id)
      LEFT JOIN adults ON id = adult_id JOIN towns USING (id) JOIN notes USING (id) JOIN lines USING (id)
sinks:
  - {{name: out, type: delta, path: out}}
"""


def test_records_are_joined_with_databases_and_tables(
    spark: Any, bootstrap: str, topic: str, send_json: SendJson, read_table: ReadTable, tmp_path: Path
) -> None:
    pytest.importorskip("pyiceberg")
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    from barnabas.spark.tables import iceberg  # noqa: PLC0415
    from barnabas.spark.tables.settings import TableSettings  # noqa: PLC0415

    database = tmp_path / "people"
    make_people(spark, database)
    (tmp_path / "towns").mkdir()
    pq.write_table(pa.table({"id": [1, 2], "town": ["Linz", "Graz"]}), tmp_path / "towns" / "a.parquet")
    settings = TableSettings("iceberg", str(tmp_path / "warehouse"), table="shop.notes")
    notes = pa.table({"id": [1, 2], "note": ["x", "y"]})
    iceberg.open_catalog(settings).create_namespace("shop")
    iceberg.open_catalog(settings).create_table("shop.notes", notes.schema).append(notes)
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "a.csv").write_text("1,one\n2,two\n")
    send_json(topic, [{"id": 1}, {"id": 2}, {"id": 3}])
    text = JOIN.format(bootstrap=bootstrap, topic=topic, database=database, driver=DERBY)

    pipeline_of(text, tmp_path).run(spark, once=True)

    found = sorted(tuple(row.values()) for row in read_table(tmp_path / "out"))
    assert found == [(1, 30, True, "Linz", "x", "one"), (2, 7, False, "Graz", "y", "two")]


def make_people(spark: Any, database: Path) -> None:
    people = spark.createDataFrame([(1, 30), (2, 7)], "id long, age int")
    url = f"jdbc:derby:{database};create=true"
    people.coalesce(1).write.format("jdbc").options(url=url, driver=DERBY, dbtable="people").save()


@pytest.fixture(scope="module")
def refused(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """What is said of a source in line 3 of a file."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "json").mkdir()
    (folder / "json" / "a.json").write_text('{"id": 1}\n')
    (folder / "empty").mkdir()
    make_people(spark, folder / "people")

    def refuse(source: str) -> str:
        stream = "  - {name: rows, type: files, path: json, format: json, schema: id long}\n"
        sinks = "sinks:\n  - {type: console}\n"
        text = (
            f"name: p\nsources:\n  - {{name: bad, {source.replace('PEOPLE', str(folder / 'people'))}}}\n{stream}{sinks}"
        )
        with pytest.raises(PipelineError) as refusal:
            Pipeline.from_yaml(text, file=str(folder / "p.yaml")).validate(spark)
        return str(refusal.value).removeprefix(f"{folder}/")

    return refuse


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("type: files, path: nowhere, format: json", "[PATH_NOT_FOUND] Path does not exist: "),
        ("type: files, path: nowhere, format: json, schema: id long", "[PATH_NOT_FOUND] Path does not exist: "),
        ("type: files, path: empty, format: json", "[UNABLE_TO_INFER_SCHEMA] Unable to infer schema for JSON."),
        ("type: files, path: json, format: parquet", "[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER]"),
        ("type: files, path: json, format: csv, options: {header: maybe}", "header flag can be true or false."),
        ("type: files, path: json, format: json, schema: id lng", "[UNSUPPORTED_DATATYPE]"),
        ("type: table, format: parquet, path: nowhere", "[PATH_NOT_FOUND] Path does not exist: "),
        ("type: table, format: parquet, path: json", "[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER]"),
        ("type: table, format: delta, path: nowhere", "there is no Delta table at "),
        ("type: table, format: delta, path: json, stream: true", "there is no Delta table at "),
        ("type: table, format: iceberg, path: empty, table: a.b", "there is no Iceberg table a.b "),
        ("type: jdbc, url: 'jdbc:nothing:x', table: t", "there is no JDBC driver for this URL"),
        ("type: jdbc, url: 'jdbc:derby:PEOPLE', table: t, options: {driver: no.Such}", "there is no class no.Such"),
        ("type: jdbc, url: 'jdbc:derby:PEOPLE.not', table: t", "[FAILED_JDBC.CONNECTION] "),
        ("type: jdbc, url: 'jdbc:derby:PEOPLE', table: nothing", "[JDBC_EXTERNAL_ENGINE_SYNTAX_ERROR."),
        ("type: jdbc, url: 'jdbc:derby:PEOPLE', query: SELEC 1", "[JDBC_EXTERNAL_ENGINE_SYNTAX_ERROR."),
    ],
)
def test_a_source_that_cannot_be_read_is_said_in_a_line_with_its_place(
    refused: Callable[[str], str], source: str, said: str
) -> None:
    line = refused(source)

    assert line.startswith(f"p.yaml:3:5: {said}"), line
    assert "\n" not in line


def test_a_database_alone_is_no_stream() -> None:
    text = "name: p\nsources:\n  - {name: d, type: jdbc, url: 'jdbc:x', table: t}\nsinks:\n  - {type: console}\n"

    with pytest.raises(PipelineError, match=r"p.yaml:3:3: no source is a stream: .*a database is joined with one"):
        Pipeline.from_yaml(text, file="p.yaml")
