"""The steps of a table's commit, without Spark: what is cut short there is done again, and done once."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

from barnabas.core.errors import InvalidRequest
from barnabas.spark.checkpoints import source_offsets
from barnabas.spark.tables import delta, iceberg, merging, steps
from barnabas.spark.tables.files import PartFiles, WrittenFile
from barnabas.spark.tables.identity import Batch, fingerprint
from barnabas.spark.tables.settings import TableSettings
from barnabas.spark.tables.steps import TableStep
from tests.spark.pipelines.conftest import rows_of_delta

KINDS = ("delta", "merge", "iceberg", "iceberg-merge")


class Crash(BaseException):
    """Nobody catches it."""


class Batches:
    """A table of some kind, and the batches of one query, as tasks and driver write them."""

    def __init__(self, kind: str, directory: Path) -> None:
        self._kind = kind
        merge: dict[str, Any] = {"merge_keys": ("id",), "merge_order": ("id",)} if "merge" in kind else {}
        table: dict[str, Any] = {"table": "crashes.rows"} if "iceberg" in kind else {}
        form: Any = "iceberg" if "iceberg" in kind else "delta"
        checkpoint = str(directory / "checkpoint")
        self.settings = TableSettings(form, str(directory / kind), evolve=True, checkpoint=checkpoint, **merge, **table)

    def commit(self, batch_id: int, rows: Any, digest: str = "") -> None:
        batch = Batch("q", batch_id, fingerprint(digest, len(rows)))
        if self._kind == "iceberg":
            files = write(iceberg.files_root(self.settings), rows)
            iceberg.commit_files(self.settings, rows.schema, files, batch=batch)
        elif "merge" in self._kind:
            staging = merging.staging_of(self.settings, "q", batch_id)
            prefix = staging.removeprefix(self.settings.root + "/")
            files = [WrittenFile(f"{prefix}/{each.path}", each.size, each.rows, ()) for each in write(staging, rows)]
            (iceberg if "iceberg" in self._kind else delta).merge_files(self.settings, rows.schema, files, batch=batch)
        else:
            delta.commit_files(
                self.settings, rows.schema, write(self.settings.path, rows), overwrite=False, batch=batch
            )

    def read(self) -> list[dict[str, Any]]:
        if "iceberg" in self._kind:
            rows: list[dict[str, Any]] = iceberg.open_table(self.settings).scan().to_arrow().to_pylist()
        else:
            rows = rows_of_delta(self.settings.path)
        return sorted(rows, key=lambda row: row["id"])


def write(root: str, rows: Any) -> list[WrittenFile]:
    files = PartFiles(root, rows.schema, partition_by=(), keep_partition_columns=True, part="00000")
    return files.write(rows.to_batches())


def once(step: TableStep, happening: Callable[[], None]) -> Callable[[TableStep, str], None]:
    """A hook that makes something happen at a step, the first time."""
    left = [happening]

    def reached(at: TableStep, table: str) -> None:
        if at is step and left:
            left.pop()()

    return reached


def crash() -> None:
    raise Crash


CUT_SHORT = [(kind, step) for kind in KINDS for step in TableStep if step is not TableStep.WRITTEN]
CUT_SHORT = [(kind, step) for kind, step in CUT_SHORT if "merge" in kind or step is not TableStep.CLEARED]


@pytest.mark.parametrize(("kind", "step"), CUT_SHORT)
def test_a_batch_that_is_cut_short_at_a_step_and_run_again_is_in_the_table_once(
    kind: str, step: TableStep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = Batches(kind, tmp_path)
    first, second = pa.table({"id": [1, 2]}), pa.table({"id": [3], "note": ["new"]})
    if step is not TableStep.CREATED:
        batches.commit(0, first)
    number, rows = (0, first) if step is TableStep.CREATED else (1, second)
    monkeypatch.setattr(steps, "reached", once(step, crash))

    with pytest.raises(Crash):
        batches.commit(number, rows)
    batches.commit(number, rows)
    batches.commit(number, rows)

    expected = first.to_pylist() if step is TableStep.CREATED else [{"id": 1, "note": None}, {"id": 2, "note": None}]
    assert batches.read() == (expected if step is TableStep.CREATED else [*expected, {"id": 3, "note": "new"}])
    assert not list(Path(batches.settings.root).glob(f"{merging.STAGING}/*/*")), "nothing staged is left"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [("id",), ("id", "note")])
def test_a_commit_that_was_given_up_and_goes_on_later_adds_nothing(
    kind: str, columns: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both found the batch missing; the table, not they, must see that it is there by now."""
    batches = Batches(kind, tmp_path)
    rows = pa.table({name: [1] if name == "id" else ["new"] for name in columns})
    batches.commit(0, pa.table({"id": [0]}))
    step = TableStep.EVOLVED if "note" in columns else TableStep.READY
    monkeypatch.setattr(steps, "reached", once(step, lambda: batches.commit(1, rows)))

    with contextlib.suppress(CommitFailedError, FileNotFoundError):  # or it sees in time that nothing is to be done
        batches.commit(1, rows)

    assert [row["id"] for row in batches.read()] == [0, 1]


def test_an_iceberg_table_that_others_change_meanwhile_gets_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = Batches("iceberg", tmp_path)
    batches.commit(0, pa.table({"id": [0]}))
    others = pa.table({"id": [7]})
    monkeypatch.setattr(
        steps, "reached", once(TableStep.READY, lambda: iceberg.open_table(batches.settings).append(others))
    )

    batches.commit(1, pa.table({"id": [1]}))

    assert [row["id"] for row in batches.read()] == [0, 1, 7]
    assert "commit.retry.num-retries" not in iceberg.open_table(batches.settings).properties


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_is_not_the_one_in_the_table_is_refused(kind: str, tmp_path: Path) -> None:
    """As from an old copy of a checkpoint, whose next batch has the number of one that is there."""
    batches = Batches(kind, tmp_path)
    rows = [pa.table({"id": [number]}) for number in range(4)]
    for number in range(3):
        batches.commit(number, rows[number], digest=str(number) * 32)

    batches.commit(2, rows[2], digest="2" * 32)
    with pytest.raises(InvalidRequest, match=r"batch 2 of query q already, with other offsets.* Nothing was added"):
        batches.commit(2, rows[3], digest="f" * 32)
    with pytest.raises(InvalidRequest, match=r"batch 2 of query q already, and this is batch 1.* Nothing was added"):
        batches.commit(1, rows[3], digest="1" * 32)

    assert [row["id"] for row in batches.read()] == [0, 1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_refused_if_its_checkpoint_has_another_than_the_last_one_in_the_table(
    kind: str, tmp_path: Path
) -> None:
    """As from an old copy of a checkpoint whose next batch had no rows, so that nobody looked at the table."""
    batches = Batches(kind, tmp_path)
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "1").write_text('v1\n{"batchTimestampMs":1}\n{"t":{"0":7}}')
    batches.commit(1, pa.table({"id": [1]}), digest=source_offsets(str(tmp_path / "checkpoint"), 1).digest)
    batches.commit(2, pa.table({"id": [2]}), digest="2" * 32)  # of a checkpoint that does not have it any more
    batches.commit(3, pa.table({"id": [3]}), digest="3" * 32)

    (offsets / "3").write_text('v1\n{"batchTimestampMs":1}\n{"t":{"0":8}}')
    with pytest.raises(InvalidRequest, match=r"batch 3 of query q already, with other offsets.* Nothing was added"):
        batches.commit(4, pa.table({"id": [4]}), digest="4" * 32)

    assert [row["id"] for row in batches.read()] == [1, 2, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_where_offsets_are_not_known_a_batch_of_another_count_of_rows_is_refused(kind: str, tmp_path: Path) -> None:
    batches = Batches(kind, tmp_path)
    batches.commit(0, pa.table({"id": [0]}))

    batches.commit(0, pa.table({"id": [0]}))
    batches.commit(0, pa.table({"id": [0]}), digest="f" * 32)  # another kind of knowledge: nothing to compare
    with pytest.raises(InvalidRequest, match=r"batch 0 of query q already, with another count of rows"):
        batches.commit(0, pa.table({"id": [1, 2]}))

    assert [row["id"] for row in batches.read()] == [0]


def test_what_was_added_is_known_however_much_others_have_added_since(tmp_path: Path) -> None:
    """A table of many writers: the commit of the batch is far back in a log that is cleaned up."""
    batches = Batches("delta", tmp_path)
    batches.commit(0, pa.table({"id": [0]}), digest="a" * 32)
    for _ in range(101):
        delta.open_table(batches.settings).alter.set_table_properties({"delta.appendOnly": "false"})
    table = delta.open_table(batches.settings)
    table.create_checkpoint()

    with pytest.raises(InvalidRequest, match="with other offsets"):
        batches.commit(0, pa.table({"id": [1]}), digest="b" * 32)

    assert [row["id"] for row in batches.read()] == [0]
