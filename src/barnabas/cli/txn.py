"""`barnabas txn`: list, describe, abort, hanging."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli import connection, output
from barnabas.cli.confirming import Yes, confirm
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, complete_topic

if TYPE_CHECKING:
    from barnabas.client import TransactionDetails

app = typer.Typer(
    name="txn", help="List, describe and abort transactions, and find hanging ones.", no_args_is_help=True
)

_HANGING_S = 900.0  # as in the SDK, which is not loaded for --help


def complete_transactional_id(ctx: typer.Context, incomplete: str) -> list[str]:
    """Transactional ids for the shell. A failing completion prints nothing."""
    try:
        with connection.open_bus(ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP, 2.0) as bus:
            ids = [each.transactional_id for each in bus.transactions()]
        return [each for each in ids if each.startswith(incomplete)]
    except Exception:
        return []


@app.command("list")
def list_(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    state: Annotated[
        list[str] | None, typer.Option(help="Only in this state (repeatable): Ongoing, CompleteCommit, ...")
    ] = None,
    longer_than: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Only transactions open for longer.")
    ] = None,
    pattern: Annotated[str | None, typer.Option(help="Only ids that match this regular expression.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the transactional ids and the states of their transactions."""
    with connection.ask_bus(bootstrap, connection.LIST_TIMEOUT_S) as bus:
        found = bus.transactions(states=state or (), longer_than=longer_than, pattern=pattern)
    rows = [(each.transactional_id, each.state, each.producer_id, each.coordinator) for each in found]
    output.print_found(found, ("transactional id", "state", "producer id", "coordinator"), rows, as_json=as_json)


@app.command()
def describe(
    transactional_id: Annotated[
        str, typer.Argument(help="The transactional id.", autocompletion=complete_transactional_id)
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show a transactional id: its producer, and the open transaction with its partitions."""
    with connection.ask_bus(bootstrap) as bus:
        details = bus.describe_transaction(transactional_id)
    if as_json:
        output.print_json(_as_json(details))
    else:
        _print_details(details)


def _as_json(details: "TransactionDetails") -> dict[str, Any]:
    partitions = [{"topic": topic, "partition": partition} for topic, partition in details.partitions]
    return {**dataclasses.asdict(details), "partitions": partitions}


def _print_details(details: "TransactionDetails") -> None:
    age = "" if details.age_seconds is None else f", open for {details.age_seconds:.1f} s"
    output.say(f"transactional id {output.printable(details.transactional_id)}: {details.state}{age}")
    columns = ("producer id", "producer epoch", "timeout in ms", "start in ms", "coordinator")
    start = "-" if details.start_ms is None else details.start_ms
    row = (details.producer_id, details.producer_epoch, details.timeout_ms, start, details.coordinator)
    output.print_table(columns, [row])
    if details.partitions:
        output.print_table(("topic", "partition"), details.partitions)


@app.command()
def hanging(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    topic: Annotated[str | None, typer.Option(help="Only in this topic.", autocompletion=complete_topic)] = None,
    older_than: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Only transactions whose producer has been idle for longer.")
    ] = _HANGING_S,
    as_json: AsJson = False,
) -> None:
    """Find transactions that are open in a partition and that no coordinator will ever end."""
    with connection.ask_bus(bootstrap) as bus:
        found = bus.hanging_transactions(topic, older_than=older_than)
    rows = [
        (
            each.topic,
            each.partition,
            each.start_offset,
            each.producer_id,
            each.producer_epoch,
            f"{each.age_seconds:.0f}",
            each.transactional_id or "-",
        )
        for each in found
    ]
    columns = ("topic", "partition", "start offset", "producer id", "producer epoch", "age in seconds", "id")
    output.print_found(found, columns, rows, as_json=as_json)


@app.command()
def abort(
    transactional_id: Annotated[
        str | None, typer.Argument(help="The transactional id.", autocompletion=complete_transactional_id)
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    topic: Annotated[
        str | None, typer.Option(help="The topic of a hanging transaction.", autocompletion=complete_topic)
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="The partition of a hanging transaction.")] = None,
    start_offset: Annotated[int | None, typer.Option(min=0, help="The start offset of a hanging transaction.")] = None,
    yes: Yes = False,
) -> None:
    """Abort the transaction of a transactional id and fence its producer; or abort a hanging one (see: txn hanging)."""
    place = (topic, partition, start_offset)
    if transactional_id is not None and place == (None, None, None):
        confirm(f"Abort the transaction of {transactional_id} and fence its producer?", yes=yes)
        with connection.ask_bus(bootstrap) as bus:
            bus.abort_transaction(transactional_id)
        output.say(f"transactional id {output.printable(transactional_id)}: aborted and fenced")
    elif transactional_id is None and topic is not None and partition is not None and start_offset is not None:
        confirm(f"Abort the transaction in {topic}-{partition} at offset {start_offset}?", yes=yes)
        with connection.ask_bus(bootstrap) as bus:
            bus.abort_hanging_transaction(topic, partition, start_offset)
        output.say(f"{output.printable(topic)}-{partition}: the transaction since offset {start_offset} was aborted")
    else:
        raise typer.BadParameter("give a transactional id, or --topic, --partition and --start-offset")
