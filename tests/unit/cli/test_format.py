"""`barnabas format` on real files."""

import json
import stat
from pathlib import Path

import pytest

from barnabas.cli.main import app
from barnabas.core.uuids import parse_id
from tests.unit.cli.test_main import exit_code_of

VOTER = (
    "--set", "listeners=PLAINTEXT://:9092,CONTROLLER://localhost:9093",
    "--set", "controller.listener.names=CONTROLLER",
)  # fmt: skip
CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def test_a_standalone_node_is_formatted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ("format", "--data-dir", str(tmp_path), "--cluster-id", "ours", *VOTER, "--standalone")
    assert exit_code_of(app, *line, "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["cluster_id"], made["node_id"], made["voters"], made["formatted"]) == ("ours", 1, [1], True)
    assert f"directory.id={made['directory_id']}\n" in (tmp_path / "meta.properties").read_text()
    assert stat.S_IMODE((tmp_path / "meta.properties").stat().st_mode) == 0o600
    assert (tmp_path / CHECKPOINT).exists()
    assert exit_code_of(app, *line) == 1
    assert "is already formatted, for node 1 of cluster ours" in capsys.readouterr().err
    assert exit_code_of(app, *line, "--ignore-formatted") == 0
    assert "already formatted for node 1" in capsys.readouterr().out


def test_the_first_voters_are_named_with_their_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    voters = "1@a:9093:AAAAAAAAAAAAAAAAAAAABw,2@b:9093:AAAAAAAAAAAAAAAAAAAACA"
    line = ("format", "--data-dir", str(tmp_path), "--cluster-id", "ours", *VOTER, "--initial-controllers", voters)
    assert exit_code_of(app, *line) == 0
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert said.endswith("directory id AAAAAAAAAAAAAAAAAAAABw; first voters: 1, 2\n")


def test_an_id_for_a_new_cluster_is_only_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(app, "format", "--new-cluster-id", "--data-dir", str(tmp_path / "none")) == 0
    parse_id(capsys.readouterr().out.strip())
    assert not (tmp_path / "none").exists()


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "none"
    assert exit_code_of(app, "format", "--data-dir", str(directory)) == 1
    assert "--cluster-id is missing" in capsys.readouterr().err
    assert exit_code_of(app, "format", "--data-dir", str(directory), "--cluster-id", "ours") == 1
    assert "say who votes first" in capsys.readouterr().err
    assert not directory.exists()
