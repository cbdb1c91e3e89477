"""`barnabas topic repair` on real files: what it shows, what it asks, and what it leaves."""

import json
import shutil
import stat
import sys
from pathlib import Path

import pytest

from barnabas.cli.main import app
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.dir_lock import DirLock
from barnabas.runtime.disk import OsDisk
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from tests.unit.cli.test_main import exit_code_of


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """The data directory of a stopped node; of topic `orders` a byte of the batch at offset 1 is wrong."""
    data_dir = DataDir(OsDisk(), str(tmp_path))
    for name in ("orders", "sound"):
        log = data_dir.create_log(TopicPartition(name, 0), LogConfig())
        for number in range(3):
            log.append(encode_batch([Record(0, number, b"k", bytes(100))]), leader_epoch=0, now_ms=0)
    data_dir.close()
    log_file = segment(tmp_path)
    data = bytearray(log_file.read_bytes())
    data[len(data) // 3 + 80] ^= 1
    log_file.write_bytes(data)
    return tmp_path


def segment(directory: Path) -> Path:
    return directory / "orders-0" / "00000000000000000000.log"


def test_it_shows_what_is_wrong_and_changes_nothing(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = segment(damaged).read_bytes()
    assert exit_code_of(app, "topic", "repair", "orders", "--data-dir", str(damaged), "--dry-run") == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split("\t") == ["partition", "offsets", "file and position", "problem", "remedy"]
    assert row.startswith(f"0\t1-1\t{segment(damaged)}:{len(before) // 3}\tbatch at offset 1 has checksum")
    assert row.endswith("\tgive up")
    assert segment(damaged).read_bytes() == before
    assert not list(damaged.glob("orders-0/*.quarantine"))


def test_it_asks_first(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = segment(damaged).read_bytes()
    assert exit_code_of(app, "topic", "repair", "orders", "--data-dir", str(damaged)) == 2
    assert "--yes" in capsys.readouterr().err
    assert segment(damaged).read_bytes() == before


def test_it_steps_over_the_batch_and_keeps_the_bytes_for_their_owner(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = segment(damaged).read_bytes()
    assert exit_code_of(app, "topic", "repair", "orders", "--data-dir", str(damaged), "--yes") == 0
    assert "1 batch(es) given up, 0 put right" in capsys.readouterr().out
    (kept,) = damaged.glob("orders-0/*.quarantine")
    assert kept.read_bytes() == before[len(before) // 3 : 2 * len(before) // 3]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert exit_code_of(app, "topic", "repair", "orders", "--data-dir", str(damaged)) == 0
    assert "everything can be read" in capsys.readouterr().out
    log = DataDir(OsDisk(), str(damaged)).create_log(TopicPartition("orders", 0), LogConfig())
    assert log.end_offset == 3


def test_json_says_the_same(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(app, "topic", "repair", "orders", "--data-dir", str(damaged), "--dry-run", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["partition"], found["first_offset"], found["last_offset"], found["is_restored"]) == (0, 1, 1, False)


def test_a_node_that_runs_is_not_touched(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = DirLock(str(damaged))
    lock.take()
    try:
        assert exit_code_of(app, "topic", "repair", "orders", "--data-dir", str(damaged), "--yes") == 1
        assert "in use by another node" in capsys.readouterr().err
        assert exit_code_of(app, "topic", "repair", "orders", "--data-dir", str(damaged), "--dry-run") == 0
    finally:
        lock.release()


def test_what_is_not_there_is_said(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(app, "topic", "repair", "nothing", "--data-dir", str(damaged), "--dry-run") == 1
    assert "has no files of nothing" in capsys.readouterr().err
    assert exit_code_of(app, "topic", "repair", "orders", "--data-dir", str(damaged / "none"), "--yes") == 1
    assert not (damaged / "none").exists()
    assert exit_code_of(app, "topic", "repair", "orders", "--data-dir", str(damaged), "--partition", "7", "-y") == 1


def test_a_partition_whose_directory_is_missing_is_named(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("sound-0", "orders-0"):
        shutil.move(damaged / name, damaged / f"{name}.elsewhere")
    assert exit_code_of(app, "topic", "repair", "sound", "--data-dir", str(damaged), "--dry-run") == 0
    said = capsys.readouterr()
    assert f"{damaged}/sound-0 is missing, with its records up to offset 3" in said.err
    assert said.out == "topic sound: everything present can be read\n"


def test_it_says_what_giving_up_metadata_means(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.move(damaged / "orders-0", damaged / "__cluster_metadata-0")
    assert exit_code_of(app, "topic", "repair", "__cluster_metadata", "--data-dir", str(damaged), "--dry-run") == 0
    said = capsys.readouterr().err
    assert "a topic that they created is deleted with all its records" in said
    assert f"copy {damaged} first" in said


def test_what_it_says_is_wrapped_between_words_on_a_terminal(
    damaged: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    assert exit_code_of(app, "topic", "repair", "sound", "--data-dir", str(damaged)) == 0
    assert capsys.readouterr().out.splitlines() == ["topic sound: everything can be", "read"]
