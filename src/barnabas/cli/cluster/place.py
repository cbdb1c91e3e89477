"""The directory of a cluster of this machine, as the commands name it, and what they say while they work on it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from barnabas.cli import output

if TYPE_CHECKING:
    from barnabas.testing.cluster.local import LocalCluster
    from barnabas.testing.cluster.starting import Starter

Directory: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        envvar="BARNABAS_CLUSTER_DIR",
        help="The directory of the cluster.",
        show_default="~/.local/share/barnabas-cluster",
    ),
]
Bootstrap: TypeAlias = Annotated[
    str | None,
    typer.Option("--bootstrap", "-b", help="Addresses of a cluster's brokers, HOST:PORT,..., instead of --dir."),
]
NodeIds: TypeAlias = Annotated[list[int], typer.Argument(metavar="NODE...", help="The ids of the nodes.")]


def default_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where a cluster is whose directory nobody names: beside the data of a single node."""
    home = environ.get("XDG_DATA_HOME", "")
    return (Path(home) if home else Path.home() / ".local" / "share") / "barnabas-cluster"


def open_cluster(directory: Path | None, starter: "Starter | None" = None) -> "LocalCluster":
    """The cluster in a directory, which need not exist yet; each step is printed."""
    from barnabas.testing.cluster.local import LocalCluster
    from barnabas.testing.cluster.starting import Detached

    return LocalCluster(directory or default_dir(), starter or Detached(), output.say)


def bootstrap_of(directory: Path | None, bootstrap: str | None) -> str:
    """The addresses of a cluster: those that were given, or of the one in a directory."""
    return open_cluster(directory).bootstrap if bootstrap is None else bootstrap
