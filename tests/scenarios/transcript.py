"""Transcripts: scenarios that a person reads and a test runs.

A transcript is a text file. Lines that begin with ``#`` tell the reader what goes on. A line that begins with ``>``
is a command, and the lines after it, up to the next empty line, are what it printed:

    # A candidate that has asked everybody waits for the answers.

    > elect 1
    1 candidate, epoch 3, voted for itself

The commands are the methods of a `Stage`, one subclass for each machine that has scenarios. A test file runs all
transcripts of one folder:

    class RaftStage(Stage):
        def elect(self, node: int, *, epoch: int = 1) -> Iterator[str]:
            '''``elect NODE [epoch=E]``'''
            ...

    @pytest.mark.parametrize("path", transcripts("raft"), ids=name_of)
    def test_transcript(path: Path) -> None:
        check_transcript(path, RaftStage)

To write one, write the commands and comments alone and run ``make scenarios``: it fills in what was printed, and brings
all others up to date. Then read the difference: whatever is in it is either what you wanted or a bug.
"""

import difflib
import inspect
import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import pytest

from barnabas.core.errors import BarnabasError

REWRITE_VARIABLE: Final = "REWRITE_SCENARIOS"
"""An environment variable: if it is set, transcripts are written anew instead of compared."""

Printed: TypeAlias = str | Iterable[str] | None
_TRUTH: Final = {"yes": True, "no": False}


class WrongTranscript(Exception):
    """A transcript that cannot be run: the message says which line and why."""


class Command(NamedTuple):
    """One command of a transcript."""

    verb: str
    words: tuple[str, ...]
    options: dict[str, str]
    line_number: int


class Stage:
    """What a transcript plays on: each public method of a subclass is a command, its parameters the words after it.

    Positional parameters are words, keyword-only ones options (``epoch=3``), and ``*names: str`` takes all words that
    are left. They are converted to what they are annotated with: `str`, `int`, `bool` (yes or no), an `Enum` by the
    name of its member in small letters, each of them ``| None`` (``none``). A method prints the text or the lines that
    it returns; ``ok`` stands for nothing. A refusal, a `BarnabasError`, is printed as well.
    """

    def run(self, command: Command) -> list[str]:
        """Do one command; what it printed."""
        method = getattr(type(self), command.verb.replace("-", "_"), None)
        if command.verb.startswith("_") or command.verb == "run" or not inspect.isfunction(method):
            verbs = ", ".join(self._verbs())
            raise WrongTranscript(f"line {command.line_number}: no command '{command.verb}'; there are {verbs}")
        signature = inspect.signature(method, eval_str=True)
        try:
            words, options = _arguments(signature, command)
            signature.bind(self, *words, **options)
        except (TypeError, ValueError) as error:
            usage = inspect.getdoc(method) or str(signature)
            raise WrongTranscript(f"line {command.line_number}: {error}; usage: {usage}") from error
        return list(_lines(method(self, *words, **options)))

    @classmethod
    def _verbs(cls) -> list[str]:
        methods = inspect.getmembers(cls, inspect.isfunction)
        return sorted(name.replace("_", "-") for name, _ in methods if not name.startswith("_") and name != "run")


def _lines(printed: Printed) -> Iterator[str]:
    is_empty = True
    try:
        for text in [printed] if isinstance(printed, str) else printed or ():
            for line in text.splitlines():
                if line.strip():
                    is_empty = False
                    yield line.rstrip()
    except BarnabasError as error:
        yield f"refused, {type(error).__name__} ({error.kafka_code}): {error}"
        return
    if is_empty:
        yield "ok"


def _arguments(signature: inspect.Signature, command: Command) -> tuple[list[object], dict[str, object]]:
    parameters = list(signature.parameters.values())[1:]
    positional = [one for one in parameters if one.kind is not one.KEYWORD_ONLY]
    words: list[object] = []
    for index, word in enumerate(command.words):
        is_more = not positional or (
            index >= len(positional) and positional[-1].kind is not inspect.Parameter.VAR_POSITIONAL
        )
        if is_more:
            raise ValueError(f"'{word}' is one word too many")
        words.append(_converted(word, positional[min(index, len(positional) - 1)].annotation))
    options: dict[str, object] = {}
    for name, value in command.options.items():
        parameter = signature.parameters.get(name)
        if parameter is None:
            raise ValueError(f"no option '{name}'")
        options[name] = _converted(value, parameter.annotation)
    return words, options


def _converted(word: str, annotation: object) -> object:
    kinds = getattr(annotation, "__args__", (annotation,))
    if type(None) in kinds and word == "none":
        return None
    for kind in kinds:
        if kind is bool:
            if word not in _TRUTH:
                raise ValueError(f"'{word}' is neither yes nor no")
            return _TRUTH[word]
        if kind is int:
            return int(word)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {member.name.lower(): member for member in kind}[word]
    return word


def parse_command(line: str, line_number: int) -> Command:
    """The command of a line that begins with ``>``."""
    try:
        parts = shlex.split(line[1:])
    except ValueError as error:
        raise WrongTranscript(f"line {line_number}: {error}") from error
    if not parts:
        raise WrongTranscript(f"line {line_number}: a command is missing after '>'")
    words, options = [], {}
    for part in parts[1:]:
        name, sign, value = part.partition("=")
        if sign and name.replace("-", "_").isidentifier():
            options[name.replace("-", "_")] = value
        else:
            words.append(part)
    return Command(parts[0], tuple(words), options, line_number)


def played(text: str, stage: Stage) -> str:
    """The transcript as it is when `stage` has played it: same comments and commands, what is printed now."""
    lines: list[str] = []
    is_output = False  # between a command and the empty line that ends what it printed
    for line_number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(">"):
            if is_output:
                lines.append("")
            lines.append(line.rstrip())
            lines += _played_line(line, line_number, stage)
            is_output = True
        elif not line.strip():
            is_output = False
            if lines and lines[-1]:
                lines.append("")
        elif line.startswith("#"):
            if is_output:
                lines.append("")
            is_output = False
            lines.append(line.rstrip())
        elif not is_output:
            raise WrongTranscript(f"line {line_number}: '{line}' is neither a command nor a comment nor printed by one")
    return "\n".join(lines).rstrip("\n") + "\n"


def _played_line(line: str, line_number: int, stage: Stage) -> list[str]:
    try:
        return stage.run(parse_command(line, line_number))
    except WrongTranscript:
        raise
    except Exception as error:
        error.add_note(f"in line {line_number} of the transcript: {line}")
        raise


def check_transcript(path: Path, make_stage: Callable[[], Stage]) -> None:
    """Play a transcript and compare it with the file; write the file instead if that is asked for."""
    before = path.read_text(encoding="utf-8")
    after = played(before, make_stage())
    if os.environ.get(REWRITE_VARIABLE):
        if after != before:
            path.write_text(after, encoding="utf-8")
        return
    if after != before:
        difference = difflib.unified_diff(before.splitlines(), after.splitlines(), "expected", "printed", lineterm="")
        raise AssertionError(
            "\n".join([f"{path.name} is played differently ('make scenarios' accepts that):", *difference])
        )


class Planted(NamedTuple):
    """A mistake in the place of a rule, which changes the transcript of that name."""

    name: str
    owner: object
    rule: str
    mistake: Callable[..., object]


def nothing(*_arguments: object, **_named: object) -> None:
    """A mistake: nothing is checked, and nothing done."""


def no_timers(*_arguments: object) -> list[object]:
    """A mistake: no timer is set."""
    return []


def check_mistake_shows(
    folder: str, planted: Planted, make_stage: Callable[[], Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """See that a transcript is played differently with a mistake: it is about that rule. Never rewrites."""
    name = planted.name
    monkeypatch.setattr(planted.owner, planted.rule, planted.mistake)
    (path,) = (path for path in transcripts(folder) if path.stem == name)
    text = path.read_text(encoding="utf-8")
    try:
        after = played(text, make_stage())
    except AssertionError:
        return  # the machine itself noticed
    assert after != text, f"{folder}/{name} is played as ever, though a rule is wrong"


def transcripts(folder: str) -> list[Path]:
    """The transcripts of one folder beside this file, by name."""
    found = sorted((Path(__file__).parent / folder).glob("*.txt"))
    assert found, f"there are no transcripts in {folder}"
    return found


def name_of(path: Path) -> str:
    """How a test of a transcript is named."""
    return path.stem
