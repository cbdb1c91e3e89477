"""Upserts, whatever the table: rows are staged by tasks, and of each key the newest is merged by the driver.

Owns where staged files are, and which of two rows is newer. How a table takes what is merged is the table's.
"""

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.tables.files import WrittenFile, local_path, open_filesystem
from barnabas.spark.tables.settings import TableSettings

if TYPE_CHECKING:
    import pyarrow as pa

STAGING: Final = "_barnabas_staging"
_ROW: Final = "__row"


def staging_of(settings: TableSettings, query_id: str, batch_id: int) -> str:
    """Where the tasks of a batch put what is to be merged."""
    return f"{settings.root}/{STAGING}/{query_id}/{batch_id}"


def read_staged(settings: TableSettings, files: Sequence[WrittenFile]) -> "pa.Table":
    """The rows of staged files, whose paths are relative to the table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    for each in files:
        filesystem, path = open_filesystem(settings.root, each.path)
        tables.append(pq.ParquetFile(path, filesystem=filesystem).read())
    return pa.concat_tables(tables)


def remove_staged(settings: TableSettings, query_id: str, batch_id: int) -> None:
    staging = staging_of(settings, query_id, batch_id)
    local = local_path(staging)
    if local is not None:
        shutil.rmtree(local, ignore_errors=True)
        return
    filesystem, path = open_filesystem(staging)
    filesystem.delete_dir(path)


def newest_per_key(rows: "pa.Table", settings: TableSettings) -> "pa.Table":
    """The greatest row of each key by the columns of the order; nulls are the oldest."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = pa.table(
        [column for name in settings.merge_order for column in (pc.is_valid(rows[name]), rows[name])],
        names=[f"{kind}{number}" for number in range(len(settings.merge_order)) for kind in ("valid", "value")],
    )
    rows = rows.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))
    numbered = rows.append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by(list(settings.merge_keys)).aggregate([(_ROW, "max")])[f"{_ROW}_max"]
    return rows.take(last.combine_chunks())


def older_than(rows: "pa.Table", others: "pa.Table", settings: TableSettings) -> "pa.Array":
    """The numbers of rows that are older than one of `others` with the same key; a null is no key."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys, order = list(settings.merge_keys), list(settings.merge_order)
    sought = rows.select(keys).append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    orders = [f"__order{number}" for number in range(len(order))]
    # Keys of an earlier batch may be of a narrower type, and a join does not compare the two.
    theirs = [others[name].cast(rows.schema.field(name).type) for name in keys]
    others = pa.table([*theirs, *(others[name] for name in order)], names=[*keys, *orders])
    # Only what is compared goes through the join: it does not know every type that a row may have.
    met = sought.join(others, keys=keys, join_type="inner")
    mine = rows.take(met[_ROW])
    older = pc.invert(_not_older([mine[name] for name in order], [met[name] for name in orders]))
    return met[_ROW].filter(older).combine_chunks()


def _not_older(new: list[Any], old: list[Any]) -> Any:
    """Column by column, and what has no order is older."""
    import pyarrow.compute as pc

    newer = pc.or_(pc.is_null(old[0]), pc.fill_null(pc.greater(new[0], old[0]), False))
    equal = pc.fill_null(pc.equal(new[0], old[0]), False)
    return pc.or_(newer, pc.and_(equal, _not_older(new[1:], old[1:])) if new[1:] else equal)


def drop_rows(rows: "pa.Table", numbers: "pa.Array") -> "pa.Table":
    """The other rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return rows.filter(pc.invert(pc.is_in(pa.array(range(rows.num_rows), pa.int64()), numbers)))
