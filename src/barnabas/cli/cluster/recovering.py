"""`barnabas cluster recover-quorum`: what is left when the majority of the voters is lost for good."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli import output
from barnabas.cli.confirming import Yes, confirm
from barnabas.cli.connection import AsJson
from barnabas.core.errors import StorageError

if TYPE_CHECKING:
    from barnabas.services.recovering import Survivor


def recover_quorum(
    data_dir: Annotated[Path, typer.Option(help="The data directory of the voter that is left; its node is stopped.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")] = False,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """Make a voter the only one, when the majority of the voters is lost for good.

    For a stopped node, on its data directory. Changes of metadata that only the lost voters had are lost: topics,
    settings, and who leads what. Never start the lost voters with their old data directories again.
    """
    from barnabas.runtime.clock import SystemClock
    from barnabas.runtime.dir_lock import DirLock
    from barnabas.runtime.disk import OsDisk
    from barnabas.services import recovering

    path = str(data_dir)
    if not data_dir.is_dir():
        raise StorageError(f"{path} is not a directory; name the data directory of a node that is stopped")
    lock = DirLock(path)
    lock.take()
    try:
        survivor = recovering.open_survivor(OsDisk(), path)
        try:
            lost = ", ".join(str(voter.key.node_id) for voter in survivor.recovery.lost)
            if not as_json:
                _warn(survivor, lost)
            if not dry_run:
                confirm(f"Make node {survivor.meta.node_id} the only voter, and give up the voters {lost}?", yes=yes)
                recovering.recover_quorum(survivor, now_ms=SystemClock().now_ms())
        finally:
            recovering.leave(survivor)
    finally:
        lock.release()
    _report(survivor, is_done=not dry_run, as_json=as_json)


def _warn(survivor: "Survivor", lost: str) -> None:
    node_id, end_offset = survivor.meta.node_id, survivor.recovery.append.base_offset
    output.warn(
        f"the metadata log of node {node_id} ends at offset {end_offset}: what comes after it was on the voters {lost} "
        "alone, and is lost, also if it was acknowledged; what it has of changes that were under way takes effect. "
        f"Never start the voters {lost} with their old data directories again: they would form a second cluster"
    )


def _report(survivor: "Survivor", *, is_done: bool, as_json: bool) -> None:
    meta, recovery = survivor.meta, survivor.recovery
    lost = [voter.key.node_id for voter in recovery.lost]
    if as_json:
        output.print_json(
            {
                "cluster_id": meta.cluster_id,
                "node_id": meta.node_id,
                "end_offset": recovery.append.base_offset,
                "epoch": recovery.append.epoch,
                "lost_voters": lost,
                "recovered": is_done,
            }
        )
    elif is_done:
        output.say(
            f"node {meta.node_id} is the only voter of cluster {meta.cluster_id}: start it, add new nodes, then "
            "'barnabas cluster decommission N' and 'barnabas cluster remove N' for each that is lost"
        )
    else:
        output.say("nothing was written")
