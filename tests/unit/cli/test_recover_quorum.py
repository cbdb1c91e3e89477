"""`barnabas cluster recover-quorum` on data directories that no node has open."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from barnabas.cli.main import app, run
from barnabas.core.metadata.formation import MetaProperties
from barnabas.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.runtime.disk import OsDisk
from barnabas.services.formatting import format_directory
from barnabas.storage.names import CLEAN_SHUTDOWN

THREE = VoterSet.of(
    Voter(ReplicaKey(number, UUID(int=number)), (VoterEndpoint("CONTROLLER", "h", 9093),)) for number in (1, 2, 3)
)


def make(path: Path, node_id: int = 3, *, voters: VoterSet = THREE) -> Path:
    path.mkdir()
    format_directory(OsDisk(), str(path), MetaProperties("c" * 22, node_id, UUID(int=node_id)), voters)
    return path


def recover(path: Path, *arguments: str) -> int:
    try:
        run(app, ["cluster", "recover-quorum", "--data-dir", str(path), *arguments])
    except SystemExit as leaving:
        return int(leaving.code or 0)
    return 0


def report(path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert recover(path, "--json", *arguments) == 0
    return json.loads(capsys.readouterr().out)


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "data")

    first = report(path, capsys, "--dry-run")

    assert (first["recovered"], first["lost_voters"], first["end_offset"]) == (False, [1, 2], 0)
    assert report(path, capsys, "--dry-run") == first


def test_it_is_done_once_and_leaves_a_clean_directory_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "data")
    (path / CLEAN_SHUTDOWN).touch()

    assert report(path, capsys, "--yes")["recovered"]

    assert (path / CLEAN_SHUTDOWN).exists()
    assert recover(path, "--yes") == 1
    assert "node 3 is the only voter: it needs nobody else, start it" in capsys.readouterr().err


def test_without_a_yes_nothing_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "data")

    assert recover(path) == 2

    assert "Make node 3 the only voter, and give up the voters 1, 2?" in capsys.readouterr().err
    assert not report(path, capsys, "--dry-run")["recovered"]


def test_directories_of_no_voter_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    observer = make(tmp_path / "observer", 4)

    for path, why in (
        (tmp_path / "missing", "is not a directory"),
        (tmp_path / "empty", "is not the data directory of a node that was part of a cluster"),
        (observer, "node 4 does not vote with this data directory (the voters are 1, 2, 3)"),
    ):
        assert recover(path, "--yes") in (1, 2)
        assert why in capsys.readouterr().err
