"""Log lines for the operator about an opened data directory: what was recovered, what is damaged or missing."""

from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.core.metadata.names import METADATA_PARTITION, OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from barnabas.core.model import TopicPartition
from barnabas.runtime.log_lines import get_logger
from barnabas.services.served import ServedTopics
from barnabas.storage.data_dir import DataDir
from barnabas.storage.recovery_report import RecoveryReport

log = get_logger("barnabas.node", is_limited=False)

NAMES_SHOWN: Final = 20
COORDINATED: Final = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC)


def tell_recovery(data_dir: DataDir, reports: Iterable[RecoveryReport]) -> None:
    """Log what was truncated or lost in each log, and how many were recovered."""
    recovered = checked_bytes = 0
    for report in reports:
        _tell(report)
        recovered += not report.was_clean
        checked_bytes += report.checked_bytes
    if recovered and not data_dir.was_clean:
        log.warning(
            "%s was not closed cleanly when it was last used: %d log(s) were recovered, %d bytes checked",
            data_dir.path,
            recovered,
            checked_bytes,
        )


def tell_damage(served: ServedTopics, data_dir: DataDir) -> None:
    """Log what cannot be served, and which checkpoints were damaged."""
    for name, error in data_dir.unreadable.items():
        if name.topic not in COORDINATED and is_known(served, name):  # else its coordinator says so, and more
            log.error("%s cannot be served: %s", name, error)
    for consequence in data_dir.checkpoints.consequences:
        log.warning("%s", consequence)
    if not data_dir.checkpoints.is_recovery_point_known:
        _tell_absent(served, data_dir)
    if data_dir.checkpoints.damage is not None:
        log.error("%s; using its copy, and writing it again", data_dir.checkpoints.damage)


def tell_strays(strays: Sequence[TopicPartition]) -> None:
    """Log which partitions are removed because they belong to no topic."""
    log.warning("these partitions belong to no topic, and are removed: %s", _listed(strays))


def is_known(served: ServedTopics, name: TopicPartition) -> bool:
    """Whether this is the metadata partition, or one of an existing topic."""
    topic = served.by_name.get(name.topic)
    return name == METADATA_PARTITION or (topic is not None and name.partition in topic.partitions)


def _tell(report: RecoveryReport) -> None:
    if report.lost_to is not None:
        log.error(
            "%s: the records before offset %d are missing; the log continues from there",
            report.partition,
            report.lost_to,
        )
    if report.cut_bytes:
        log.warning("%s: truncated %d bytes of an incomplete write", report.partition, report.cut_bytes)


def _tell_absent(served: ServedTopics, data_dir: DataDir) -> None:
    """Log which partitions have no directory: without recovery points a lost one looks like one that was never used."""
    found = {*data_dir.logs, *data_dir.unreadable}
    every = [TopicPartition(topic.name, number) for topic in served.by_name.values() for number in topic.partitions]
    absent = sorted((name for name in every if name not in found), key=lambda name: (name.topic in COORDINATED, name))
    if absent:
        log.warning(
            "these partitions have no directory, and without recovery points they are treated as never used: %s. "
            "If one was used, stop the node and restore its directory from a backup",
            _listed(absent),
        )


def _listed(names: Sequence[TopicPartition]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(str(name) for name in names[:NAMES_SHOWN]) + more
