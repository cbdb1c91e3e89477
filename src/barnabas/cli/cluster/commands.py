"""The commands of `barnabas cluster`."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli import output
from barnabas.cli.cluster import recovering
from barnabas.cli.cluster.place import Bootstrap, Directory, NodeIds, bootstrap_of, open_cluster
from barnabas.cli.confirming import Yes, confirm
from barnabas.cli.connection import AsJson, parse_pairs
from barnabas.cli.console import address_of, check_installed
from barnabas.core.errors import InvalidConfig

if TYPE_CHECKING:
    from barnabas.cli.cluster.moving import Mover
    from barnabas.core.metadata.rebalancing import Move
    from barnabas.testing.cluster.local import LocalCluster

app = typer.Typer(
    name="cluster", help="Run a cluster of several nodes on this machine; look at any cluster.", no_args_is_help=True
)

app.command("recover-quorum")(recovering.recover_quorum)


@app.command()
def up(
    nodes: Annotated[
        int | None, typer.Option(min=1, max=99, help="Number of nodes of a new cluster.  [default: 3]")
    ] = None,
    directory: Directory = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="The first port: two for each node, then one each for HTTP. Default: any that are free.",
        ),
    ] = None,
    racks: Annotated[str | None, typer.Option(help="Racks for the nodes, in turn: a,b,c.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of every node (repeatable).")
    ] = None,
    console: Annotated[
        bool, typer.Option("--console", help="Serve the web console, too, on the HTTP of all nodes.")
    ] = False,
    console_listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The address of that console: 127.0.0.1:9645, or a free port."),
    ] = None,
    foreground: Annotated[
        bool,
        typer.Option("--foreground", help="Stay, and stop the nodes at Ctrl-C. Default: they go on by themselves."),
    ] = False,
) -> None:
    """Start a cluster: a new one, or the nodes of an existing one that do not run."""
    from barnabas.testing.cluster.starting import Detached, Kept

    if console:
        check_installed()
        if console_listen is not None:
            address_of(console_listen)
    kept = Kept() if foreground else None
    try:
        cluster = open_cluster(directory, kept or Detached())
        if cluster.directory.is_there:
            _check_unchanged(cluster, nodes=nodes, port=port, racks=racks, settings=settings)
        else:
            given = parse_pairs(settings or [], "--set")
            cluster.create(
                nodes or 3, port=port, racks=racks.split(",") if racks else (), settings=given, with_http=True
            )
        _start_all(cluster)
        if console:
            cluster.start_console(console_listen)
        if cluster.http:
            output.say(f"HTTP: {' '.join(cluster.http)}")
        output.say(f"cluster in {cluster.directory.path}; for clients: --bootstrap {cluster.bootstrap}")
        if kept is not None:
            _stay(cluster)
    finally:
        if kept is not None:
            kept.close()


def _check_unchanged(
    cluster: "LocalCluster",
    *,
    nodes: int | None,
    port: int | None,
    racks: str | None,
    settings: list[str] | None,
) -> None:
    """Refuse to change by `up` what is decided when a cluster is made."""
    count = len(cluster.state.nodes)
    if nodes not in (None, count):
        raise InvalidConfig(
            f"--nodes is {nodes}, but the cluster in {cluster.directory.path} has {count}: use 'barnabas cluster add' "
            "or 'remove', or name another --dir"
        )
    if port is not None or racks is not None or settings:
        raise InvalidConfig(
            f"there is a cluster in {cluster.directory.path}: --port, --racks and --set are for a new one; name "
            "another --dir, or delete it with 'barnabas cluster down --delete'"
        )


def _start_all(cluster: "LocalCluster") -> None:
    """Start the nodes that do not run; if one of them cannot, leave none of them behind."""
    from barnabas.testing.cluster.local import condition_of
    from barnabas.testing.cluster.processes import Condition

    before = {each.node_id for each in cluster.state.nodes if condition_of(each) is not Condition.STOPPED}
    try:
        cluster.start()
    except BaseException:
        for node in cluster.state.nodes:
            if node.node_id not in before and node.process is not None:
                node.process.kill()
        raise


def _stay(cluster: "LocalCluster") -> None:
    output.say("press Ctrl-C to stop the nodes")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        output.say("stopping")
        cluster.stop_all()


@app.command()
def status(directory: Directory = None, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """Show the nodes, the quorum that commits metadata, and how many partitions each node leads."""
    from barnabas.cli.cluster.status import describe_at, describe_local, print_status

    found = describe_local(open_cluster(directory)) if bootstrap is None else describe_at(bootstrap)
    output.print_json(found.as_json()) if as_json else print_status(found)


@app.command()
def start(nodes: NodeIds, directory: Directory = None) -> None:
    """Start nodes that do not run."""
    open_cluster(directory).start(*nodes)


@app.command()
def stop(nodes: NodeIds, directory: Directory = None) -> None:
    """Stop nodes cleanly: they hand over what others can lead, then end."""
    cluster = open_cluster(directory)
    for node_id in nodes:
        cluster.stop(node_id)
        output.say(f"node {node_id}: stopped")


@app.command()
def kill(nodes: NodeIds, directory: Directory = None) -> None:
    """End nodes at once (SIGKILL), as a power cut does."""
    cluster = open_cluster(directory)
    for node_id in nodes:
        cluster.kill(node_id)
        output.say(f"node {node_id}: killed")


@app.command()
def pause(nodes: NodeIds, directory: Directory = None) -> None:
    """Freeze nodes (SIGSTOP): they keep their connections and answer nothing."""
    cluster = open_cluster(directory)
    for node_id in nodes:
        cluster.pause(node_id)
        output.say(f"node {node_id}: paused")


@app.command()
def resume(nodes: NodeIds, directory: Directory = None) -> None:
    """Let paused nodes go on."""
    cluster = open_cluster(directory)
    for node_id in nodes:
        cluster.resume(node_id)
        output.say(f"node {node_id}: resumed")


@app.command()
def add(
    directory: Directory = None, rack: Annotated[str | None, typer.Option(help="The rack of the new node.")] = None
) -> None:
    """Add a node: it joins, and votes as soon as it has caught up, while there are fewer than 5 voters."""
    cluster = open_cluster(directory)
    node_id = cluster.add(rack)
    output.say(f"node {node_id}: added")


@app.command()
def remove(
    node_id: Annotated[int, typer.Argument(metavar="NODE", help="The id of the node.")],
    directory: Directory = None,
    bootstrap: Bootstrap = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also if the majority is lost, or replicas of partitions are.")
    ] = False,
) -> None:
    """Remove a node for good: it votes no more, stops and is unregistered. Its data stays on disk.

    Move what it holds to other nodes first: 'barnabas cluster decommission'. With --bootstrap, for a cluster on several
    machines: stop the node there, too.
    """
    if bootstrap is not None:
        from barnabas.cli.cluster.remote import remove_at

        remove_at(bootstrap, node_id, is_forced=force)
        output.say(f"node {node_id}: removed")
        return
    cluster = open_cluster(directory)
    cluster.remove(node_id, is_forced=force)
    output.say(f"node {node_id}: removed; its data is still in {cluster.directory.node_dir(node_id)}")


AtOnce = Annotated[int, typer.Option(min=1, help="How many partitions are moved at the same time.")]
Throttle = Annotated[
    int | None,
    typer.Option(min=1, metavar="BYTES", help="The most bytes a second that a broker sends or fetches for this."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be moved, and move nothing.")]


@app.command("rebalance")
def rebalance_(
    directory: Directory = None,
    bootstrap: Bootstrap = None,
    dry_run: DryRun = False,
    at_once: AtOnce = 10,
    throttle: Throttle = None,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """Spread replicas and leaders evenly over the nodes and racks, with as few copies as that takes.

    At the end preferred leaders are elected, as 'barnabas cluster elect-leaders' does.

    With --json, print the plan in the format of kafka-reassign-partitions.sh, and move nothing.
    """
    from barnabas.cli.cluster.moving import Mover

    mover = Mover(bootstrap_of(directory, bootstrap))
    is_done = _show_and_move(
        mover, mover.plan_rebalance(), dry_run=dry_run, at_once=at_once, throttle=throttle, as_json=as_json, yes=yes
    )
    if not as_json:
        mover.lead_evenly(dry_run=dry_run or not is_done)


@app.command()
def decommission(
    node_id: Annotated[int, typer.Argument(metavar="NODE", help="The id of the node.")],
    directory: Directory = None,
    bootstrap: Bootstrap = None,
    dry_run: DryRun = False,
    at_once: AtOnce = 10,
    throttle: Throttle = None,
    yes: Yes = False,
) -> None:
    """Move everything off a node, so that it can be removed. New topics may still be placed on it until it stops."""
    from barnabas.cli.cluster.moving import Mover

    mover = Mover(bootstrap_of(directory, bootstrap))
    is_moved = _show_and_move(
        mover,
        mover.plan_decommission(node_id),
        dry_run=dry_run,
        at_once=at_once,
        throttle=throttle,
        as_json=False,
        yes=yes,
    )
    if is_moved and mover.plan_decommission(node_id):
        output.warn(f"node {node_id} was given partitions meanwhile: run the command again")
    elif is_moved:
        # The command stops a node of this machine by itself.
        first = "stop it, and " if bootstrap is not None and mover.is_running(node_id) else ""
        place = "" if bootstrap is None else f" --bootstrap {bootstrap}"
        output.say(
            f"node {node_id} holds nothing any more: {first}remove it with 'barnabas cluster remove {node_id}{place}'"
        )


@app.command()
def reassign(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|TOPIC",
            help="A file in the format of kafka-reassign-partitions.sh; with --replicas, a topic.",
        ),
    ] = None,
    directory: Directory = None,
    bootstrap: Bootstrap = None,
    replicas: Annotated[int | None, typer.Option(min=1, help="The number of replicas that a topic is to have.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel all moves that are under way.")] = False,
    dry_run: DryRun = False,
    at_once: AtOnce = 10,
    throttle: Throttle = None,
    yes: Yes = False,
) -> None:
    """Move partitions to other nodes, or change the number of a topic's replicas."""
    from barnabas.cli.cluster.moving import Mover

    if (what is None) != cancel:
        raise typer.BadParameter("give a file, a topic with --replicas, or --cancel alone")
    mover = Mover(bootstrap_of(directory, bootstrap))
    if what is None:
        output.say(f"moves cancelled: {mover.cancel()}")
        return
    moves = mover.plan_file(Path(what)) if replicas is None else mover.plan_factor(what, replicas)
    _show_and_move(mover, moves, dry_run=dry_run, at_once=at_once, throttle=throttle, as_json=False, yes=yes)


@app.command("elect-leaders")
def elect_leaders_(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC|TOPIC-PARTITION]...", help="Only these topics or partitions. Default: all."),
    ] = None,
    directory: Directory = None,
    bootstrap: Bootstrap = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean", help="Elect any replica that runs, of partitions without a leader: records may be lost."
        ),
    ] = False,
    yes: Yes = False,
) -> None:
    """Have preferred leaders lead: the first replica of each partition, if it is in sync."""
    from barnabas.cli.cluster.electing import elect_leaders

    elect_leaders(bootstrap_of(directory, bootstrap), names or (), is_unclean=unclean, yes=yes)


@app.command()
def features(directory: Directory = None, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """Show the features of the cluster: the level of each in use, and those that there are."""
    from barnabas.cli.cluster.features import show_features

    show_features(bootstrap_of(directory, bootstrap), as_json=as_json)


@app.command()
def upgrade(
    levels: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FEATURE=LEVEL]...", help="Which ones. Default: all, to their highest levels."),
    ] = None,
    directory: Directory = None,
    bootstrap: Bootstrap = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; only say what would be done.")] = False,
    yes: Yes = False,
) -> None:
    """Raise the levels of features, once every node runs the new version. This cannot be undone."""
    from barnabas.cli.cluster.features import upgrade_features

    upgrade_features(bootstrap_of(directory, bootstrap), levels or (), dry_run=dry_run, yes=yes)


def _show_and_move(
    mover: "Mover",
    moves: "Sequence[Move]",
    *,
    dry_run: bool,
    at_once: int,
    throttle: int | None,
    as_json: bool,
    yes: bool,
) -> bool:
    """Print a plan, and carry it out if that is wanted; whether everything is where it is to be."""
    from barnabas.cli.cluster.moving import plan_json, print_plan

    if as_json:
        output.print_json(plan_json(moves))
        return False
    print_plan(moves)
    if moves and not dry_run:
        confirm(f"Move {len(moves)} partition{'s'[: len(moves) != 1]}?", yes=yes)
        mover.carry_out(moves, at_once=at_once, throttle=throttle)
    return not moves or not dry_run


@app.command()
def down(
    directory: Directory = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the cluster, with all its data.")] = False,
    yes: Yes = False,
) -> None:
    """Stop all nodes; `up` starts them again, unless the cluster is deleted."""
    cluster = open_cluster(directory)
    path: Path = cluster.directory.path
    count = len(cluster.state.nodes)
    if delete:
        confirm(f"Delete the cluster in {path} and all its data?", yes=yes)
    cluster.stop_all()
    output.say(f"{count} node{'s'[: count != 1]} stopped")
    if delete:
        cluster.directory.delete()
        output.say(f"{path}: deleted")
