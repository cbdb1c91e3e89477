"""The bus that a command connects to: the option for its address, opening it, and shell completion of topic names.

Imports the SDK only when a bus is opened, so that `--help` is fast.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from barnabas.cli import output
from barnabas.core.errors import BarnabasError, RequestTimedOut

if TYPE_CHECKING:
    from barnabas.client import Bus

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
_COMPLETION_TIMEOUT_S = 2.0
_SEE_ITS_LOG = "the broker's log may say why it takes long"
LIST_TIMEOUT_S = 10.0
"""For a list that every broker answers its part of: longer than it takes to fence one that has died."""

Bootstrap: TypeAlias = Annotated[
    str,
    typer.Option("--bootstrap", "-b", envvar="BARNABAS_BOOTSTRAP", help="Addresses of brokers: HOST:PORT,..."),
]


def open_bus(bootstrap: str, timeout_s: float = 30.0, config: Mapping[str, str] | None = None) -> "Bus":
    """Connect to the bus at these addresses; a broker has answered when this returns. `config` is librdkafka's."""
    from barnabas.client import Bus
    from barnabas.client.contact import reach

    reach(bootstrap)
    return Bus(bootstrap, client_id="barnabas-cli", timeout=timeout_s, config=config)


@contextlib.contextmanager
def ask_bus(bootstrap: str, timeout_s: float = 30.0) -> Iterator["Bus"]:
    """Connect to the bus for requests that are answered at once; print what is waited for if they are not.

    Where they are not answered in the end, the refusal says what is wrong with the cluster, as far as can be found.
    """
    waiting = f"waiting for an answer from {bootstrap}"
    find_wrong = functools.cache(lambda: why_slow(bootstrap))
    with (
        output.said_when_slow(lambda: f"{waiting}; {find_wrong() or _SEE_ITS_LOG}"),
        open_bus(bootstrap, timeout_s) as bus,
    ):
        try:
            yield bus
        except BarnabasError as error:
            _explain(error, find_wrong)
            raise


def why_slow(bootstrap: str) -> str | None:
    """What is wrong with the cluster, for a line about something that takes long; None if nothing is found."""
    from barnabas.client.diagnosis import what_is_wrong

    return what_is_wrong(bootstrap)


def _explain(error: BarnabasError, find_wrong: Callable[[], str | None]) -> None:
    """Raise a timeout again with what is wrong with the cluster, if that is found."""
    from barnabas.client.errors import IS_IT_RUNNING, Unreachable

    if isinstance(error, Unreachable | RequestTimedOut):
        wrong = find_wrong()
        if wrong is not None:
            raise type(error)(f"{str(error).removesuffix(IS_IT_RUNNING)}; {wrong}") from None


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topic names for the shell. A failing completion prints nothing."""
    try:
        bootstrap = ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP
        with open_bus(bootstrap, _COMPLETION_TIMEOUT_S) as bus:
            return [topic.name for topic in bus.list_topics() if topic.name.startswith(incomplete)]
    except Exception:
        return []


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """Group names for the shell. A failing completion prints nothing."""
    try:
        bootstrap = ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP
        with open_bus(bootstrap, _COMPLETION_TIMEOUT_S) as bus:
            return [group.name for group in bus.groups() if group.name.startswith(incomplete)]
    except Exception:
        return []


Group: TypeAlias = Annotated[str, typer.Argument(help="The group.", autocompletion=complete_group)]
Topic: TypeAlias = Annotated[str, typer.Argument(help="The topic.", autocompletion=complete_topic)]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def parse_pairs(pairs: list[str], option: str) -> dict[str, str]:
    """`name=value` options as a dictionary; a usage error if one has no name or no equals sign."""
    parsed = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint=option)
        parsed[name] = value
    return parsed
