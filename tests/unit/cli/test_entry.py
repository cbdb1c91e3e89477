"""How a node is started without the rest of the command."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from barnabas.cli.entry import SERVE_OPTIONS, plain_serve_options
from barnabas.cli.main import app
from barnabas.cli.serve import ServeOptions


def test_every_option_of_serve_is_known_to_the_entry_point() -> None:
    serve = typer.main.get_group(app).commands["serve"]
    options = {name for each in serve.params for name in each.opts}

    assert set(SERVE_OPTIONS) == options
    assert set(SERVE_OPTIONS.values()) == set(ServeOptions._fields)


def test_plain_options_are_read_without_the_command() -> None:
    line = "serve --data-dir d --listen=h:1 --node-id 3 --set a=b --set c=d --rack r --config f --advertise x:2"
    given = plain_serve_options(line.split())

    assert given is not None
    assert ServeOptions.of_texts(given) == ServeOptions(
        config=Path("f"),
        data_dir=Path("d"),
        listen="h:1",
        advertise="x:2",
        node_id=3,
        rack="r",
        settings=("a=b", "c=d"),
    )


def test_the_console_is_a_flag_with_an_address_of_its_own() -> None:
    given = plain_serve_options(["serve", "--console", "--console-listen", "127.0.0.1:1", "--rack", "r"])

    assert given is not None
    assert ServeOptions.of_texts(given) == ServeOptions(console=True, console_listen="127.0.0.1:1", rack="r")
    assert plain_serve_options(["serve", "--console=yes"]) is None


def test_the_last_of_a_repeated_option_counts() -> None:
    given = plain_serve_options(["serve", "--rack", "a", "--rack", "b"])

    assert given is not None
    assert ServeOptions.of_texts(given).rack == "b"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "topic list",
        "serve --help",
        "serve --no-such-option 1",
        "serve extra",
        "serve --listen",
        "serve --listen --rack",
        "serve --node-id one",
        "serve --node-id -1",
    ],
)
def test_anything_unusual_is_left_to_the_command(line: str) -> None:
    assert plain_serve_options(line.split()) is None


def test_a_node_loads_no_other_command() -> None:
    code = (
        "import sys\n"
        "sys.argv[1:] = ['serve', '--listen', 'no-address']\n"
        "from barnabas.cli.entry import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print(*sorted(sys.modules))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    loaded = set(ended.stdout.split())

    assert ended.returncode == 2
    assert "barnabas.node" in loaded
    assert [name for name in ("typer", "rich", "importlib.metadata", "barnabas.cli.topic") if name in loaded] == []
