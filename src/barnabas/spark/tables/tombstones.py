"""What was deleted from a merged table, and how new that was: an older row that comes later does not bring it back.

They are Parquet files in a folder of the table that its readers do not see, one for each batch with deletions, written
before the batch is merged. A crash between the two leaves a tombstone for a deletion that is about to be done again,
with the same order; a row is held back by one that is newer only, so the deletion itself goes through. A file that is
written again says the same. Files of one query are joined when there are many; those of others are only read.

Tombstones that are older than the settings say are forgotten.
"""

import os
import time
from typing import TYPE_CHECKING, Final

from barnabas.spark.tables import merging
from barnabas.spark.tables.files import open_filesystem
from barnabas.spark.tables.settings import DELETE_COLUMN, TableSettings

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER: Final = "_barnabas_tombstones"
_DELETED_MS: Final = "__deleted_ms"
_MOST_FILES: Final = 32


def hold_back(
    rows: "pa.Table", settings: TableSettings, *, query_id: str, batch_id: int, now_ms: int | None = None
) -> "pa.Table":
    """The rows of a batch, one for each key, without those that are older than a deletion; its own are remembered."""
    import pyarrow.compute as pc

    if DELETE_COLUMN not in rows.column_names or not settings.remember_deletions_ms:
        return rows
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    stones = _Folder(settings, now_ms)
    known = stones.read()
    deletions = rows.filter(pc.fill_null(rows[DELETE_COLUMN], False))
    if deletions.num_rows:
        stones.add(deletions, query_id, batch_id)
    return rows if known is None else merging.drop_rows(rows, merging.older_than(rows, known, settings))


class _Folder:
    """The files of one table."""

    def __init__(self, settings: TableSettings, now_ms: int) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._oldest_ms = now_ms - settings.remember_deletions_ms
        self._filesystem, self._path = open_filesystem(settings.root, FOLDER)

    def read(self) -> "pa.Table | None":
        """All that is remembered; files in which everything is forgotten are removed."""
        while True:
            try:
                return self._read(self._list())
            except FileNotFoundError:
                continue  # another query has joined its files just now: what was in one is in its newest

    def add(self, deletions: "pa.Table", query_id: str, batch_id: int) -> None:
        import pyarrow as pa

        columns = list(dict.fromkeys([*self._settings.merge_keys, *self._settings.merge_order]))
        when = pa.array([self._now_ms] * deletions.num_rows, pa.int64())
        made = deletions.select(columns).append_column(_DELETED_MS, when)
        own = [name for name in self._list() if name.startswith(f"{query_id}-")]
        joined = own if len(own) >= _MOST_FILES else []
        before = self._read(joined)
        name = f"{query_id}-{batch_id}.parquet"
        self._write(name, made if before is None else pa.concat_tables([before, made], promote_options="permissive"))
        for each in joined:
            if each != name:
                self._filesystem.delete_file(f"{self._path}/{each}")

    def _list(self) -> list[str]:
        from pyarrow import fs

        found = self._filesystem.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return sorted(each.base_name for each in found if each.base_name.endswith(".parquet"))

    def _read(self, names: list[str]) -> "pa.Table | None":
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        tables = []
        for name in names:
            found = pq.ParquetFile(f"{self._path}/{name}", filesystem=self._filesystem).read()
            kept = found.filter(pc.greater_equal(found[_DELETED_MS], self._oldest_ms))
            if kept.num_rows:
                tables.append(kept)
            else:
                self._filesystem.delete_file(f"{self._path}/{name}")
        return pa.concat_tables(tables, promote_options="permissive") if tables else None

    def _write(self, name: str, table: "pa.Table") -> None:
        import pyarrow.parquet as pq

        self._filesystem.create_dir(self._path, recursive=True)
        full = f"{self._path}/{name}"
        if self._filesystem.type_name != "local":  # an object is there as a whole or not at all
            pq.write_table(table, full, filesystem=self._filesystem)
            return
        pq.write_table(table, f"{full}.unfinished", filesystem=self._filesystem)
        _sync(f"{full}.unfinished")
        os.replace(f"{full}.unfinished", full)
        _sync(self._path)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
