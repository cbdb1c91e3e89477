"""The name under which a query publishes that Spark does not name, kept in its checkpoint."""

from pathlib import Path

import pytest

from barnabas.spark.pipelines import writing


class Crash(BaseException):
    """Nobody catches it."""


def test_a_name_is_kept_with_the_checkpoint(tmp_path: Path) -> None:
    first = writing._writer_id(str(tmp_path / "one"))

    assert first
    assert writing._writer_id(str(tmp_path / "one")) == first
    assert writing._writer_id(str(tmp_path / "another")) != first


def test_a_crash_while_the_name_is_written_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was published under it: another does as well. An empty one would be refused in every run from then on."""

    def crash(descriptor: int) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", crash)
        with pytest.raises(Crash):
            writing._writer_id(str(tmp_path))

    name = writing._writer_id(str(tmp_path))
    assert name
    assert writing._writer_id(str(tmp_path)) == name


def test_an_empty_name_is_none(tmp_path: Path) -> None:
    (tmp_path / "barnabas-writer-id").touch()

    name = writing._writer_id(str(tmp_path))

    assert name
    assert writing._writer_id(str(tmp_path)) == name
