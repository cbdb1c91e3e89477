"""`barnabas quota`: set, list, remove."""

from typing import Annotated, TypeAlias

import typer

from barnabas.cli import connection, output
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, parse_pairs

app = typer.Typer(
    name="quota",
    help="Set, list and remove quotas: how much a user, a client id or an address may use on each node.",
    no_args_is_help=True,
)

TYPES = ("user", "client-id", "ip")

User: TypeAlias = Annotated[str | None, typer.Option(metavar="NAME", help="The quotas of this user.")]
ClientId: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ID", help="The quotas of this client id; with --user, of both together.")
]
Ip: TypeAlias = Annotated[str | None, typer.Option(metavar="ADDRESS", help="The quotas of this IP address.")]
Default: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE", help="The quotas of every user, client-id or ip that has none of its own (repeatable)."
    ),
]


@app.command("set")
def set_(
    quotas: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...",
            help="Bytes a second: producer_byte_rate, consumer_byte_rate. Percent of one core: request_percentage. "
            "Partitions a second: controller_mutation_rate. Of an ip, a second: connection_creation_rate.",
        ),
    ],
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Default = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Set quotas; others that it has stay as they are."""
    entity = _entity(user, client_id, ip, default, must_name=True)
    values = {name: _number(name, text) for name, text in parse_pairs(quotas, "NAME=VALUE").items()}
    with connection.ask_bus(bootstrap) as bus:
        bus.quotas.set(entity, values)
    output.say(f"{_words(entity)}: {', '.join(f'{name} is {_plain(value)}' for name, value in values.items())}")


@app.command("list")
def list_(
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Default = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """List all quotas, or those of a user, a client id or an address."""
    entity = _entity(user, client_id, ip, default)
    with connection.ask_bus(bootstrap) as bus:
        found = bus.quotas.find(entity)
    rows = [
        (*(_cell(each.entity, kind) for kind in TYPES), name, _plain(value))
        for each in found
        for name, value in sorted(each.quotas.items())
    ]
    output.print_found(found, (*TYPES, "quota", "value"), rows, as_json=as_json)


@app.command()
def remove(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Which ones. None: all.")] = None,
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Default = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove quotas: the clients get those that are less specific, or none."""
    entity = _entity(user, client_id, ip, default, must_name=True)
    with connection.ask_bus(bootstrap) as bus:
        removed = bus.quotas.remove(entity, names or ())
    output.say(f"{_words(entity)}: {'removed ' + ', '.join(removed) if removed else 'had no such quotas'}")


def _entity(
    user: str | None, client_id: str | None, ip: str | None, default: list[str] | None, *, must_name: bool = False
) -> dict[str, str | None]:
    """Whom the options name; a usage error if they contradict each other."""
    given = {"user": user, "client-id": client_id, "ip": ip}
    entity: dict[str, str | None] = {kind: name for kind, name in given.items() if name is not None}
    for kind in default or ():
        if kind not in TYPES:
            raise typer.BadParameter(f"{kind!r} is not one of {', '.join(TYPES)}", param_hint="--default")
        if kind in entity:
            raise typer.BadParameter(f"--default {kind} and --{kind} cannot be combined", param_hint="--default")
        entity[kind] = None
    if must_name and not entity:
        raise typer.BadParameter("give --user, --client-id, --ip, or --default with one of these")
    return entity


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{name} must be a number, not {text!r}", param_hint="NAME=VALUE") from None


def _words(entity: dict[str, str | None]) -> str:
    return ", ".join(
        f"every other {kind}" if name is None else f"{kind} {output.printable(name)}" for kind, name in entity.items()
    )


def _cell(entity: dict[str, str | None], kind: str) -> str:
    if kind not in entity:
        return "-"
    name = entity[kind]
    return "(default)" if name is None else name


def _plain(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else str(value)
