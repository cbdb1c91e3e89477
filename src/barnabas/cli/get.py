"""`barnabas get`: one record by its id."""

from typing import Annotated

import typer

from barnabas.cli import connection, output
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, Bootstrap, Topic
from barnabas.cli.consume import render_option, write_records
from barnabas.cli.formatting import FORMAT_HELP


def get(
    topic: Topic,
    partition: Annotated[int, typer.Argument(min=0, help="The partition.")],
    offset: Annotated[int, typer.Argument(min=0, help="The offset.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    format_: Annotated[str, typer.Option("--format", "-f", help=FORMAT_HELP)] = r"%v\n",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Print the record at an offset of a partition."""
    render = render_option("json" if as_json else format_)
    with connection.ask_bus(bootstrap) as bus:
        record = bus.get(topic, partition, offset)
    with output.quiet_end():
        write_records([record], render, at_once=True)
