"""``barnabas console``: the web console, a process of its own on the HTTP API of a node."""

from importlib.util import find_spec
from typing import Annotated
from urllib.parse import urlsplit

import typer

from barnabas.core.errors import InvalidConfig

API_DEFAULT = "http://127.0.0.1:9644"
LISTEN_DEFAULT = "127.0.0.1:9645"


def console(
    api: Annotated[str, typer.Option(metavar="URL", help="The HTTP API of a node.")] = API_DEFAULT,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="The address to listen on.")] = LISTEN_DEFAULT,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A host name that browsers use for the console (repeatable)."),
    ] = None,
) -> None:
    """Serve the web console, until Ctrl-C or SIGTERM."""
    check_installed()
    host, port = address_of(listen)
    from barnabas.console.serving import run

    run(api_url=api_of(api), host=host, port=port, names=name or ())


def check_installed() -> None:
    """Refuse without the extra."""
    if find_spec("nicegui") is None:
        raise InvalidConfig("the console is not installed; run: pip install 'barnabas[console]'")


def address_of(listen: str) -> tuple[str, int]:
    """The host and the port of HOST:PORT."""
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise InvalidConfig(f"--listen must be HOST:PORT, not {listen!r}")
    return host.strip("[]"), int(port)


def api_of(url: str) -> str:
    """The address of the API; refused if it is none."""
    try:
        found = urlsplit(url)
        is_good = found.scheme in ("http", "https") and bool(found.hostname) and not found.username
        _ = found.port
    except ValueError:
        is_good = False
    if not is_good:
        raise InvalidConfig(f"--api must be a URL such as {API_DEFAULT}, not {url!r}")
    return url
