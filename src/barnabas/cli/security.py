"""`barnabas security`: what a cluster needs to be secured, for people without a PKI."""

from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli import output
from barnabas.cli.connection import AsJson

app = typer.Typer(
    name="security", help="Make certificates, secrets and users for a secured cluster.", no_args_is_help=True
)


@app.callback()
def _security() -> None:
    """Keeps `init` a command of its own, though it is the only one."""


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(help="Where to write everything; made if it does not exist.")],
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST[:PORT]",
            help="A node (repeatable). Default: one, on 127.0.0.1:9092. It also uses the next port.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a private CA, a certificate for each node, an admin user and a client file; print how to use them."""
    from barnabas.cli.security_files import make_files, parse_node

    nodes = [parse_node(number, text) for number, text in enumerate(node or ["127.0.0.1:9092"], start=1)]
    made = make_files(directory, nodes)
    if as_json:
        output.print_json(
            {
                "cluster_id": made.cluster_id,
                "nodes": [str(each) for each in made.configs],
                "users": str(made.users),
                "client_config": str(made.client),
            }
        )
        return
    config = made.configs[0] if len(made.configs) == 1 else made.configs[0].parent.parent / "node-N/server.properties"
    each = "" if len(made.configs) == 1 else f"   # for N = 1 to {len(made.configs)}, each on its machine"
    output.say(f"barnabas format --config {config} --add-scram-file {made.users}{each}")
    output.say(f"barnabas serve --config {config}{each}")
    output.say(f"barnabas topic list --command-config {made.client}")
