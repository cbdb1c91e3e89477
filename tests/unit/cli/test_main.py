"""The command's exit codes, and what it prints where."""

import subprocess
import sys
from importlib.metadata import version

import pytest
import typer

from barnabas.cli.main import app, run
from barnabas.core.errors import BarnabasError, StorageError


def exit_code_of(commands: typer.Typer, *arguments: str) -> int:
    with pytest.raises(SystemExit) as leaving:
        run(commands, list(arguments))
    code = leaving.value.code
    return 0 if code is None else int(code)


def command_raising(error: BaseException) -> typer.Typer:
    commands = typer.Typer(pretty_exceptions_enable=False)

    @commands.command()
    def fail() -> None:
        raise error

    return commands


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(app, "--version") == 0

    assert capsys.readouterr().out == f"barnabas {version('barnabas')}\n"


def test_the_version_is_printed_without_loading_the_broker() -> None:
    code = (
        "import sys\n"
        "from barnabas.cli.main import app\n"
        "app(['--version'], standalone_mode=False)\n"
        "print(*sorted(sys.modules))\n"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    loaded = set(printed.split())

    assert "barnabas.cli.main" in loaded
    too_much = ("asyncio", "kio", "msgspec", "numba", "numpy", "pyarrow", "pyspark", "barnabas.runtime")
    assert [name for name in too_much if name in loaded] == []


def test_help_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(app, "--help") == 0

    assert "Kafka protocol" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--no-such-option"], ["no-such-command"]])
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(app, *arguments) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert arguments[0] in printed.err


def test_a_refusal_is_one_line_on_stderr_and_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    refusing = command_raising(StorageError("the disk of orders-0 failed:\n  it was taken offline"))

    assert exit_code_of(refusing) == 1

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "barnabas: the disk of orders-0 failed: it was taken offline\n"


def test_a_refusal_without_words_gives_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(command_raising(BarnabasError())) == 1

    assert capsys.readouterr().err == "barnabas: BarnabasError\n"


def test_a_bug_is_let_through() -> None:
    with pytest.raises(ZeroDivisionError):
        run(command_raising(ZeroDivisionError()), [])
