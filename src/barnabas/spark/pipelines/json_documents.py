"""JSON into columns, where a value is exactly one document or an error.

Spark's parser stops after the first document of a value and leaves what follows unread. So a value is read as the
first element of an array whose second element is a mark of ours: only if the value is one document, and nothing more,
is the mark the second element. The names around it are random, so no value can hold them. That is done by Spark itself
and in one pass, without a Python worker.

Spark's parser decides what a document is: it accepts single quotes, NaN and Infinity, and uses the last of equal keys.
"""

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

NOT_UTF_8: Final = "not UTF-8"
NOT_JSON: Final = "not JSON"
MORE_FOLLOWS: Final = "not JSON: something follows the first document"
MARK: Final = "__mark_"  # begins the name of the one field of what was read that is not of the schema
_CORRUPT: Final = "_corrupt_record"


@dataclass(frozen=True, slots=True)
class JsonRead:
    """A frame with a column that holds what was read; of that, the fields of the schema, and what is wrong with it."""

    frame: "DataFrame"
    parsed: "Column"
    error: "Column"


def read_json(frame: "DataFrame", column: str, schema: str, *, into: str) -> JsonRead:
    """Read the documents of a column, once for each row, into the column `into`; null is no document and no error."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
    from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

    schema = schema.strip().rstrip(",")
    # Says where in the text something is wrong, as from_json does not.
    fields: StructType = frame.sparkSession.createDataFrame([], schema).schema
    outer, mark = f"v{secrets.token_hex(8)}", f"{MARK}{secrets.token_hex(8)}"
    row = StructType([*fields, StructField(mark, LongType())])
    whole = StructType([StructField(outer, ArrayType(row)), StructField(_CORRUPT, StringType())])
    value = F.col(f"`{column}`")
    text = value.cast("string")

    def marked(number: "Column") -> "Column":
        return F.concat(F.lit(f'{{"{outer}":['), text, F.lit(f',{{"{mark}":'), number, F.lit("}]}"))

    # The number of the task is as good a mark as any, and keeps Spark from moving conditions on what was read below
    # the reading of it: it would then read every document once for the condition, and once more for the columns.
    task = F.spark_partition_id().cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    read = frame.withColumn(into, F.when(value.isNotNull(), F.from_json(marked(task), whole, options)))

    rows = F.col(f"`{into}`.`{outer}`")
    parsed, marks = F.get(rows, F.lit(0)), F.get(rows, F.lit(1))[mark]
    # Of what is bad alone: why it is.
    alone = F.try_variant_get(F.try_parse_json(marked(F.lit("0"))), f"$.{outer}[1].{mark}", "long").isNotNull()
    misfit = (
        F.when(F.try_parse_json(text).isNull(), NOT_JSON)
        .when(~alone, MORE_FOLLOWS)
        .otherwise(f"does not fit the schema: {schema}")
    )
    is_bad = F.col(f"`{into}`.{_CORRUPT}").isNotNull() | marks.isNull() | parsed.isNull()
    error = F.when(value.isNull(), None).when(~F.is_valid_utf8(text), NOT_UTF_8).when(is_bad, misfit)
    for name, is_missing in _missing(fields, parsed):
        error = error.when(is_missing, f"has no value for {name}, which the schema says is NOT NULL")
    return JsonRead(read, parsed, error)


def _missing(fields: "StructType", row: "Column", above: str = "") -> "list[tuple[str, Column]]":
    """Of each field that must not be null, within structs, arrays and maps too, whether it is."""
    found = []
    for field in fields:
        value, name = row[field.name], f"{above}{field.name}"
        if not field.nullable:
            found.append((name, row.isNotNull() & value.isNull()))
        found += _missing_within(field.dataType, value, name)
    return found


def _missing_within(kind: "DataType", value: "Column", name: str) -> "list[tuple[str, Column]]":
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return _missing(kind, value, f"{name}.")
    if isinstance(kind, MapType):
        return _missing_within(ArrayType(kind.valueType), F.map_values(value), name)
    if not isinstance(kind, ArrayType):
        return []
    element = kind.elementType

    def in_any(at: int) -> "Column":
        return F.exists(value, lambda each: _missing_within(element, each, "")[at][1])

    return [(inner, in_any(at)) for at, (inner, _) in enumerate(_missing_within(element, value, f"{name}[]"))]
