"""Whether rows fit a table that is there, reported for users: which column, its type in the table and in the rows, what
to do.

Checked when a pipeline is validated or started, so that the first batch is not needed to find out, and again by every
commit: a table may change meanwhile. Changes nothing, and creates nothing.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.core.errors import InvalidRequest
from barnabas.spark.connecting import is_connected
from barnabas.spark.tables.files import local_path, table_schema
from barnabas.spark.tables.settings import TableSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def check_fits(settings: TableSettings, frame: "DataFrame") -> None:
    """Refuse a frame whose rows the table cannot have. A table that does not exist yet will get the columns it needs.

    Over Connect the table is where the server is: there the first commit checks.
    """
    if is_connected(frame.sparkSession):
        return
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = table_schema(to_arrow_schema(frame.schema, timezone="UTC"))
    refuse_columns(settings.table or settings.path, [], schema)
    try:
        if settings.format == "delta":
            _check_delta(settings, schema)
        else:
            _check_iceberg(settings, schema)
    except ImportError as error:
        raise InvalidRequest(str(error)) from None


def _check_delta(settings: TableSettings, schema: "pa.Schema") -> None:
    from barnabas.spark.tables import delta

    deltalake = delta.import_deltalake()
    try:
        table = deltalake.DeltaTable(settings.path)
    except deltalake.exceptions.TableNotFoundError:
        return
    delta.refuse_partitions(table, settings)
    delta.refuse_misfits(table, settings, schema)


def _check_iceberg(settings: TableSettings, schema: "pa.Schema") -> None:
    from barnabas.spark.tables import iceberg

    local = local_path(settings.path)
    if not settings.catalog and (local is None or not (local / iceberg.CATALOG_FILE).is_file()):
        return  # opening it would make one
    table = iceberg.find_table(settings)
    if table is not None:
        iceberg.refuse_partitions(table, settings)
        iceberg.refuse_misfits(table, settings, schema)


def refuse_types(table: str, misfits: Mapping[str, tuple[str, str]]) -> None:
    """Say which columns are of another type, if any is: by name, the type of the table and that of the rows."""
    if misfits:
        said = ", ".join(f"column {name!r} is {there} there and {here} here" for name, (there, here) in misfits.items())
        name, (there, _) = next(iter(misfits.items()))
        raise InvalidRequest(
            f"the rows do not fit the table {table}: {said}; "
            f"convert in a step, as in cast({name} AS {there}), or write to another table"
        )


def refuse_columns(table: str, there: Sequence[str], schema: "pa.Schema") -> None:
    """Refuse what no table can have, and a column that is another of the table, or of the rows, but for its case."""
    for field in schema:
        if _is_foreign(field.type):
            raise InvalidRequest(
                f"the rows do not fit the table {table}: column {field.name!r} is {type_words(field.type)}, which "
                f"tables do not have; convert in a step, as in cast({field.name} AS string), or leave it out"
            )
    _refuse_case(table, there, schema.names)


def _is_foreign(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    if pa.types.is_nested(kind):
        return any(_is_foreign(kind.field(index).type) for index in range(kind.num_fields))
    return bool(pa.types.is_null(kind) or pa.types.is_duration(kind) or pa.types.is_interval(kind))


def _refuse_case(table: str, there: Sequence[str], here: Sequence[str]) -> None:
    """Say which column of the rows differs from one of the table, or from another of the rows, in case alone."""
    known = {name.lower(): name for name in there}
    for name in here:
        other = known.setdefault(name.lower(), name)
        if other == name or name in there:
            continue
        if other in there:
            what = f"column {name!r} is {other!r} there; rename it in a step, as in {name} AS {other}, or leave it out"
        else:
            what = (
                f"columns {other!r} and {name!r} are one column to a table; rename or leave out one of them in a step"
            )
        raise InvalidRequest(f"the rows do not fit the table {table}: {what}")


def refuse_new(table: str, names: Sequence[str]) -> None:
    """Say which columns the table does not have, if there are such."""
    if names:
        them = "it" if len(names) == 1 else "them"
        raise InvalidRequest(
            f"the rows do not fit the table {table}: it has no column {', '.join(map(repr, names))}; "
            f"add {them} to the table with 'evolve: true', or leave {them} out in a step"
        )


def refuse_absent(table: str, names: Sequence[str]) -> None:
    """Say which columns the table needs and the rows do not have, if there are such."""
    if names:
        raise InvalidRequest(
            f"the rows do not fit the table {table}: it needs a value in column {', '.join(map(repr, names))}, "
            "which the rows do not have; add it in a step"
        )


def refuse_partitions(table: str, there: Sequence[str], here: Sequence[str]) -> None:
    """Say how the table is partitioned, if that is otherwise than the sink says."""
    if list(there) != list(here):
        raise InvalidRequest(
            f"the table {table} is partitioned by {', '.join(there) or 'nothing'}, "
            f"and partition_by says {', '.join(here) or 'nothing'}: make it say the same"
        )


def type_words(kind: "pa.DataType") -> str:
    """A type as SQL calls it."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        words: str = from_arrow_type(kind).simpleString()
    except PySparkException:  # one that Spark does not have
        words = str(kind)
    return words


def plain_types(schema: Any) -> "pa.Schema":
    """Types that Spark reads: delta-rs and PyIceberg speak of string views and large strings."""
    import pyarrow as pa

    plain = {pa.string_view(): pa.string(), pa.large_string(): pa.string()}
    plain |= {pa.binary_view(): pa.binary(), pa.large_binary(): pa.binary()}

    def convert(kind: "pa.DataType") -> "pa.DataType":
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(each.name, convert(each.type), each.nullable) for each in kind])
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return pa.list_(convert(kind.value_type))
        if pa.types.is_map(kind):
            return pa.map_(convert(kind.key_type), convert(kind.item_type))
        return plain.get(kind, kind)

    return pa.schema([pa.field(field.name, convert(field.type), field.nullable) for field in schema])
