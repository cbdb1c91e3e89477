"""An upsert into an Iceberg table: the rows of the keys that a batch has are read, merged, and written again.

That is copy on write: files with such rows are written again without them, and readers need know nothing of deletes.
Columns that the batch does not have stay as they are in the table.
"""

from datetime import date
from typing import TYPE_CHECKING, Any

from barnabas.spark.tables import merging
from barnabas.spark.tables.fitting import plain_types
from barnabas.spark.tables.settings import DELETE_COLUMN, TableSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table, Transaction


def merge(table: "Table", transaction: "Transaction", rows: "pa.Table", settings: TableSettings) -> None:
    """Merge rows, one for each key and in the types of the table; those that are older than the table's are not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    touched = _touched(rows, settings.merge_keys)
    found = table.scan(row_filter=touched).to_arrow()
    found = found.cast(plain_types(found.schema))
    rows = merging.drop_rows(rows, merging.older_than(rows, found, settings))
    if not rows.num_rows:
        return
    if DELETE_COLUMN in rows.column_names:
        kept = rows.filter(pc.invert(pc.fill_null(rows[DELETE_COLUMN], False)))
    else:
        kept = rows
    others = merging.drop_rows(found, _of_keys(found, rows, settings.merge_keys))
    result = pa.concat_tables([others, _as_in(_completed(kept, found, settings.merge_keys), found.schema)])
    if found.num_rows:
        transaction.overwrite(result, overwrite_filter=touched)
    elif result.num_rows:
        transaction.append(result)


def in_types_of(table: "Table", rows: "pa.Table") -> "pa.Table":
    """Rows as the table has them: it may have wider types, and keys of two types cannot be compared."""
    import pyarrow as pa

    there = {field.name: field.type for field in plain_types(table.schema().as_arrow())}
    fields = [pa.field(field.name, there.get(field.name, field.type)) for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _touched(rows: "pa.Table", keys: tuple[str, ...]) -> "BooleanExpression":
    """A condition that all rows of the table with a key of these meet; of several columns, others may meet it too."""
    from pyiceberg import expressions

    is_in: Any = expressions.In  # whose hints are those of its fields, not of its arguments
    condition: BooleanExpression = expressions.AlwaysTrue()
    for name in keys:
        values: list[Any] = rows[name].unique().drop_null().to_pylist()
        # Of dates and times PyIceberg takes the text.
        literals = {each.isoformat() if isinstance(each, date) else each for each in values}
        condition = expressions.And(condition, is_in(name, literals))
    return condition


def _of_keys(rows: "pa.Table", others: "pa.Table", keys: tuple[str, ...]) -> "pa.Array":
    """The numbers of the rows whose key one of the others has."""
    import pyarrow as pa

    numbered = rows.select(list(keys)).append_column("__row", pa.array(range(rows.num_rows), pa.int64()))
    met = numbered.join(others.select(list(keys)), keys=list(keys), join_type="left semi")
    return met["__row"].combine_chunks()


def _completed(rows: "pa.Table", found: "pa.Table", keys: tuple[str, ...]) -> "pa.Table":
    """Rows with the columns that only the table has, as it has them for their keys."""
    import pyarrow as pa

    missing = [name for name in found.column_names if name not in rows.column_names]
    if not missing:
        return rows
    sought = rows.select(list(keys)).append_column("__row", pa.array(range(rows.num_rows), pa.int64()))
    known = found.select(list(keys)).append_column("__found", pa.array(range(found.num_rows), pa.int64()))
    met = sought.join(known, keys=list(keys), join_type="left outer").group_by("__row").aggregate([("__found", "min")])
    there = found.select(missing).take(met.sort_by("__row")["__found_min"].combine_chunks())
    for name in missing:
        rows = rows.append_column(name, there[name])
    return rows


def _as_in(rows: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    """In the columns and types of the table; what the rows do not have is null."""
    import pyarrow as pa

    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
