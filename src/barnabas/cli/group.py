"""`barnabas group`: list, describe, reset, delete."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli import connection, output
from barnabas.cli.confirming import Yes, confirm
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Group, complete_group, complete_topic
from barnabas.cli.timestamps import parse_timestamp

if TYPE_CHECKING:
    from barnabas.client import GroupDetails

app = typer.Typer(
    name="group", help="List, describe, reset and delete consumer groups and share groups.", no_args_is_help=True
)


@app.command("list")
def list_(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """List the groups."""
    with connection.ask_bus(bootstrap, connection.LIST_TIMEOUT_S) as bus:
        groups = bus.groups()
    rows = [(group.name, group.state, group.type) for group in groups]
    output.print_found(groups, ("group", "state", "type"), rows, as_json=as_json)


@app.command()
def describe(name: Group, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show a group's members and its lag, in records and in seconds."""
    with connection.ask_bus(bootstrap) as bus:
        details = bus.describe_group(name)
    if as_json:
        output.print_json(_as_json(details))
    else:
        _print_details(details)


def _as_json(details: "GroupDetails") -> dict[str, Any]:
    found = dataclasses.asdict(details)
    for member in found["members"]:
        member["partitions"] = [{"topic": topic, "partition": partition} for topic, partition in member["partitions"]]
    return found


def _print_details(details: "GroupDetails") -> None:
    assignor = f", assignor {details.assignor}" if details.assignor else ""
    output.say(f"group {output.printable(details.name)}: {details.state}, {details.type}{assignor}")
    rows = [
        (
            each.topic,
            each.partition,
            "-" if each.offset is None else each.offset,
            "-" if each.end_offset is None else each.end_offset,
            "-" if each.lag is None else each.lag,
            "-" if each.lag_seconds is None else f"{each.lag_seconds:.1f}",
            each.member_id or "-",
        )
        for each in details.partitions
    ]
    columns = ("topic", "partition", "offset", "end offset", "lag", "lag in seconds", "member")
    output.print_table(columns, rows)
    members = [
        (member.member_id, member.client_id, member.host, member.instance_id or "-", len(member.partitions))
        for member in details.members
    ]
    if members:
        output.print_table(("member", "client", "host", "instance", "partitions"), members)


@app.command()
def reset(  # noqa: PLR0913, PLR0917 - one for each option
    name: Group,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the oldest record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end: only new records.")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, help="To this offset.")] = None,
    to_timestamp: Annotated[
        str | None, typer.Option(help="To this time: milliseconds since 1970, or ISO 8601 (local time without a zone).")
    ] = None,
    shift_by: Annotated[int | None, typer.Option(help="By this many records; a negative number goes back.")] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this topic (repeatable); default: all topics the group has offsets for.",
            autocompletion=complete_topic,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, without changing anything.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Move the committed offsets of a group that has no members."""
    given = (to_earliest, to_latest, to_offset is not None, to_timestamp is not None, shift_by is not None)
    if sum(given) != 1:
        raise typer.BadParameter(
            "give exactly one of --to-earliest, --to-latest, --to-offset, --to-timestamp and --shift-by"
        )
    if not dry_run:
        confirm(f"Overwrite the committed offsets of group {name}?", yes=yes)
    with connection.ask_bus(bootstrap) as bus:
        changes = bus.reset_group(
            name,
            to="earliest" if to_earliest else "latest" if to_latest else to_offset,
            timestamp_ms=None if to_timestamp is None else parse_timestamp(to_timestamp, "--to-timestamp"),
            shift_by=shift_by,
            topic=topic,
            dry_run=dry_run,
        )
    rows = [(each.topic, each.partition, "-" if each.before is None else each.before, each.after) for each in changes]
    columns = ("topic", "partition", "before", "would be" if dry_run else "now")
    output.print_found(changes, columns, rows, as_json=as_json)


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(help="The groups to delete.", autocompletion=complete_group)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    yes: Yes = False,
) -> None:
    """Delete groups that have no members, and their committed offsets."""
    confirm(f"Delete the groups {', '.join(names)} and their committed offsets?", yes=yes)
    with connection.ask_bus(bootstrap) as bus:
        for name in names:
            bus.delete_group(name)
            output.say(f"group {name}: deleted")
