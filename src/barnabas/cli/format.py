"""`barnabas format`: make a data directory part of a cluster before its node first starts."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli import output
from barnabas.cli.connection import AsJson
from barnabas.core.errors import InvalidConfig

if TYPE_CHECKING:
    from barnabas.core.metadata.formation import MetaProperties
    from barnabas.services.settings.broker_config import BrokerConfig


def format_(  # noqa: PLR0913, PLR0917 - one for each option
    cluster_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The id of the cluster; the same on all of its nodes.")
    ] = None,
    new_cluster_id: Annotated[
        bool, typer.Option("--new-cluster-id", help="Only print an id for a new cluster.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="The configuration file of the node, TOML or Java properties.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The data directory.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting (repeatable).")
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="This node is the first voter; others can be added later.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            metavar="ID@HOST:PORT:DIRECTORY-ID,...", help="All first voters; the same list on each of these nodes."
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", help="This node joins a cluster that has its voters.")
    ] = False,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MECHANISM=[name=USER,password=PASSWORD]",
            help="A first user of a new cluster (repeatable; the same on each voter). Others can see it in the list of "
            "processes: --add-scram-file is better.",
        ),
    ] = None,
    add_scram_file: Annotated[
        Path | None,
        typer.Option(help="A file with such users, one on a line; - reads them from standard input."),
    ] = None,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", help="Do nothing if the directory is formatted for this cluster.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make the data directory of a node part of a cluster, before the node first starts.

    A single node needs no format: `barnabas serve` does it by itself. In a cluster of several, format each node with
    the same cluster id. Unless controller.quorum.voters is set, say who votes first.
    """
    from barnabas.config import load
    from barnabas.core.uuids import id_text
    from barnabas.runtime.dice import SystemDice

    if new_cluster_id:
        drawn = id_text(SystemDice().uuid())
        output.print_json({"cluster_id": drawn}) if as_json else output.say(drawn)
        return
    overrides = {} if data_dir is None else {"log.dirs": str(data_dir)}
    read = load(config, settings or [], os.environ, overrides)
    given = cluster_id or read.cluster_id
    if given is None:
        raise InvalidConfig("--cluster-id is missing: barnabas format --new-cluster-id prints an id for a new cluster")
    if read.cluster_id not in (None, given):
        raise InvalidConfig(f"--cluster-id is {given}, but cluster.id is {read.cluster_id}: use one of them")
    meta, voters, is_done = _format(
        read,
        given,
        is_standalone=standalone,
        controllers=initial_controllers,
        joins_later=no_initial_controllers,
        may_be_formatted=ignore_formatted,
        users=[*(add_scram or []), *_read_users(add_scram_file)],
    )
    _report(read.log_dirs[0], meta, voters, is_done=is_done, as_json=as_json)


def _read_users(file: Path | None) -> list[str]:
    """The users in a file, one on a line."""
    if file is None:
        return []
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidConfig(f"cannot read {file}: {error.strerror}") from None
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _format(
    config: "BrokerConfig",
    cluster_id: str,
    *,
    is_standalone: bool,
    controllers: str | None,
    joins_later: bool,
    may_be_formatted: bool,
    users: Sequence[str] = (),
) -> tuple["MetaProperties", list[int], bool]:
    """Format; the identity, the voters that were written, and whether anything was."""
    from barnabas.core.metadata.formation import MetaProperties, check_belongs
    from barnabas.node import check_data_dirs
    from barnabas.runtime.dice import SystemDice
    from barnabas.runtime.dir_lock import DirLock
    from barnabas.runtime.disk import OsDisk
    from barnabas.services import formatting
    from barnabas.services.formation import place_of

    check_data_dirs(config)
    path, disk, directory_id = config.log_dirs[0], OsDisk(), SystemDice().uuid()
    voters = formatting.initial_voters(
        config, directory_id, is_standalone=is_standalone, controllers=controllers, joins_later=joins_later
    )
    records = formatting.make_users(users, SystemDice())
    lock = DirLock(path)
    lock.take()
    try:
        found = formatting.check_unformatted(disk, path)
        if found is not None:
            if not may_be_formatted:
                raise InvalidConfig(
                    f"{path} is already formatted, for node {found.node_id} of cluster {found.cluster_id}: name "
                    "another --data-dir, or use --ignore-formatted to leave it as it is"
                )
            check_belongs(found, place_of(config)._replace(cluster_id=cluster_id))
            return found, [], False
        given_id = formatting.directory_id_in(voters, config.node_id)
        meta = MetaProperties(cluster_id, config.node_id, given_id or directory_id)
        formatting.format_directory(disk, path, meta, voters, records)
        return meta, list(voters.node_ids), True
    finally:
        lock.release()


def _report(path: str, meta: "MetaProperties", voters: list[int], *, is_done: bool, as_json: bool) -> None:
    from barnabas.core.uuids import id_text

    directory_id = id_text(meta.directory_id)
    if as_json:
        output.print_json(
            {
                "data_dir": path,
                "cluster_id": meta.cluster_id,
                "node_id": meta.node_id,
                "directory_id": directory_id,
                "voters": voters,
                "formatted": is_done,
            }
        )
        return
    who = f"node {meta.node_id} of cluster {meta.cluster_id}, directory id {directory_id}"
    first = f"; first voters: {', '.join(map(str, voters))}" if voters else ""
    output.say(f"{path}: formatted for {who}{first}" if is_done else f"{path}: already formatted for {who}")
