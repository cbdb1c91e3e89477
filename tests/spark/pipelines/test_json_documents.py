"""A value is exactly one JSON document of its schema, or an error that says why; nothing of it is left unread."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")

from barnabas.spark.pipelines import parsing
from barnabas.spark.pipelines.json_documents import MORE_FOLLOWS, NOT_JSON, NOT_UTF_8
from barnabas.spark.pipelines.model import Parse

SCHEMA = "id long, i int, d decimal(5, 2), name string, s struct<a: int, b: array<int>>"
MISFIT = f"does not fit the schema: {SCHEMA}"
GOOD: dict[bytes | None, int | None] = {
    b'{"id":1}': 1,
    b' {"id":1}': 1,
    b'{"id":1} \r\n\t': 1,
    b'{\n"id":\n1}\n': 1,
    b"{}": None,
    b'{"other":5}': None,
    b'{"id":1,"id":2}': 2,  # one document: the last of equal keys counts, as elsewhere
    b'{"id":1,"name":"}{"}': 1,
    b'{"id":1,"name":"],[\\"\xc3\xa4"}': 1,
    None: None,
}
BAD = {
    b'{"id":1}{"id":2}': MORE_FOLLOWS,
    b'{"id":1}\n{"id":2}': MORE_FOLLOWS,
    b'{"id":1},{"id":2}': MORE_FOLLOWS,
    b'{"id":3} garbage': MORE_FOLLOWS,
    b'{"id":3}\0': MORE_FOLLOWS,
    b'{"id":3}]': MORE_FOLLOWS,
    b'{"id":3}],"x":[1': MORE_FOLLOWS,
    b'{"id":3},5],"x":[1': MORE_FOLLOWS,
    b'{"id":3}]}': MORE_FOLLOWS,
    b'{"id":3},"id":4': MORE_FOLLOWS,
    b'{"id":3}"': MORE_FOLLOWS,
    b'{"id":3}// why': MORE_FOLLOWS,
    b"": NOT_JSON,
    b" \n": NOT_JSON,
    b"\0": NOT_JSON,
    b"}": NOT_JSON,
    b",": NOT_JSON,
    b"]": NOT_JSON,
    b'{"id":1': NOT_JSON,
    b'{"id":1,}': NOT_JSON,
    b'{"id":01}': NOT_JSON,
    b'{"name":"a\nb"}': NOT_JSON,
    b'\xef\xbb\xbf{"id":1}': NOT_JSON,
    b'{"x":' + b"[" * 2000 + b"]" * 2000 + b"}": NOT_JSON,
    b'{"name":"\xff"}': NOT_UTF_8,
    b'{"name":"\xed\xa0\x80"}': NOT_UTF_8,
    b"null": MISFIT,
    b"5": MISFIT,
    b'"x"': MISFIT,
    b"true": MISFIT,
    b"[]": MISFIT,
    b'[{"id":1}]': MISFIT,
    b'{"id":"x"}': MISFIT,
    b'{"id":1.5}': MISFIT,
    b'{"id":99999999999999999999}': MISFIT,
    b'{"i":3000000000}': MISFIT,
    b'{"d":12345.67}': MISFIT,
    b'{"s":5}': MISFIT,
    b'{"s":[]}': MISFIT,
    b'{"s":{"a":"x"}}': MISFIT,
    b'{"s":{"b":[1,"x"]}}': MISFIT,
}


def split(spark: Any, values: Any, schema: str) -> parsing.Split:
    frame = spark.createDataFrame([(value,) for value in values], "value binary").coalesce(1)
    return parsing.split(frame, Parse(format="json", schema=schema), base=Path(), pipeline="p")


def errors_of(halves: parsing.Split) -> dict[bytes, str]:
    letters = halves.dead.selectExpr("value", "cast(headers[0].value AS string) AS error").collect()
    return {bytes(letter.value): letter.error for letter in letters}


def test_a_value_is_exactly_one_document_or_a_dead_letter(spark: Any) -> None:
    halves = split(spark, [*GOOD, *BAD], SCHEMA)

    assert errors_of(halves) == BAD
    assert [row.id for row in halves.good.collect()] == list(GOOD.values())
    assert halves.good.columns == ["id", "i", "d", "name", "s"]


def test_what_is_good_is_read_whole_and_once(spark: Any) -> None:
    halves = split(spark, [b'{"id":1,"d":1.25,"name":"a","s":{"a":5,"b":[1,2]}}'], SCHEMA)

    (row,) = halves.good.collect()
    assert (row.id, float(row.d), row.name, row.s.a, row.s.b, row.i) == (1, 1.25, "a", 5, [1, 2], None)
    plan = halves.good._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("from_json(") == 1, "a condition on what was read makes Spark read it again"


def test_a_field_that_must_not_be_null_has_a_value(spark: Any) -> None:
    schema = (
        "id long NOT NULL, s struct<a: int NOT NULL>, many array<struct<b: int NOT NULL>>, "
        "named map<string, array<struct<c: int NOT NULL>>>"
    )
    good = [
        b'{"id":1}',
        b'{"id":1,"s":{"a":1},"many":[{"b":1},null],"named":{"x":[{"c":1}],"y":null}}',
        b'{"id":1,"s":null,"many":[],"named":{}}',
    ]
    said = "has no value for {}, which the schema says is NOT NULL".format
    bad = {
        b"{}": said("id"),
        b'{"id":null}': said("id"),
        b'{"id":1,"s":{}}': said("s.a"),
        b'{"id":1,"many":[{"b":1},{"c":1}]}': said("many[].b"),
        b'{"id":1,"named":{"x":[],"y":[{"c":1},{}]}}': said("named[][].c"),
    }

    halves = split(spark, [*good, *bad], schema)

    assert errors_of(halves) == bad
    assert halves.good.count() == len(good)


def test_bad_lines_of_files_are_dead_letters_too(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id":1}\n{"id":2}{"id":3}\n{"id":4}\n')

    halves = parsing.split(
        spark.read.text(str(tmp_path)), Parse(format="json", schema="id long"), base=Path(), pipeline="p"
    )

    assert [row.id for row in halves.good.collect()] == [1, 4]
    assert errors_of(halves) == {b'{"id":2}{"id":3}': MORE_FOLLOWS}
