"""The two phases of a table's sink, without Spark: files are written, and added once."""

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.errors import InvalidRequest
from barnabas.spark.tables import delta, iceberg, iceberg_merge, merging, tombstones
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
    if settings.format == "delta":
        return rows_of_delta(settings.path)
    rows: list[dict[str, Any]] = iceberg.open_table(settings).scan().to_arrow().to_pylist()
    return rows


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
    staging = merging.staging_of(settings, "q", batch_id)
    prefix = staging.removeprefix(settings.root + "/")
    written = write(staging, rows)
    files = [WrittenFile(f"{prefix}/{each.path}", each.size, each.rows, ()) for each in written]
    owner = delta if settings.format == "delta" else iceberg
    owner.merge_files(settings, rows.schema, files, batch=Batch("q", batch_id))


@pytest.fixture(params=["delta", "iceberg"])
def merged(request: pytest.FixtureRequest, tmp_path: Path) -> TableSettings:
    """A table that is merged into, of each kind."""
    name = None
    if request.param == "iceberg":
        pytest.importorskip("pyiceberg")
        name = "shop.orders"
    return TableSettings(request.param, str(tmp_path / "table"), table=name, merge_keys=("id",), merge_order=("at",))


def test_a_merge_keeps_the_newest_of_each_key_and_is_done_once(merged: TableSettings) -> None:
    settings = merged
    columns = ("id", "at", "__delete")

    def table(*rows: tuple[int, int, bool]) -> Any:
        return pa.table(dict(zip(columns, zip(*rows, strict=True), strict=True)))

    merge(settings, table((1, 5, False), (1, 3, False), (2, 1, False), (3, 1, False)), 0)
    merge(settings, table((1, 4, False), (2, 2, True), (4, 9, True), (5, 1, False)), 1)
    merge(settings, table((3, 9, True)), 1)  # the number of a batch that is done: nothing of it counts

    assert sorted((row["id"], row["at"]) for row in rows_of(settings)) == [(1, 5), (3, 1), (5, 1)]
    assert not Path(settings.root, merging.STAGING, "q", "0").exists()


def events(*rows: tuple[int, int | None, bool]) -> Any:
    columns = ("id", "at", "__delete")
    return pa.table(
        dict(zip(columns, zip(*rows, strict=True), strict=True)),
        pa.schema([("id", pa.int64()), ("at", pa.int64()), ("__delete", pa.bool_())]),
    )


@pytest.fixture
def remembering(merged: TableSettings) -> TableSettings:
    return replace(merged, remember_deletions_ms=60_000)


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
        patch.setattr(iceberg_merge, "merge", crash)
        with pytest.raises(KeyboardInterrupt):
            merge(remembering, events((1, 7, True)), 1)
    assert ids_of(remembering) == [(1, 5), (2, 5)]

    merge(remembering, events((1, 7, True)), 1)
    merge(remembering, events((1, 7, True)), 1)  # and after a crash of Spark's own commit
    merge(remembering, events((1, 6, False)), 2)

    assert ids_of(remembering) == [(2, 5)]


def test_deletions_are_forgotten_in_time_and_their_files_joined(remembering: TableSettings) -> None:
    folder = Path(remembering.root, tombstones.FOLDER)

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


def test_a_merge_into_iceberg_goes_by_all_columns_of_a_key_and_keeps_the_rest(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    settings = TableSettings(
        "iceberg", str(tmp_path), table="s.t", partition_by=("c",), merge_keys=("day", "at", "c"), merge_order=("n",)
    )

    def rows(*values: tuple[int, int, str | None, int]) -> Any:
        schema = pa.schema(
            [("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("c", pa.string()), ("n", pa.int32())]
        )
        made = [(date(2026, 5, day), datetime(2026, 5, day, at, tzinfo=UTC), c, n) for day, at, c, n in values]
        return pa.table(dict(zip(schema.names, zip(*made, strict=True), strict=True)), schema)

    merge(settings, rows((1, 1, "a", 1), (1, 2, "b", 1), (2, 1, "a", 1), (2, 2, "b", 5), (1, 1, None, 1)), 0)
    merge(settings, rows((1, 1, "a", 2), (2, 2, "b", 4), (1, 1, None, 2)), 1)

    found = sorted((row["day"].day, row["at"].hour, row["c"] or "", row["n"]) for row in rows_of(settings))
    assert found == [(1, 1, "", 1), (1, 1, "", 2), (1, 1, "a", 2), (1, 2, "b", 1), (2, 1, "a", 1), (2, 2, "b", 5)]


@pytest.mark.parametrize(("there", "here"), [("int64", "int32"), ("int32", "int16")])
def test_a_merge_into_iceberg_takes_keys_of_a_narrower_type(there: str, here: str, tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    settings = TableSettings(
        "iceberg", str(tmp_path), table="s.t", merge_keys=("id",), merge_order=("n",), remember_deletions_ms=10**9
    )

    def rows(kind: str, *values: tuple[int, int, bool]) -> Any:
        ids, numbers, deleted = zip(*values, strict=True)
        return pa.table({"id": pa.array(ids, kind), "n": pa.array(numbers, kind), "__delete": deleted})

    merge(settings, rows(there, (1, 1, False), (2, 1, False), (3, 1, False)), 0)
    merge(settings, rows(here, (3, 5, True), (1, 2, False)), 1)
    merge(settings, rows(there, (3, 4, False), (2, 2, False)), 2)

    assert sorted((row["id"], row["n"]) for row in rows_of(settings)) == [(1, 2), (2, 2)]


def test_a_merge_by_a_key_that_iceberg_has_no_type_for_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    settings = TableSettings("iceberg", str(tmp_path), table="s.t", merge_keys=("id",), merge_order=("n",))

    for number in range(3):
        merge(settings, pa.table({"id": pa.array([1, 2], "int16"), "n": [number, -number]}), number)

    assert sorted((row["id"], row["n"]) for row in rows_of(settings)) == [(1, 2), (2, 0)]


def test_a_merge_leaves_columns_alone_that_its_rows_do_not_have(merged: TableSettings) -> None:
    merge(merged, pa.table({"id": [1, 2, 3], "at": [1, 1, 1], "note": ["a", "b", None]}), 0)
    merge(merged, pa.table({"id": [4, 2, 1], "at": [2, 2, 2]}), 1)

    found = sorted((row["id"], row["at"], row["note"]) for row in rows_of(merged))
    assert found == [(1, 2, "a"), (2, 2, "b"), (3, 1, None), (4, 2, None)]


def test_an_iceberg_table_that_is_partitioned_otherwise_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    settings = TableSettings("iceberg", str(tmp_path), table="s.t", partition_by=("day",))
    rows = pa.table({"id": [1, 2], "day": ["a", "b"]})

    def commit(settings: TableSettings, number: int) -> None:
        files = write(iceberg.files_root(settings), rows, partition_by=settings.partition_by, keep=True)
        iceberg.commit_files(settings, rows.schema, files, batch=Batch("q", number))

    commit(settings, 0)
    for other in ((), ("id",)):
        with pytest.raises(
            InvalidRequest, match=r"s\.t is partitioned by day, and partition_by says (nothing|id): make"
        ):
            commit(replace(settings, partition_by=other), 1)

    commit(settings, 1)
    assert len(rows_of(settings)) == 4


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_column_that_differs_in_case_alone_is_refused_and_not_added(kind: Any, tmp_path: Path) -> None:
    settings = TableSettings(kind, str(tmp_path), table="s.t" if kind == "iceberg" else None, evolve=True)
    first, second = pa.table({"id": [1], "a": [1]}), pa.table({"id": [2], "A": [2]})

    def commit(rows: Any, number: int) -> None:
        batch = Batch("q", number)
        if kind == "iceberg":
            iceberg.commit_files(settings, rows.schema, write(iceberg.files_root(settings), rows), batch=batch)
        else:
            delta.commit_files(settings, rows.schema, write(settings.path, rows), batch=batch, overwrite=False)

    commit(first, 0)
    with pytest.raises(InvalidRequest, match=r"column 'A' is 'a' there; rename it in a step, as in A AS a, or leave"):
        commit(second, 1)
    with pytest.raises(InvalidRequest, match="columns 'B' and 'b' are one column to a table; rename or leave out one"):
        commit(pa.table({"B": [1], "b": [1]}), 1)

    assert rows_of(settings) == [{"id": 1, "a": 1}]


FOREIGN = {
    "void": pa.nulls(1),
    "interval day to second": pa.array([1], pa.duration("us")),
    "array<void>": pa.array([[None]], pa.list_(pa.null())),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_type_that_no_table_has_is_refused_in_a_sentence(kind: str, tmp_path: Path) -> None:
    settings = TableSettings("iceberg", str(tmp_path), table="s.t", evolve=True)

    for batch_id, rows in enumerate((pa.table({"x": FOREIGN[kind]}), pa.table({"id": [1], "x": FOREIGN[kind]}))):
        with pytest.raises(InvalidRequest) as refusal:
            iceberg.commit_files(settings, rows.schema, [], batch=Batch("q", batch_id))
        said = f"column 'x' is {kind}, which tables do not have; convert in a step, as in cast(x AS string)"
        assert said in str(refusal.value)
        first = pa.table({"id": [1]})
        files = write(iceberg.files_root(settings), first)
        iceberg.commit_files(settings, first.schema, files, batch=Batch("other", batch_id))


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
