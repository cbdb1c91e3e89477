"""`barnabas topic repair`: find batches that cannot be read in the files of a stopped node, and replace them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli import output
from barnabas.cli.confirming import Yes, confirm
from barnabas.cli.connection import AsJson

if TYPE_CHECKING:
    from barnabas.core.model import TopicPartition
    from barnabas.storage.repair import Finding, RecordCheck

NATIVE_FROM_BYTES = 32 * 1024 * 1024  # below that, loading numba takes longer than it saves

_MEANINGS: Final = {  # of giving up records of an internal topic
    "__cluster_metadata": (
        "giving up records of the metadata undoes changes of the cluster: a topic that they created is deleted "
        "with all its records at the next start, and if later changes depend on them the node does not start"
    ),
    "__consumer_offsets": (
        "giving up records of __consumer_offsets undoes offset commits of groups: their consumers read again from an "
        "older offset, or from where auto.offset.reset says"
    ),
    "__transaction_state": (
        "giving up records of __transaction_state undoes steps of transactions: one may stay open until it is "
        "aborted with barnabas txn abort"
    ),
    "__share_group_state": (
        "giving up records of __share_group_state undoes acknowledgements of share groups: records that they have "
        "processed are delivered to them again"
    ),
}


def repair(
    name: Annotated[str, typer.Argument(help="The topic.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="The node's data directory; default: that of `barnabas serve`.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what is damaged; the node may be running.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Replace batches that cannot be read: damaged on disk, or written by a faulty client.

    Each is replaced by an empty batch over the same offsets, and consumers continue after it. The replaced bytes are
    kept in files that end in .quarantine. The node must be stopped; with several replicas, restore from one of them
    instead.
    """
    directory = _directory(data_dir)
    with _locked(directory, is_needed=not dry_run):
        missing = _missing(directory, name, partition)
        for each, end_offset in missing:
            output.warn(
                f"{directory}/{each} is missing, with its records up to offset {end_offset}: this command cannot bring "
                "them back; restore the directory from a backup"
            )
        present = _partitions(directory, name, partition, is_needed=not missing)
        findings = [finding for each in present for finding in _find(directory, each)]
        _show(name, findings, as_json=as_json, is_whole=not missing)
        lost = sum(not finding.is_restored for finding in findings)
        if lost and name in _MEANINGS:
            output.warn(
                f"{_MEANINGS[name]}. Restore {name} from a backup if there is one; if not, copy {directory} first"
            )
        if not findings or dry_run:
            return
        confirm(f"Give up the records of {lost} batch(es) of {name}? The bytes are kept in .quarantine files.", yes=yes)
        _repair(findings)
    if not as_json:
        restored = len(findings) - lost
        output.say(f"topic {name}: {lost} batch(es) given up, {restored} put right; now start the node")


def _directory(data_dir: Path | None) -> str:
    from barnabas.config import load
    from barnabas.core.errors import StorageError

    directory = str(data_dir) if data_dir is not None else load(environ=os.environ).log_dirs[0]
    if not Path(directory).is_dir():
        raise StorageError(f"{directory} is not a directory; name the node's data directory with --data-dir")
    return directory


@contextmanager
def _locked(directory: str, *, is_needed: bool) -> Iterator[None]:
    from barnabas.runtime.dir_lock import DirLock

    lock = DirLock(directory)
    if is_needed:
        lock.take()
    try:
        yield
    finally:
        lock.release()


def _missing(directory: str, topic: str, partition: int | None) -> list[tuple["TopicPartition", int]]:
    """Partitions that have records according to their recovery points, but no directory."""
    from barnabas.runtime.disk import OsDisk
    from barnabas.storage.checkpoints import Checkpoints

    checkpoints = Checkpoints(OsDisk(), directory)
    return [
        (each, checkpoints.recovery_point(each))
        for each in sorted(checkpoints.partitions())
        if each.topic == topic
        and partition in (None, each.partition)
        and checkpoints.recovery_point(each) > checkpoints.log_start(each)
        and not Path(directory, str(each)).exists()
    ]


def _partitions(directory: str, topic: str, partition: int | None, *, is_needed: bool) -> list["TopicPartition"]:
    from barnabas.core.errors import UnknownTopicOrPartition
    from barnabas.runtime.disk import OsDisk
    from barnabas.storage.names import parse_partition

    names = [parse_partition(name) for name in OsDisk().list_dir(directory)]
    found = sorted(
        each for each in names if each is not None and each.topic == topic and partition in (None, each.partition)
    )
    if not found and is_needed:
        wanted = topic if partition is None else f"{topic}-{partition}"
        raise UnknownTopicOrPartition(f"{directory} has no files of {wanted}")
    return found


def _find(directory: str, partition: "TopicPartition") -> list["Finding"]:
    from barnabas.runtime.disk import OsDisk
    from barnabas.storage.repair import find_unreadable

    size = sum(path.stat().st_size for path in Path(directory, str(partition)).glob("*.log"))
    return list(find_unreadable(OsDisk(), directory, partition, check=_check_for(size)))


def _check_for(size: int) -> "RecordCheck | None":
    if size < NATIVE_FROM_BYTES:
        return None
    from barnabas.services.record_checks import load_kernel

    return load_kernel()


def _show(name: str, findings: list["Finding"], *, as_json: bool, is_whole: bool) -> None:
    if as_json:
        output.print_json(
            [
                {
                    "partition": finding.partition.partition,
                    "first_offset": finding.first_offset,
                    "last_offset": finding.last_offset,
                    "file": finding.path,
                    "position": finding.position,
                    "size": finding.end_position - finding.position,
                    "reason": finding.reason,
                    "is_restored": finding.is_restored,
                }
                for finding in findings
            ]
        )
    elif not findings:
        output.say(f"topic {name}: everything {'' if is_whole else 'present '}can be read")
    else:
        rows = [
            (
                finding.partition.partition,
                f"{finding.first_offset}-{finding.last_offset}",
                f"{finding.path}:{finding.position}",
                finding.reason,
                "put right" if finding.is_restored else "give up",
            )
            for finding in findings
        ]
        output.print_table(("partition", "offsets", "file and position", "problem", "remedy"), rows)


def _repair(findings: list["Finding"]) -> None:
    import itertools

    from barnabas.core.errors import StorageError
    from barnabas.runtime.disk import OsDisk, write_private
    from barnabas.storage.repair import repair_segment

    for path, found in itertools.groupby(findings, key=lambda finding: finding.path):
        try:
            repair_segment(OsDisk(), list(found), write_private)
        except OSError as error:
            raise StorageError(f"{path} is unchanged: {error}") from error
