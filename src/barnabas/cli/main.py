"""The ``barnabas`` command: its options, its commands and how it reports failures.

Exit codes: 0 done; 1 refused or failed, with one line on stderr; 2 usage error, or a configuration that ``serve``
cannot run with; 130 or 143 when Ctrl-C or SIGTERM ended a command before it was done; 74 (EX_IOERR) when the data
directory of ``serve`` is gone or failed. A refusal (a ``BarnabasError``) never shows a traceback; anything else is a
bug, and does. A closed pipe (``| head``) is not a failure.

A command imports what it needs in its own body, so that ``barnabas --help`` does not load a broker. Nor does a node
load the commands: `entry` starts one without this module, unless its options are unusual.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

if __name__ == "__main__":  # as the installed command: before the rest is loaded
    from barnabas.cli.entry import main as enter

    enter()
    sys.exit()

import typer
from typer.main import get_command

from barnabas.cli import (
    acl,
    config,
    consume,
    get,
    group,
    layout,
    output,
    pipeline,
    produce,
    queue,
    quota,
    security,
    signals,
    topic,
    txn,
    user,
)
from barnabas.cli.client_config import add_client_option
from barnabas.cli.cluster import commands as cluster
from barnabas.cli.console import console as console_command
from barnabas.cli.format import format_
from barnabas.cli.refusals import exit_code_of, say_refused
from barnabas.core.errors import BarnabasError, InvalidConfig

app = typer.Typer(
    name="barnabas",
    help="A distributed commit log and message bus that speaks the Kafka protocol.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Panels break words where there is no room for them.
    rich_markup_mode="rich" if layout.terminal_width() >= layout.WIDE else None,
)
app.add_typer(cluster.app)
app.add_typer(topic.app)
app.add_typer(config.app)
app.add_typer(group.app)
app.add_typer(queue.app)
app.add_typer(txn.app)
app.add_typer(acl.app)
app.add_typer(quota.app)
app.add_typer(pipeline.app)
app.add_typer(user.app)
app.add_typer(security.app)
app.command()(produce.produce)
app.command()(consume.consume)
app.command()(get.get)
app.command("format")(format_)
app.command("console")(console_command)


def _print_version(asked: bool) -> None:
    if not asked:
        return
    from importlib.metadata import version

    typer.echo(f"barnabas {version('barnabas')}")
    raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Options of the whole command; their callbacks do the work."""


@app.command()
def demo(
    orders: Annotated[int, typer.Option(min=1000, help="Number of orders in the first part, one broker.")] = 100_000,
    seconds: Annotated[float, typer.Option(min=1, help="How long orders stream into the pipeline.")] = 20,
    rate: Annotated[int, typer.Option(min=1, help="Orders per second into the pipeline.")] = 2_000,
    cluster: Annotated[bool, typer.Option(help="Run the second part, three nodes of which one is killed.")] = True,
    pipeline: Annotated[bool, typer.Option(help="Run the third part, the pipeline on Spark.")] = True,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="Keep the data, in this directory.")] = None,
) -> None:
    """See it work: a broker is killed and loses nothing, a leader is killed and another node leads, then a pipeline on
    Spark counts every order once.
    """
    from barnabas.cli.demo import run as run_demo

    run_demo(
        orders=orders,
        seed=seed,
        seconds=seconds,
        rate=rate,
        keep=keep,
        with_cluster=cluster,
        with_pipeline=pipeline,
    )


@app.command()
def serve(
    config: Annotated[
        Path | None, typer.Option(help="A configuration file with Kafka's setting names, TOML or Java properties.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The data directory.")] = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="The address to listen on.")] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The address that clients are told to use.")
    ] = None,
    node_id: Annotated[int | None, typer.Option(help="The id of this node.")] = None,
    rack: Annotated[str | None, typer.Option(help="The rack of this node.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting (repeatable).")
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Use more cores: so many nodes here, started and stopped as one, with node ids and ports in a row.",
        ),
    ] = 1,
    console: Annotated[bool, typer.Option("--console", help="Serve the web console, too.")] = False,
    console_listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="The address of that console: the port after those of HTTP, 9645 for one node, if left out.",
        ),
    ] = None,
) -> None:
    """Run a broker that Kafka clients can use, until Ctrl-C or SIGTERM."""
    from barnabas.cli import serve as serving

    options = serving.ServeOptions(
        config,
        data_dir,
        listen,
        advertise,
        node_id,
        rack,
        tuple(settings or ()),
        processes,
        console,
        console_listen,
    )
    try:
        serving.serve_with(options)
    except InvalidConfig as refusal:
        say_refused(refusal)
        raise typer.Exit(exit_code_of(refusal)) from None


def run(commands: typer.Typer, arguments: Sequence[str] | None = None) -> None:
    """Run a command line (this process's own unless ``arguments`` are given) and exit with its code."""
    try:
        with output.quiet_pipe():
            _run(commands, arguments)
    except SystemExit as leaving:
        if leaving.code == signals.INTERRUPTED:
            leaving.code = signals.exit_code()
        elif isinstance(leaving.__context__, BrokenPipeError):  # typer's way of saying so
            leaving.code = 0
        raise


def _run(commands: typer.Typer, arguments: Sequence[str] | None) -> None:
    command = get_command(commands)
    add_client_option(command)
    try:
        command(arguments, prog_name="barnabas")
    except BarnabasError as refusal:
        say_refused(refusal)
        sys.exit(1 if isinstance(refusal, InvalidConfig) else exit_code_of(refusal))


def main() -> None:
    if layout.terminal_width() < layout.WIDE:
        from barnabas.cli.help_text import use_narrow_help

        use_narrow_help()
    signals.interrupt_at_sigterm()
    run(app)
