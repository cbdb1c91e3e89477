"""``barnabas console``: the web console, a process of its own on the HTTP API of a node."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from barnabas.core.errors import InvalidConfig

API_DEFAULT = "http://127.0.0.1:9644"
LISTEN_DEFAULT = "127.0.0.1:9645"


def console(
    api: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="The HTTP API of a node; with several (repeatable) the next is asked when one does not answer.",
            show_default=API_DEFAULT,
        ),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="The directory of a cluster of this machine, instead of --api.")
    ] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="The address to listen on.")] = LISTEN_DEFAULT,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A host name that browsers use for the console (repeatable)."),
    ] = None,
    root_path: Annotated[
        str,
        typer.Option(metavar="PATH", help="The path below which a proxy serves the console, as in /barnabas."),
    ] = "",
) -> None:
    """Serve the web console, until Ctrl-C or SIGTERM."""
    check_installed()
    host, port = address_of(listen)
    root = root_of(root_path)
    if directory is not None and api:
        raise InvalidConfig("give --api or --dir, not both")
    urls = [API_DEFAULT] if directory is None else _apis_in(directory)
    from barnabas.console.serving import run

    run(api_urls=[api_of(url) for url in api or urls], host=host, port=port, names=name or (), root_path=root)


def _apis_in(directory: Path) -> list[str]:
    """The APIs of the nodes of a cluster of this machine."""
    from barnabas.cli.cluster.place import open_cluster

    found = open_cluster(directory).http
    if not found:
        raise InvalidConfig(f"the cluster in {directory} serves no HTTP: make one with 'barnabas cluster up'")
    return found


def root_of(path: str) -> str:
    """A path of a site without its last slash; refused if it is none."""
    found = path.rstrip("/")
    if found and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", found):
        raise InvalidConfig(f"--root-path must be a path such as /barnabas, not {path!r}")
    return found


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
