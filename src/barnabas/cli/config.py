"""`barnabas config`: describe, alter."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from barnabas.cli import connection, output
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, parse_pairs

if TYPE_CHECKING:
    from barnabas.client.config_admin import ConfigInfo, ConfigKind

app = typer.Typer(
    name="config",
    help="Show and change the settings of topics, groups, brokers and their loggers, while they run.",
    no_args_is_help=True,
)

Topic: TypeAlias = Annotated[str | None, typer.Option(metavar="NAME", help="The settings of this topic.")]
Group: TypeAlias = Annotated[str | None, typer.Option(metavar="NAME", help="The settings of this group.")]
Broker: TypeAlias = Annotated[str | None, typer.Option(metavar="ID", help="The settings of this broker.")]
AllBrokers: TypeAlias = Annotated[
    bool, typer.Option("--all-brokers", help="What holds for every broker that has no setting of its own.")
]
Loggers: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ID", help="The levels of the loggers of this broker, until it restarts.")
]


@app.command()
def describe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SETTING...]", help="Which ones. None: see --all.")
    ] = None,
    topic: Topic = None,
    group: Group = None,
    broker: Broker = None,
    all_brokers: AllBrokers = False,
    loggers: Loggers = None,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Also those that have their default.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show settings: those that were changed, those named, or all; and where each value comes from."""
    kind, name = _whose(topic, group, broker, loggers, all_brokers=all_brokers)
    with connection.ask_bus(bootstrap) as bus:
        found = bus.configs.describe(kind, name, names=names or None)
    if not (all_ or names or loggers is not None):
        found = [each for each in found if not each.is_default]
    rows = [(each.name, _value(each), each.source, "yes" if each.is_read_only else "no") for each in found]
    output.print_found(found, ("setting", "value", "from", "read-only"), rows, as_json=as_json)


@app.command()
def alter(
    pairs: Annotated[
        list[str] | None, typer.Argument(metavar="[SETTING=VALUE...]", help="The settings to set.")
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(metavar="SETTING", help="Let this setting have its default again (repeatable)."),
    ] = None,
    topic: Topic = None,
    group: Group = None,
    broker: Broker = None,
    all_brokers: AllBrokers = False,
    loggers: Loggers = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; only say whether it would be accepted.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Change settings, all of them or none."""
    kind, name = _whose(topic, group, broker, loggers, all_brokers=all_brokers)
    values = parse_pairs(pairs or [], "SETTING=VALUE")
    both = sorted(set(values) & set(unset or ()))
    if both:
        raise typer.BadParameter(f"{both[0]} is set and unset at once", param_hint="--unset")
    if not values and not unset:
        raise typer.BadParameter("give SETTING=VALUE, or --unset SETTING")
    with connection.ask_bus(bootstrap) as bus:
        bus.configs.alter(kind, name, set_=values, unset=unset or (), dry_run=dry_run)
    changes = [f"{each} is {output.printable(value)}" for each, value in values.items()]
    changes += [f"{each} is not set" for each in unset or ()]
    done = "would be accepted" if dry_run else "done"
    output.say(f"{_words(kind, name)}: {', '.join(changes)}: {done}")


def _whose(
    topic: str | None, group: str | None, broker: str | None, loggers: str | None, *, all_brokers: bool
) -> tuple["ConfigKind", str]:
    from barnabas.client.config_admin import ALL_BROKERS, ConfigKind

    given = [
        (kind, name)
        for kind, name in (
            (ConfigKind.TOPIC, topic),
            (ConfigKind.GROUP, group),
            (ConfigKind.BROKER, ALL_BROKERS if all_brokers else None),
            (ConfigKind.BROKER, broker),
            (ConfigKind.LOGGER, loggers),
        )
        if name is not None
    ]
    if len(given) != 1:
        raise typer.BadParameter("give one of --topic, --group, --broker, --all-brokers and --loggers")
    return given[0]


def _words(kind: "ConfigKind", name: str) -> str:
    from barnabas.client.config_admin import ALL_BROKERS, ConfigKind

    if kind is ConfigKind.LOGGER:
        return f"loggers of broker {output.printable(name)}"
    return "all brokers" if name == ALL_BROKERS else f"{kind.name.lower()} {output.printable(name)}"


def _value(info: "ConfigInfo") -> str:
    if info.is_secret:
        return "(secret)"
    return "-" if info.value is None else info.value
