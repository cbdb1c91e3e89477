"""What cannot be undone is asked for first: at a terminal with a question, without one by `--yes`."""

import os
from collections.abc import Iterator

import pytest

from tests.unit.cli.conftest import Barnabas
from tests.unit.cli.fake_bus import FakeBus

DESTRUCTIVE = [
    ("topic", "delete", "orders"),
    ("topic", "truncate", "orders"),
    ("group", "delete", "billing"),
    ("group", "reset", "billing", "--to-earliest"),
    ("txn", "abort", "billing"),
    ("txn", "abort", "--topic", "orders", "--partition", "0", "--start-offset", "42"),
]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal that the command reads from; what is written here is typed there."""
    keyboard, screen = os.openpty()
    with os.fdopen(screen, closefd=True) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield keyboard
    os.close(keyboard)


@pytest.mark.parametrize("command", DESTRUCTIVE)
def test_without_a_terminal_nothing_is_done_unless_yes_says_so(
    barnabas: Barnabas, bus: FakeBus, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    bus.create_topic("orders")
    bus.send("orders", b"x", partition=0)

    assert barnabas(*command) == 2
    assert (bus.asked, list(bus.logs)) == ({}, ["orders"])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("barnabas: ")
    assert captured.err.endswith("Nothing was done: there is no terminal to confirm at; use --yes\n")

    assert barnabas(*command, "--yes") == 0


@pytest.mark.parametrize("command", DESTRUCTIVE)
@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"\n", 1), (b"y\n", 0)])
def test_at_a_terminal_the_answer_counts_and_no_is_the_default(
    barnabas: Barnabas, bus: FakeBus, terminal: int, command: tuple[str, ...], answer: bytes, code: int
) -> None:
    bus.create_topic("orders")
    bus.send("orders", b"x", partition=0)
    os.write(terminal, answer)

    assert barnabas(*command) == code
    assert ((bus.asked, list(bus.logs)) == ({}, ["orders"])) is (code != 0)


def test_a_dry_run_asks_nothing(barnabas: Barnabas, bus: FakeBus) -> None:
    assert barnabas("group", "reset", "billing", "--to-earliest", "--dry-run") == 0
    assert bus.asked["dry_run"] is True
