"""The features of a cluster: showing their levels, and raising them after all nodes have a new version."""

from collections.abc import Sequence

import typer

from barnabas.cli import connection, output
from barnabas.cli.confirming import confirm
from barnabas.cli.connection import parse_pairs


def show_features(bootstrap: str, *, as_json: bool) -> None:
    """The level of each feature in use, and those that there are."""
    with connection.ask_bus(bootstrap) as bus:
        found = bus.features.find()
    rows = [(each.name, each.level, f"{each.lowest} to {each.highest}") for each in found]
    output.print_found(found, ("feature", "in use", "supported"), rows, as_json=as_json)


def upgrade_features(bootstrap: str, pairs: Sequence[str], *, dry_run: bool, yes: bool) -> None:
    """Raise the named features, or all, to the named levels, or the highest."""
    named = {name: _level(name, text) for name, text in parse_pairs(list(pairs), "FEATURE=LEVEL").items()}
    with connection.ask_bus(bootstrap) as bus:
        found = {each.name: each for each in bus.features.find()}
        wanted = named or {each.name: each.highest for each in found.values() if each.level < each.highest}
        if not wanted:
            output.say("every feature is at its highest level")
            return
        words = ", ".join(f"{name} to {level}" for name, level in wanted.items())
        if not dry_run:
            confirm(f"Raise {words}? This cannot be undone, and nodes of older versions cannot join any more.", yes=yes)
        bus.features.upgrade(wanted, dry_run=dry_run)
    output.say(f"{'would raise' if dry_run else 'raised'} {words}")


def _level(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise typer.BadParameter(f"the level of {name} must be a number, not {text!r}", param_hint="FEATURE=LEVEL")
    return int(text)
