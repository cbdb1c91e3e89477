"""Records with a key and no value, Kafka's tombstones, as rows: what is known of them is in the key.

A key is a JSON object with the fields, or, where one column is sought, the text of that column. One that is neither is
an error, as a value would be.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from barnabas.core.errors import InvalidRequest
from barnabas.spark.pipelines.json_documents import read_json

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

TOMBSTONE: Final = "_tombstone"
_KEY: Final = "__tombstone_key"
_READ: Final = "__tombstone_read"


def with_tombstones(frame: "DataFrame", names: Sequence[str], *, value: str, parsed: str, error: str) -> "DataFrame":
    """With a column that tells tombstones, and in what was parsed of them the columns that their keys have.

    `value`, `parsed` and `error` are the columns with the bytes, with what was read of them, and with what is wrong.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
    from pyspark.sql.types import StructType

    key = next((F.col(name) for name in ("key", "_key") if name in frame.columns), None)
    if key is None:
        raise InvalidRequest(
            f"no column key to read {', '.join(names)} from; the columns are {', '.join(frame.columns)}"
        )
    row = frame.schema[parsed].dataType
    assert isinstance(row, StructType)
    missing = [name for name in names if name not in row.names]
    if missing:
        raise InvalidRequest(f"the schema has no {', '.join(missing)}; it has {', '.join(row.names)}")
    is_tombstone = F.col(f"`{value}`").isNull() & key.isNotNull()
    frame = frame.withColumn(_KEY, F.when(is_tombstone, key.cast("string")))
    kinds = ", ".join(f"`{name}` {row[name].dataType.simpleString()} NOT NULL" for name in names)
    read = read_json(frame, _KEY, kinds, into=_READ)
    found = {name: read.parsed[name] for name in names}
    wrong = read.error
    if len(names) == 1:
        is_text = ~F.startswith(F.ltrim(_KEY), F.lit("{"))
        as_text = F.col(_KEY).try_cast(row[names[0]].dataType)
        found[names[0]] = F.when(is_text, as_text).otherwise(found[names[0]])
        wrong = F.when(is_text, F.when(as_text.isNull(), "it is not of the type of the column")).otherwise(wrong)
    said = F.concat(F.lit(f"the key of a tombstone has no {', '.join(names)}: "), wrong)
    filled = F.when(F.col(_KEY).isNotNull(), _row_of(row, found)).otherwise(F.col(parsed))
    return read.frame.withColumns(
        {TOMBSTONE: F.col(_KEY).isNotNull(), parsed: filled, error: F.coalesce(F.col(error), said)}
    ).drop(_KEY, _READ)


def _row_of(row: "StructType", found: "dict[str, Column]") -> "Column":
    from pyspark.sql import functions as F  # noqa: N812

    nothing = F.lit(None)
    return F.struct(*(found.get(each.name, nothing).cast(each.dataType).alias(each.name) for each in row))
