"""Tables and sentences at 40, 60, 80 columns: no word is broken, and into a pipe nothing is wrapped."""

import os
import pty
import re
import subprocess
import sys
import termios
from functools import cache

import pytest

from barnabas.cli import layout, output
from tests.unit.cli.conftest import Barnabas
from tests.unit.cli.fake_bus import FakeBus

COLUMNS = ("topic", "partitions", "replication factor", "what it is for")
ROWS = [("orders", 12, 3, "every order of the shop"), ("orders-of-the-billing-department", 1, 1, "-")]
SENTENCE = "cannot reach 127.0.0.1:1 (connection refused): is the broker running? Start one with 'barnabas serve'"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
def test_no_word_of_a_table_is_broken(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))

    output.print_table(COLUMNS, ROWS)

    printed = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    words = [word for row in (COLUMNS, *ROWS) for cell in row for word in str(cell).split()]
    assert [word for word in words if word not in printed.replace(":", " ").split()] == []
    longest = max(map(len, words))
    assert max(map(len, printed.splitlines())) <= max(width, longest + 2)


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_a_message_is_wrapped_between_words(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))

    output.say(SENTENCE, error=True)

    printed = capsys.readouterr().err
    assert printed.split() == SENTENCE.split()
    assert max(map(len, printed.splitlines())) <= width


def test_into_a_pipe_nothing_is_wrapped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "20")

    output.say(SENTENCE)
    output.print_table(COLUMNS, ROWS)

    assert capsys.readouterr().out.splitlines() == [
        SENTENCE,
        *("\t".join(map(str, row)) for row in (COLUMNS, *ROWS)),
    ]


def test_a_table_that_does_not_fit_is_a_list() -> None:
    assert layout.as_list(("topic", "in sync"), [("orders", "1"), ("a " * 12, "2")], 20) == [
        "topic: orders",
        "in sync: 1",
        "",
        "topic: a a a a a a a",
        "  a a a a a",
        "in sync: 2",
    ]


def test_a_refusal_is_wrapped_too(
    barnabas: Barnabas, bus: FakeBus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")

    assert barnabas("topic", "describe", "orders-of-the-shop") == 1

    assert capsys.readouterr().err == "barnabas: topic\n'orders-of-the-shop' does not\nexist\n"


@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_word_of_the_help_is_broken(width: int) -> None:
    for arguments in ([], ["consume"], ["topic", "create"], ["txn", "hanging"], ["pipeline", "validate"]):
        shown = at_terminal(width, *arguments, "--help")
        whole = at_terminal(200, *arguments, "--help")

        def words_of(text: str) -> set[str]:
            return set(re.findall(r"[\w-]{3,}", text))

        # Short descriptions of commands end in "..." where there is no room.
        assert words_of(shown) - words_of(whole) == set(), arguments
        assert max(map(len, shown.splitlines())) <= width


@cache
def at_terminal(width: int, *arguments: str) -> str:
    """What the command shows at a terminal of that width."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, width))
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas.cli.main", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environ, "TERM": "xterm", "NO_COLOR": "1"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # nobody has it open any more
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait(60) == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode()).replace("\r\n", "\n")
