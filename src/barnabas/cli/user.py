"""`barnabas user`: make, list and delete users who log in by SCRAM or PLAIN."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli import output
from barnabas.cli.confirming import Yes, confirm
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from barnabas.core.errors import InvalidConfig

if TYPE_CHECKING:
    from barnabas.client.users import Users

app = typer.Typer(name="user", help="Make, list and delete users who log in by SCRAM or PLAIN.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The user.")]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option("--mechanism", help="SCRAM-SHA-256 or SCRAM-SHA-512 (repeatable). Default: both."),
]


@app.command()
def create(
    name: Name,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    password_file: Annotated[
        Path | None,
        typer.Option(help="A file whose first line is the password; - reads it from standard input. Default: asks."),
    ] = None,
    mechanism: Mechanisms = None,
    iterations: Annotated[int, typer.Option(help="How slow it is to guess the password: 4096 to 16384.")] = 4096,
    as_json: AsJson = False,
) -> None:
    """Make a user, or give it another password."""
    from barnabas.client.users import MECHANISMS

    password = _password(password_file)
    mechanisms = tuple(mechanism or MECHANISMS)
    _users(bootstrap).create(name, password, mechanisms=mechanisms, iterations=iterations)
    if as_json:
        output.print_json({"user": name, "mechanisms": list(mechanisms), "iterations": iterations})
    else:
        output.say(f"user {name} can log in by {', '.join(mechanisms)}")


@app.command("list")
def list_(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """List the users."""
    users = _users(bootstrap).list()
    rows = [(user.name, mechanism, count) for user in users for mechanism, count in sorted(user.mechanisms.items())]
    output.print_found(users, ("user", "mechanism", "iterations"), rows, as_json=as_json)


@app.command()
def delete(
    name: Name,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    mechanism: Mechanisms = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete a user. Connections that it has stay until they end."""
    confirm(f"Delete user {name}?", yes=yes)
    _users(bootstrap).delete(name, mechanisms=tuple(mechanism or ()))
    if as_json:
        output.print_json({"user": name, "deleted": True})
    else:
        output.say(f"user {name} is deleted")


def _users(bootstrap: str) -> "Users":
    from barnabas.client.contact import reach
    from barnabas.client.settings import Settings
    from barnabas.client.users import Users

    reach(bootstrap)
    return Users(Settings(bootstrap, "barnabas-cli"))


def _password(file: Path | None) -> str:
    """The password: never an argument, which others could see in the list of processes."""
    if file is None and sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    try:
        text = sys.stdin.read() if file is None or str(file) == "-" else file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidConfig(f"cannot read {file}: {error.strerror}") from None
    lines = text.splitlines()
    if not lines or not lines[0]:
        raise InvalidConfig("the password is empty")
    return lines[0]
