"""Transcripts: how they are read, played, compared and written."""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import pytest

from barnabas.core.errors import NotController
from tests.scenarios.transcript import REWRITE_VARIABLE, Stage, WrongTranscript, check_transcript, played


class Colour(Enum):
    RED = 1
    DARK_BLUE = 2


class Counters(Stage):
    """A stage with all kinds of commands."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, name: str, amount: int = 1) -> str:
        """``add NAME [AMOUNT]``"""
        self.counts[name] = self.counts.get(name, 0) + amount
        return f"{name} {self.counts[name]}"

    def show(self, *names: str, loud: bool = False) -> Iterator[str]:
        """``show NAME... [loud=yes]``"""
        for name in names:
            yield f"{name} {self.counts[name]}{'!' if loud else ''}"

    def paint_all(self, *, colour: Colour | None = None) -> str:
        """``paint-all [colour=COLOUR]``"""
        return str(colour)

    def forget(self) -> None:
        """``forget``"""
        self.counts.clear()

    def refuse(self) -> Iterator[str]:
        """``refuse``"""
        yield "half of it is done"
        raise NotController("ask another")

    def break_down(self) -> None:
        """``break-down``"""
        raise RuntimeError("a bug")


def play(*lines: str) -> list[str]:
    return played("\n".join(lines), Counters()).splitlines()


def test_commands_are_played_and_what_they_print_stands_after_them() -> None:
    assert play("# Counting.", "", "> add a", "> add a 4") == [
        "# Counting.",
        "",
        "> add a",
        "a 1",
        "",
        "> add a 4",
        "a 5",
    ]


def test_what_was_printed_before_is_replaced() -> None:
    assert play("> add a", "a 7", "and more", "# then", "> show a") == [
        "> add a",
        "a 1",
        "",
        "# then",
        "> show a",
        "a 1",
    ]


def test_a_transcript_played_twice_stays_as_it_is() -> None:
    once = played("> add a\n\n\n\n> forget\n# end\n", Counters())
    assert played(once, Counters()) == once


def test_words_and_options_are_converted_to_what_the_command_takes() -> None:
    assert play("> add 'two words' -2", "", "> show 'two words' loud=yes")[-1] == "two words -2!"
    assert play("> paint-all colour=dark_blue")[-1] == "Colour.DARK_BLUE"
    assert play("> paint-all colour=none")[-1] == "None"


def test_a_command_that_prints_nothing_is_ok() -> None:
    assert play("> forget") == ["> forget", "ok"]


def test_a_refusal_is_printed_after_what_was_done() -> None:
    assert play("> refuse")[1:] == ["half of it is done", "refused, NotController (41): ask another"]


def test_a_bug_names_the_line_of_the_transcript() -> None:
    with pytest.raises(RuntimeError) as caught:
        play("# one", "> break-down")
    assert caught.value.__notes__ == ["in line 2 of the transcript: > break-down"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("> fly", "no command 'fly'; there are add, break-down"),
        ("> run", "no command 'run'"),
        ("> _verbs", "no command '_verbs'"),
        ("> add", "usage: ``add NAME"),
        ("> add a b", "invalid literal"),
        ("> add a 1 2", "'2' is one word too many"),
        ("> forget me", "'me' is one word too many"),
        ("> show a loud=perhaps", "neither yes nor no"),
        ("> show a quiet=yes", "no option 'quiet'"),
        (">", "a command is missing"),
        ("> add 'a", "No closing quotation"),
        ("add a", "neither a command nor a comment"),
    ],
)
def test_a_line_that_cannot_be_played_is_named(line: str, reason: str) -> None:
    with pytest.raises(WrongTranscript, match=f"line 2: .*{reason}"):
        play("# one", line)


def test_a_transcript_that_is_played_differently_fails_and_shows_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(REWRITE_VARIABLE, raising=False)
    path = tmp_path / "a.txt"
    path.write_text("> add a\na 2\n")
    with pytest.raises(AssertionError, match=r"(?s)a.txt is played differently.*-a 2\n\+a 1"):
        check_transcript(path, Counters)
    assert path.read_text() == "> add a\na 2\n"


def test_a_transcript_is_written_anew_when_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REWRITE_VARIABLE, "1")
    path = tmp_path / "a.txt"
    path.write_text("> add a\n")
    check_transcript(path, Counters)
    assert path.read_text() == "> add a\na 1\n"
