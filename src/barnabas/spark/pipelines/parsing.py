"""Bytes into columns, and what cannot be read into dead letters.

A parsed frame has the columns of its input, a struct with what was read, and an error that is null for good rows.
Good rows and dead letters are two views of it, so that a record is in exactly one of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.core.errors import InvalidRequest
from barnabas.spark.pipelines.json_documents import MARK, read_json
from barnabas.spark.pipelines.model import Parse
from barnabas.spark.pipelines.problems import part
from barnabas.spark.pipelines.tombstone_rows import TOMBSTONE, with_tombstones

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RECORD_COLUMNS: Final = ("key", "topic", "partition", "offset", "timestamp", "headers")
ERROR_HEADERS: Final = (
    "barnabas.error",
    "barnabas.topic",
    "barnabas.partition",
    "barnabas.offset",
    "barnabas.pipeline",
)
_PARSED: Final = "__parsed"
_ERROR: Final = "__error"
_READ: Final = "__read"


@dataclass(frozen=True, slots=True)
class Split:
    """The two halves of what was parsed; dead letters are ready to be sent."""

    good: "DataFrame"
    dead: "DataFrame"


def read_schema(parse: Parse, base: Path) -> str:
    """The schema of a parse clause, from the file if it is in one."""
    if parse.schema_file is not None:
        return (base / parse.schema_file).read_text(encoding="utf-8")
    return parse.schema or ""


def split(frame: "DataFrame", parse: Parse, *, base: Path, pipeline: str) -> Split:
    """Read the bytes of each row; rows that fail go to the dead half with the reason."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    if parse.format != "raw" and parse.column not in frame.columns:
        raise InvalidRequest(f"no column {parse.column!r} to parse; the columns are {', '.join(frame.columns)}")
    with part("schema" if parse.schema_file is None else "schema_file"):
        parsed = _parse(frame, parse, read_schema(parse, base))
    if parse.tombstone_keys:
        with part("tombstone_keys"):
            names = parse.tombstone_keys
            parsed = with_tombstones(parsed, names, value=parse.column, parsed=_PARSED, error=_ERROR)
    checked = _check(parsed, parse.checks)
    good = _good_columns(checked.where(F.col(_ERROR).isNull()), parse)
    return Split(good, _dead_letters(checked.where(F.col(_ERROR).isNotNull()), parse, pipeline))


def _parse(frame: "DataFrame", parse: Parse, schema: str) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    value = F.col(parse.column)
    if parse.format == "raw":
        return frame.withColumn(_ERROR, F.lit(None).cast("string"))
    if parse.format == "avro":
        from barnabas.spark.pipelines.avro import avro_decoder

        decoded = frame.withColumn(_PARSED, avro_decoder(schema, confluent=parse.confluent)(value))
        return decoded.withColumn(_ERROR, F.col(f"{_PARSED}.{_ERROR}"))
    read = read_json(frame, parse.column, schema, into=_READ)
    return read.frame.withColumns({_PARSED: read.parsed, _ERROR: read.error}).drop(_READ)


def _check(frame: "DataFrame", checks: Sequence[str]) -> "DataFrame":
    """Conditions see the columns that were read, then those of the record (as _key, _offset, ...)."""
    from pyspark.sql import functions as F  # noqa: N812

    if not checks:
        return frame
    names = _parsed_names(frame)
    seen = frame.select("*", *(F.col(f"{_PARSED}.`{name}`").alias(name) for name in names if name not in frame.columns))
    # A field that is named as a column of the record is not seen by its name beside that column, but by its struct.
    error: Column = F.col(_ERROR)
    exempt = F.col(TOMBSTONE) if TOMBSTONE in frame.columns else F.lit(False)
    for index, check in enumerate(checks):
        with part("checks", index):
            _refuse_no_condition(seen, check)
        fails = ~(exempt | F.coalesce(F.expr(check), F.lit(False)))
        error = F.coalesce(error, F.when(fails, F.lit(f"fails the check: {check}")))
    return seen.withColumn(_ERROR, error).select(*frame.columns)


def _refuse_no_condition(frame: "DataFrame", check: str) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    kind = frame.select(F.expr(check)).dtypes[0][1]
    if kind != "boolean":
        raise InvalidRequest(f"a check must be true or false, and this is of type {kind}: {check}")


def _parsed_names(frame: "DataFrame") -> list[str]:
    if _PARSED not in frame.columns:
        return []
    names: list[str] = frame.select(f"{_PARSED}.*").columns
    return [name for name in names if name != _ERROR and not name.startswith(MARK)]


def _good_columns(frame: "DataFrame", parse: Parse) -> "DataFrame":
    """What was read, then the record it was in, each of its columns with an underscore before its name."""
    from pyspark.sql import functions as F  # noqa: N812

    if parse.format == "raw":
        return frame.drop(_ERROR)
    names = _parsed_names(frame)
    others = [name for name in frame.columns if name not in (_PARSED, _ERROR, parse.column, "timestampType")]
    renamed = {name: f"_{name}" if name in RECORD_COLUMNS else name for name in others}
    clash = sorted(set(names) & set(renamed.values()))
    if clash:
        raise InvalidRequest(f"the schema has {', '.join(clash)}, which the row has already")
    fields = [F.col(f"{_PARSED}.`{name}`").alias(name) for name in names]
    return frame.select(*fields, *(F.col(f"`{old}`").alias(new) for old, new in renamed.items()))


def _dead_letters(frame: "DataFrame", parse: Parse, pipeline: str) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    def column(name: str) -> "Column | None":
        for candidate in (name, f"_{name}"):
            if candidate in frame.columns:
                return F.col(f"`{candidate}`")
        return None

    def header(name: str, value: "Column | None") -> "Column":
        text = F.lit(None).cast("string") if value is None else value.cast("string")
        return F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value"))

    places = (F.col(_ERROR), column("topic"), column("partition"), column("offset"), F.lit(pipeline))
    added = F.array(*(header(name, value) for name, value in zip(ERROR_HEADERS, places, strict=True)))
    headers = column("headers")
    none = F.array().cast("array<struct<key:string,value:binary>>")
    kept = none if headers is None else F.coalesce(headers, none)
    # A record that comes back from the dead, and fails again, has the headers of its last failure only.
    kept = F.filter(kept, lambda each: ~each["key"].isin(list(ERROR_HEADERS)))
    key = column("key")
    row = F.to_json(F.struct(*(f"`{name}`" for name in frame.columns if name not in (_PARSED, _ERROR))))
    value = F.col(parse.column) if parse.column in frame.columns else row
    return frame.select(
        (F.lit(None) if key is None else key).cast("binary").alias("key"),
        value.cast("binary").alias("value"),
        F.concat(kept, added).alias("headers"),
    )
