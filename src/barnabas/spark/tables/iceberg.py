"""Iceberg tables through PyIceberg: files are added, and query and batch noted, in one transaction of the table."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.errors import InvalidRequest
from barnabas.spark.tables import fitting, iceberg_merge, merging, steps, tombstones
from barnabas.spark.tables.files import WrittenFile, local_path, open_filesystem, without
from barnabas.spark.tables.identity import UNKNOWN, Batch, follows, is_same
from barnabas.spark.tables.settings import DELETE_COLUMN, TableSettings
from barnabas.spark.tables.steps import TableStep

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table, Transaction

CATALOG_FILE: Final = "catalog.db"
_PROPERTY: Final = "barnabas.batch."
_TOPICS: Final = "barnabas.topics."
_RETRIES: Final = "commit.retry.num-retries"
_ATTEMPTS: Final = 5
_AGAIN_S: Final = 0.1


def open_catalog(settings: TableSettings) -> Any:
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise ImportError("Iceberg tables need PyIceberg: pip install 'barnabas[tables]'") from error
    if settings.catalog:
        return load_catalog("barnabas", **{"warehouse": settings.path, **settings.catalog})
    local = local_path(settings.path)
    if local is None:
        raise InvalidRequest(f"the warehouse {settings.path} is not on this machine: name a catalog for it")
    local = local.absolute()
    local.mkdir(parents=True, exist_ok=True)
    return load_catalog("barnabas", type="sql", uri=f"sqlite:///{local / CATALOG_FILE}", warehouse=f"file://{local}")


def commit_files(settings: TableSettings, schema: "pa.Schema", files: Sequence[WrittenFile], *, batch: Batch) -> None:
    """Add files to the table, once."""

    def add(_table: "Table", transaction: "Transaction") -> None:
        transaction.add_files([_uri(files_root(settings), each.path) for each in files], check_duplicate_files=False)

    _commit(settings, schema, batch, add)


def merge_files(settings: TableSettings, schema: "pa.Schema", files: Sequence[WrittenFile], *, batch: Batch) -> None:
    """Upsert the rows of staged files, the newest of each key, once; then remove the files."""

    def merge(table: "Table", transaction: "Transaction") -> None:
        rows = iceberg_merge.in_types_of(table, merging.read_staged(settings, files))
        rows = merging.newest_per_key(rows, settings)
        rows = tombstones.hold_back(rows, settings, query_id=batch.query_id, batch_id=batch.number)
        iceberg_merge.merge(table, transaction, rows, settings)

    _commit(settings, without(schema, [DELETE_COLUMN]), batch, merge)
    merging.remove_staged(settings, batch.query_id, batch.number)
    steps.reached(TableStep.CLEARED, settings.path)


def _commit(
    settings: TableSettings, schema: "pa.Schema", batch: Batch, change: Callable[["Table", "Transaction"], None]
) -> None:
    """Change the table, once; repeatedly if others change it meanwhile, but not forever."""
    from pyiceberg.exceptions import CommitFailedException

    for left in reversed(range(_ATTEMPTS)):
        table = _open_or_create(settings, schema)
        _fit_schema(table, settings, schema)
        if is_done(table, settings, batch):
            return
        steps.reached(TableStep.READY, settings.path)
        try:
            _change(table, change, _marks(batch))
        except CommitFailedException:
            if not left:
                raise
            time.sleep(_AGAIN_S)
        else:
            steps.reached(TableStep.COMMITTED, settings.path)
            return


def is_done(table: "Table", settings: TableSettings, batch: Batch) -> bool:
    """Whether the table has this batch already."""
    mark = table.properties.get(f"{_PROPERTY}{batch.query_id}")
    if not mark:
        return False
    number, _, source = mark.partition(":")
    topics = table.properties.get(f"{_TOPICS}{batch.query_id}", "")
    last = Batch(batch.query_id, int(number), int(source or UNKNOWN), topics)
    return not follows(batch, last, settings.checkpoint) and is_same(batch, last, f"the table {settings.table}")


def _marks(batch: Batch) -> dict[str, str]:
    return {
        f"{_PROPERTY}{batch.query_id}": f"{batch.number}:{batch.fingerprint}",
        f"{_TOPICS}{batch.query_id}": batch.topics,
    }


def _change(table: "Table", change: Callable[["Table", "Transaction"], None], marks: dict[str, str]) -> None:
    """One attempt, which is refused if the table has another snapshot than the one that was looked at.

    PyIceberg would by itself try again with the new snapshot, and not ask whether that is this very batch, added by
    a commit that was given up and is still at work.
    """
    properties = {**table.metadata.properties, _RETRIES: "0"}  # of this object; not those of the table
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    with table.transaction() as transaction:
        change(table, transaction)
        transaction.set_properties(marks)


def files_root(settings: TableSettings) -> str:
    """Where tasks put the files of a table."""
    return f"{settings.root}/data"


def list_files(settings: TableSettings) -> list[str]:
    """The files of the newest snapshot."""
    tasks = open_table(settings).scan().plan_files()
    found = []
    for task in tasks:
        if task.delete_files:
            raise InvalidRequest(f"the table {settings.table} has delete files, which cannot be read here")
        found.append(task.file.file_path)
    return sorted(found)


def open_table(settings: TableSettings) -> "Table":
    table = find_table(settings)
    if table is None:
        raise InvalidRequest(f"there is no Iceberg table {settings.table} in {settings.path}")
    return table


def find_table(settings: TableSettings) -> "Table | None":
    from pyiceberg.exceptions import NoSuchTableError

    try:
        table: Table = open_catalog(settings).load_table(settings.table)
        return table
    except NoSuchTableError:
        return None


def _open_or_create(settings: TableSettings, schema: "pa.Schema") -> "Table":
    from pyiceberg.exceptions import NoSuchTableError

    assert settings.table is not None
    catalog = open_catalog(settings)
    try:
        table: Table = catalog.load_table(settings.table)
        refuse_partitions(table, settings)
        return table
    except NoSuchTableError:
        pass
    fitting.refuse_columns(settings.table, [], schema)
    catalog.create_namespace_if_not_exists(settings.table.partition(".")[0])
    with catalog.create_table_transaction(settings.table, schema=schema) as transaction:
        if settings.partition_by:
            with transaction.update_spec() as spec:
                for name in settings.partition_by:
                    spec.add_identity(name)
    steps.reached(TableStep.CREATED, settings.path)
    made: Table = catalog.load_table(settings.table)
    return made


def _fit_schema(table: "Table", settings: TableSettings, schema: "pa.Schema") -> None:
    if refuse_misfits(table, settings, schema):
        with table.update_schema() as update:
            update.union_by_name(schema)
        steps.reached(TableStep.EVOLVED, settings.path)


def refuse_misfits(table: "Table", settings: TableSettings, schema: "pa.Schema") -> list[str]:
    """Refuse rows that the table cannot have; the columns that it lacks, where they may be added."""
    there = {each.name: each for each in fitting.plain_types(table.schema().as_arrow())}
    name = f"{settings.table} in {settings.path}"
    fitting.refuse_columns(name, list(there), schema)
    fitting.refuse_types(
        name,
        {
            each.name: (fitting.type_words(there[each.name].type), fitting.type_words(each.type))
            for each in schema
            if each.name in there and not _can_hold(there[each.name].type, each.type)
        },
    )
    missing = [each for each in schema.names if each not in there]
    if not settings.evolve:
        fitting.refuse_new(name, missing)
    given = set(schema.names)
    fitting.refuse_absent(name, [each for each, field in there.items() if not field.nullable and each not in given])
    return missing


def refuse_partitions(table: "Table", settings: TableSettings) -> None:
    """Refuse files that are cut otherwise than the table is; a merge has PyIceberg write them, as the table has it."""
    from pyiceberg.transforms import IdentityTransform

    fields = table.spec().fields
    if settings.merge_keys or not all(isinstance(each.transform, IdentityTransform) for each in fields):
        return
    columns = [str(table.schema().find_column_name(each.source_id)) for each in fields]
    fitting.refuse_partitions(str(settings.table), columns, settings.partition_by)


def _can_hold(there: "pa.DataType", here: "pa.DataType") -> bool:
    """Whether a column of the table takes values of a type: its own, or a narrower one that Iceberg widens."""
    import pyarrow as pa

    widened = {pa.int64(): (pa.int32(), pa.int16(), pa.int8()), pa.float64(): (pa.float32(),)}
    if here in widened.get(there, ()) or (there == pa.int32() and here in (pa.int16(), pa.int8())):
        return True
    return fitting.type_words(there) == fitting.type_words(here)


def _uri(root: str, path: str) -> str:
    if local_path(root) is None:
        return f"{root}/{path}"
    return f"file://{open_filesystem(root, path)[1]}"
