"""Delta tables through delta-rs (`deltalake`): one transaction for each batch, marked with query and batch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.core.errors import InvalidRequest
from barnabas.spark.tables import fitting, merging, steps, tombstones
from barnabas.spark.tables.files import WrittenFile, without
from barnabas.spark.tables.identity import UNKNOWN, Batch, follows, is_same
from barnabas.spark.tables.settings import DELETE_COLUMN, TableSettings
from barnabas.spark.tables.steps import TableStep

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable

_BATCH = "barnabas.batch"
_TOPICS = "barnabas.topics"
_LOOKED_AT = 100  # commits, for what was noted with the last batch
_SOURCE = ".source"  # the transaction whose version is the fingerprint of a query's last batch


def import_deltalake() -> Any:
    try:
        import deltalake
    except ImportError as error:
        raise ImportError("Delta tables need delta-rs: pip install 'barnabas[tables]'") from error
    return deltalake


def is_done(table: "DeltaTable", settings: TableSettings, batch: Batch) -> bool:
    """Whether the table has this batch already."""
    number = table.transaction_version(batch.query_id)
    source = table.transaction_version(f"{batch.query_id}{_SOURCE}")
    if number is None:
        return False
    last = Batch(batch.query_id, number, UNKNOWN if source is None else source)
    if follows(batch, last, settings.checkpoint):
        return False
    last = last._replace(topics=_topics_of(table, batch.query_id, number))
    return is_same(batch, last, f"the table {settings.path}")


def _topics_of(table: "DeltaTable", query_id: str, number: int) -> str:
    """What was noted for people with a batch; nothing if its commit is not among the last ones."""
    mark = f"{query_id}/{number}"
    found = (each.get(_TOPICS, "") for each in table.history(_LOOKED_AT) if each.get(_BATCH) == mark)
    return str(next(found, ""))


def commit_files(
    settings: TableSettings,
    schema: "pa.Schema",
    files: Sequence[WrittenFile],
    *,
    batch: Batch,
    overwrite: bool,
) -> None:
    """Add files to the table, once."""
    table = _prepare(settings, schema)
    if is_done(table, settings, batch):
        return
    steps.reached(TableStep.READY, settings.path)
    from deltalake.transaction import AddAction, RemoveAction

    # The time only says to people how old a file is; a version's own time is in its commit.
    modified_ms = 0
    actions: list[AddAction | RemoveAction] = [
        AddAction(each.path, each.size, dict(each.partition_values), modified_ms, True, each.stats()) for each in files
    ]
    table.create_write_transaction(
        actions,
        mode="overwrite" if overwrite else "append",
        schema=table.schema(),
        partition_by=list(settings.partition_by),
        commit_properties=_properties(batch),
    )
    steps.reached(TableStep.COMMITTED, settings.path)


def merge_files(settings: TableSettings, schema: "pa.Schema", files: Sequence[WrittenFile], *, batch: Batch) -> None:
    """Upsert the rows of staged files, the newest of each key, once; then remove the files."""
    table = _prepare(settings, without(schema, [DELETE_COLUMN]))
    if not is_done(table, settings, batch):
        steps.reached(TableStep.READY, settings.path)
        rows = merging.newest_per_key(merging.read_staged(settings, files), settings)
        rows = tombstones.hold_back(rows, settings, query_id=batch.query_id, batch_id=batch.number)
        _merge(table, rows, settings, _properties(batch))
        steps.reached(TableStep.COMMITTED, settings.path)
    merging.remove_staged(settings, batch.query_id, batch.number)
    steps.reached(TableStep.CLEARED, settings.path)


def fit_schema(table: "DeltaTable", settings: TableSettings, schema: "pa.Schema") -> None:
    """Refuse rows that the table cannot have; add the columns that it lacks if that is asked for."""
    from deltalake import Field

    missing = refuse_misfits(table, settings, schema)
    if missing:
        table.alter.add_columns([Field(each.name, each.type, nullable=True) for each in missing])
        steps.reached(TableStep.EVOLVED, settings.path)


def refuse_misfits(table: "DeltaTable", settings: TableSettings, schema: "pa.Schema") -> list[Any]:
    """Refuse rows that the table cannot have; the columns that it lacks, where they may be added."""
    import pyarrow as pa
    from deltalake import Schema as DeltaSchema

    there = {each.name: each for each in table.schema().fields}
    fitting.refuse_columns(settings.path, list(there), schema)
    here = DeltaSchema.from_arrow(schema).fields
    arrow = fitting.plain_types(pa.schema(table.schema().to_arrow()))
    fitting.refuse_types(
        settings.path,
        {
            each.name: (
                fitting.type_words(arrow.field(each.name).type),
                fitting.type_words(schema.field(each.name).type),
            )
            for each in here
            if each.name in there and there[each.name].type != each.type
        },
    )
    missing = [each for each in here if each.name not in there]
    if not settings.evolve:
        fitting.refuse_new(settings.path, [each.name for each in missing])
    given = set(schema.names)
    fitting.refuse_absent(
        settings.path, [name for name, each in there.items() if not each.nullable and name not in given]
    )
    return missing


def refuse_partitions(table: "DeltaTable", settings: TableSettings) -> None:
    fitting.refuse_partitions(settings.path, table.metadata().partition_columns, settings.partition_by)


def list_files(settings: TableSettings) -> list[tuple[str, dict[str, str | None]]]:
    """The files of the table at a version, with their partition values as text; always in the same order."""
    import pyarrow as pa

    table = open_table(settings)
    features = set(table.protocol().reader_features or ())
    if features & {"deletionVectors", "columnMapping"}:
        raise InvalidRequest(f"the table {settings.path} uses {', '.join(sorted(features))}, which cannot be read here")
    columns = table.metadata().partition_columns
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    found = [(row["path"], {name: _as_text(row[f"partition.{name}"]) for name in columns}) for row in actions]
    return sorted(found, key=lambda each: each[0])


def open_table(settings: TableSettings) -> "DeltaTable":
    deltalake = import_deltalake()
    try:
        table: DeltaTable = deltalake.DeltaTable(settings.path, version=settings.version)
        return table
    except deltalake.exceptions.TableNotFoundError:
        raise InvalidRequest(f"there is no Delta table at {settings.path}") from None


def _prepare(settings: TableSettings, schema: "pa.Schema") -> "DeltaTable":
    """The table, with all that a batch needs except its rows.

    Whether it has the batch is to be asked of what this returns: should a commit that was given up, and is still at
    work, add the batch after that, then the table refuses ours.
    """
    table = _open_or_create(settings, schema)
    fit_schema(table, settings, schema)
    return table


def _open_or_create(settings: TableSettings, schema: "pa.Schema") -> "DeltaTable":
    deltalake = import_deltalake()
    try:
        table: DeltaTable = deltalake.DeltaTable(settings.path)
    except deltalake.exceptions.TableNotFoundError:
        fitting.refuse_columns(settings.path, [], schema)
        partition_by = list(settings.partition_by)
        made: DeltaTable = deltalake.DeltaTable.create(settings.path, schema, mode="ignore", partition_by=partition_by)
        steps.reached(TableStep.CREATED, settings.path)
        return made
    refuse_partitions(table, settings)
    return table


def _properties(batch: Batch) -> "CommitProperties":
    from deltalake import CommitProperties, Transaction

    # Tables keep transactions for as long as they live; what is noted with a commit goes when the log is cleaned up.
    return CommitProperties(
        app_transactions=[
            Transaction(batch.query_id, batch.number),
            Transaction(f"{batch.query_id}{_SOURCE}", batch.fingerprint),
        ],
        custom_metadata={_BATCH: f"{batch.query_id}/{batch.number}", _TOPICS: batch.topics},
    )


def _merge(table: "DeltaTable", rows: "pa.Table", settings: TableSettings, properties: "CommitProperties") -> None:
    same_key = " AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in settings.merge_keys)
    not_older = _not_older([_quoted(name) for name in settings.merge_order])
    columns = {_quoted(name): f"s.{_quoted(name)}" for name in rows.column_names if name != DELETE_COLUMN}
    merger = table.merge(
        rows, predicate=same_key, source_alias="s", target_alias="t", commit_properties=properties, streamed_exec=False
    )
    if DELETE_COLUMN in rows.column_names:
        merger = merger.when_matched_delete(predicate=f"s.{DELETE_COLUMN} AND {not_older}")
        merger = merger.when_matched_update(columns, predicate=f"NOT s.{DELETE_COLUMN} AND {not_older}")
        merger = merger.when_not_matched_insert(columns, predicate=f"NOT s.{DELETE_COLUMN}")
    else:
        merger = merger.when_matched_update(columns, predicate=not_older)
        merger = merger.when_not_matched_insert(columns)
    merger.execute()


def _not_older(order: Sequence[str]) -> str:
    """The source row is as new as the target's, column by column; what the table has without an order is older."""
    first, *others = order
    newer = f"(t.{first} IS NULL OR s.{first} > t.{first})"
    equal = f"s.{first} = t.{first}"
    return f"({newer} OR ({equal} AND {_not_older(others)}))" if others else f"({newer} OR {equal})"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
