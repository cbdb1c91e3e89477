"""The two phases of a table's sink, without Spark: files are written, and added once."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.errors import InvalidRequest
from barnabas.spark.tables import delta, iceberg, tombstones
from barnabas.spark.tables.files import PartFiles, WrittenFile, read_batches, table_schema
from barnabas.spark.tables.identity import Batch
from barnabas.spark.tables.settings import TableSettings
from tests.spark.pipelines.conftest import rows_of_delta

pa = pytest.importorskip("pyarrow")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'barnabas[tables]'")


def write(root: str, rows: Any, *, partition_by: tuple[str, ...] = (), keep: bool = False) -> list[WrittenFile]:
    files = PartFiles(root, rows.schema, partition_by=partition_by, keep_partition_columns=keep, part="00000")
    return files.write(rows.to_batches())


def rows_of(settings: TableSettings) -> list[dict[str, Any]]:
    return rows_of_delta(settings.path)


def test_a_batch_that_is_committed_again_is_added_once(tmp_path: Path) -> None:
    settings = TableSettings("delta", str(tmp_path / "table"))
    rows = pa.table({"id": [1, 2]})

    for _ in range(2):
        files = write(settings.path, rows)
        delta.commit_files(settings, rows.schema, files, batch=Batch("q", 0), overwrite=False)
    files = write(settings.path, rows)
    delta.commit_files(settings, rows.schema, files, batch=Batch("another", 0), overwrite=False)

    assert sorted(row["id"] for row in rows_of(settings)) == [1, 1, 2, 2]


def test_files_are_apart_by_the_partition_columns_and_read_back_with_them(tmp_path: Path) -> None:
    settings = TableSettings("delta", str(tmp_path / "table"), partition_by=("day", "name"))
    rows = pa.table(
        {
            "id": [1, 2, 3, 4],
            "day": pa.array([date(2026, 5, 1), date(2026, 5, 1), None, date(2026, 5, 2)], pa.date32()),
            "name": ["a", "b/../c d%é", "a", None],
        }
    )

    files = write(settings.path, rows, partition_by=settings.partition_by)
    delta.commit_files(settings, rows.schema, files, batch=Batch("q", 0), overwrite=False)

    assert len(files) == 4
    assert (tmp_path / "table" / "day=2026-05-01" / "name=a").is_dir()
    assert sorted(rows_of(settings), key=lambda row: row["id"]) == rows.to_pylist()
    listed = delta.list_files(settings)
    ours = [batch for path, values in listed for batch in read_batches(settings.path, path, values, rows.schema)]
    assert sorted(pa.Table.from_batches(ours).to_pylist(), key=lambda row: row["id"]) == rows.to_pylist()


def test_new_columns_are_refused_unless_the_table_may_evolve(tmp_path: Path) -> None:
    settings = TableSettings("delta", str(tmp_path / "table"))
    first, second = pa.table({"id": [1]}), pa.table({"id": [2], "note": ["x"]})
    delta.commit_files(settings, first.schema, write(settings.path, first), batch=Batch("q", 0), overwrite=False)
    files = write(settings.path, second)

    with pytest.raises(InvalidRequest, match="it has no column 'note'; add it to the table with 'evolve: true'"):
        delta.commit_files(settings, second.schema, files, batch=Batch("q", 1), overwrite=False)
    evolving = TableSettings("delta", settings.path, evolve=True)
    delta.commit_files(evolving, second.schema, files, batch=Batch("q", 1), overwrite=False)

    assert sorted((row["id"], row["note"]) for row in rows_of(settings)) == [(1, None), (2, "x")]


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    settings = TableSettings("delta", str(tmp_path / "table"), evolve=True)
    first, second = pa.table({"id": [1]}), pa.table({"id": ["one"]})
    delta.commit_files(settings, first.schema, write(settings.path, first), batch=Batch("q", 0), overwrite=False)

    with pytest.raises(
        InvalidRequest,
        match=r"column 'id' is bigint there and string here; convert in a step, as in cast\(id AS bigint\)",
    ):
        delta.commit_files(settings, second.schema, [], batch=Batch("q", 1), overwrite=False)


def merge(settings: TableSettings, rows: Any, batch_id: int) -> None:
    staging = delta.staging_of(settings, "q", batch_id)
    prefix = staging.removeprefix(settings.path + "/")
    written = write(staging, rows)
    files = [WrittenFile(f"{prefix}/{each.path}", each.size, each.rows, ()) for each in written]
    delta.merge_files(settings, rows.schema, files, batch=Batch("q", batch_id))


def test_a_merge_keeps_the_newest_of_each_key_and_is_done_once(tmp_path: Path) -> None:
    settings = TableSettings("delta", str(tmp_path / "table"), merge_keys=("id",), merge_order=("at",))
    columns = ("id", "at", "__delete")

    def table(*rows: tuple[int, int, bool]) -> Any:
        return pa.table(dict(zip(columns, zip(*rows, strict=True), strict=True)))

    merge(settings, table((1, 5, False), (1, 3, False), (2, 1, False), (3, 1, False)), 0)
    merge(settings, table((1, 4, False), (2, 2, True), (4, 9, True), (5, 1, False)), 1)
    merge(settings, table((3, 9, True)), 1)  # the number of a batch that is done: nothing of it counts

    assert sorted((row["id"], row["at"]) for row in rows_of(settings)) == [(1, 5), (3, 1), (5, 1)]
    assert not (tmp_path / "table" / delta.STAGING / "q" / "0").exists()


def events(*rows: tuple[int, int | None, bool]) -> Any:
    columns = ("id", "at", "__delete")
    return pa.table(
        dict(zip(columns, zip(*rows, strict=True), strict=True)),
        pa.schema([("id", pa.int64()), ("at", pa.int64()), ("__delete", pa.bool_())]),
    )


@pytest.fixture
def remembering(tmp_path: Path) -> TableSettings:
    table = str(tmp_path / "table")
    return TableSettings("delta", table, merge_keys=("id",), merge_order=("at",), remember_deletions_ms=60_000)


def ids_of(settings: TableSettings) -> list[tuple[int, int | None]]:
    return sorted((row["id"], row["at"]) for row in rows_of(settings))


def test_an_older_event_after_a_deletion_does_not_bring_the_row_back(remembering: TableSettings) -> None:
    merge(remembering, events((1, 5, False), (2, 5, False), (3, 5, True), (3, 4, False)), 0)
    merge(remembering, events((1, 7, True), (2, 7, True)), 1)
    merge(remembering, events((1, 6, False), (2, 8, False), (3, 3, False), (4, 1, False)), 2)

    assert ids_of(remembering) == [(2, 8), (4, 1)]
    merge(remembering, events((1, 7, False)), 3)
    assert ids_of(remembering) == [(1, 7), (2, 8), (4, 1)], "of two that are equally new, the later one counts"


def test_what_has_no_order_is_older_than_a_deletion_that_has_one(remembering: TableSettings) -> None:
    merge(remembering, events((1, 5, False), (2, None, False), (3, 5, False)), 0)
    merge(remembering, events((1, 6, True), (2, None, True), (3, None, True)), 1)
    merge(remembering, events((1, None, False), (2, 1, False)), 2)

    assert ids_of(remembering) == [(2, 1), (3, 5)]


def test_a_crash_between_tombstone_and_merge_does_the_deletion_once_more(
    remembering: TableSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    merge(remembering, events((1, 5, False), (2, 5, False)), 0)
    with monkeypatch.context() as patch:
        patch.setattr(delta, "_merge", crash)
        with pytest.raises(KeyboardInterrupt):
            merge(remembering, events((1, 7, True)), 1)
    assert ids_of(remembering) == [(1, 5), (2, 5)]

    merge(remembering, events((1, 7, True)), 1)
    merge(remembering, events((1, 7, True)), 1)  # and after a crash of Spark's own commit
    merge(remembering, events((1, 6, False)), 2)

    assert ids_of(remembering) == [(2, 5)]


def test_deletions_are_forgotten_in_time_and_their_files_joined(remembering: TableSettings, tmp_path: Path) -> None:
    folder = tmp_path / "table" / tombstones.FOLDER

    def hold(rows: Any, batch_id: int, now_ms: int) -> int:
        kept = tombstones.hold_back(rows, remembering, query_id="q", batch_id=batch_id, now_ms=now_ms)
        return int(kept.num_rows)

    for batch_id in range(100):
        hold(events((batch_id, 5, True)), batch_id, now_ms=1000)

    assert len(list(folder.iterdir())) < 40
    late = events(*((key, 4, False) for key in range(100)))
    assert hold(late, 100, now_ms=61_000) == 0
    assert hold(late, 101, now_ms=61_001) == 100
    assert list(folder.iterdir()) == []


def test_tombstones_are_kept_by_several_keys_and_orders_of_many_types(tmp_path: Path) -> None:
    settings = TableSettings(
        "delta", str(tmp_path), merge_keys=("a", "b"), merge_order=("day", "n"), remember_deletions_ms=60_000
    )

    def rows(n: int | None, *, delete: bool) -> Any:
        return pa.table(
            {
                "a": ["x"], "b": [b"y"], "day": [date(2026, 5, 1)], "n": pa.array([n], pa.int32()),
                "payload": [[{"deep": [1]}]], "__delete": [delete],
            }
        )  # fmt: skip

    def count(table: Any, batch_id: int) -> int:
        return int(tombstones.hold_back(table, settings, query_id="q", batch_id=batch_id).num_rows)

    assert count(rows(5, delete=True), 0) == 1
    assert [count(rows(n, delete=False), 1) for n in (4, 5, 6, None)] == [0, 1, 1, 0]


def test_an_iceberg_batch_that_is_committed_again_is_added_once(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    settings = TableSettings("iceberg", str(tmp_path / "w"), table="shop.orders", partition_by=("day",))
    rows = pa.table({"id": [1, 2], "day": ["a", "b"]})

    for batch_id in (0, 0, 1):
        files = write(iceberg.files_root(settings), rows, partition_by=("day",), keep=True)
        iceberg.commit_files(settings, rows.schema, files, batch=Batch("q", batch_id))

    assert sorted(iceberg.open_table(settings).scan().to_arrow()["id"].to_pylist()) == [1, 1, 2, 2]
    assert len(iceberg.list_files(settings)) == 4


def test_times_are_kept_in_utc() -> None:
    schema = pa.schema([pa.field("at", pa.timestamp("us", tz="Europe/Vienna"), nullable=False)])

    assert table_schema(schema) == pa.schema([pa.field("at", pa.timestamp("us", tz="UTC"))])
