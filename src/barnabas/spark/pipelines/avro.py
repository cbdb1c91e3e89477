"""Avro without a JAR: fastavro in Arrow UDFs. A value that cannot be read becomes an error, not an exception."""

import io
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.errors import InvalidRequest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_REGISTRY_HEADER_SIZE: Final = 5
_ERROR: Final = "__error"
_LONGEST_ERROR: Final = 300


def avro_decoder(schema: str, *, confluent: bool) -> Callable[["Column"], "Column"]:
    """A column function: bytes into a struct of the fields, with an error that is null on success."""
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StringType, StructField

    fields = spark_schema(schema)
    returned = fields.add(StructField(_ERROR, StringType()))
    arrow_type = to_arrow_type(returned, timezone="UTC")
    skip = _REGISTRY_HEADER_SIZE if confluent else 0

    def decode(values: "pa.Array") -> "pa.Array":
        return decode_values(values, schema, arrow_type, skip)

    # Arrow UDFs are chosen by their hints, which a string would hide from Spark.
    import pyarrow as pa

    decode.__annotations__ = {"values": pa.Array, "return": pa.Array}
    decorated: Callable[[Column], Column] = functions.arrow_udf(decode, returnType=returned)  # type: ignore[attr-defined]
    return decorated


def decode_values(values: "pa.Array", schema: str, arrow_type: "pa.DataType", skip: int) -> "pa.Array":
    import fastavro
    import pyarrow as pa

    reading = fastavro.parse_schema(json.loads(schema))
    rows: list[dict[str, Any] | None] = []
    for value in values.to_pylist():
        if value is None:
            rows.append(None)
            continue
        stream = io.BytesIO(value[skip:])
        try:
            row: Any = fastavro.schemaless_reader(stream, reading)
            if stream.read(1):
                raise ValueError("there are bytes after the record")
            pa.array([{**row, _ERROR: None}], arrow_type)  # a value that the type cannot have is that row's error
            rows.append({**row, _ERROR: None})
        except Exception as error:  # bytes from anywhere make a decoder raise anything
            rows.append({_ERROR: f"not Avro of the schema: {type(error).__name__}: {error}"[:_LONGEST_ERROR]})
    return pa.array(rows, arrow_type)


def spark_schema(schema: str) -> "StructType":
    """Spark's type of an Avro record."""
    from pyspark.sql.types import StructType

    try:
        parsed = json.loads(schema)
    except ValueError as error:
        raise InvalidRequest(f"the Avro schema is not JSON: {error}") from None
    found = _spark_type(parsed)
    if not isinstance(found, StructType):
        raise InvalidRequest("the Avro schema is not that of a record")
    return found


def _spark_type(schema: Any) -> "DataType":  # noqa: PLR0911 - one for each kind
    from pyspark.sql import types

    if isinstance(schema, list):
        return _union_type(schema)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return _spark_type(kind)
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    if logical == "decimal":
        return types.DecimalType(schema["precision"], schema.get("scale", 0))
    simple: dict[tuple[str, str | None], DataType] = {
        ("int", "date"): types.DateType(),
        ("long", "timestamp-millis"): types.TimestampType(),
        ("long", "timestamp-micros"): types.TimestampType(),
        ("string", "uuid"): types.StringType(),
        ("null", None): types.NullType(),
        ("boolean", None): types.BooleanType(),
        ("int", None): types.IntegerType(),
        ("long", None): types.LongType(),
        ("float", None): types.FloatType(),
        ("double", None): types.DoubleType(),
        ("bytes", None): types.BinaryType(),
        ("fixed", None): types.BinaryType(),
        ("string", None): types.StringType(),
        ("enum", None): types.StringType(),
    }
    if (kind, logical) in simple:
        return simple[kind, logical]
    if kind == "array":
        return types.ArrayType(_spark_type(schema["items"]))
    if kind == "map":
        return types.MapType(types.StringType(), _spark_type(schema["values"]))
    if kind == "record":
        return types.StructType(
            [types.StructField(each["name"], _spark_type(each["type"])) for each in schema["fields"]]
        )
    raise InvalidRequest(f"the Avro type {kind!r}{f' ({logical})' if logical else ''} has no counterpart here")


def _union_type(choices: list[Any]) -> "DataType":
    others = [each for each in choices if each != "null"]
    if len(others) != 1:
        raise InvalidRequest("of Avro unions only those of null and one type can be read")
    return _spark_type(others[0])
