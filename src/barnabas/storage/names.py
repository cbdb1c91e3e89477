"""The names in a data directory: of each file of a partition, and how they are parsed."""

from typing import Final

from barnabas.core.model import TopicPartition

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
CLEANED: Final = ".cleaned"  # compaction's output while it is written; worthless after a crash
SWAP: Final = ".swap"  # compaction's finished output, waiting to take the place of what it replaces
TEMPORARY: Final = ".tmp"  # a small file about to be renamed over the one it replaces
DELETED: Final = "-delete"  # at the end of the name of a partition directory on its way out

EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
COPY: Final = ".copy"  # of a checkpoint that nothing else could make again
ACCEPT_LOSS: Final = "accept-data-loss"  # an operator's word that a log may go on without records that are missing
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
SCRUBBED_TO: Final = "scrub-offset-checkpoint"
META: Final = "meta.properties"  # whose a data directory is; once there is one its checkpoints are always there
GENERATION: Final = "directory-generation"  # a number that grows at each start
PARTITION_METADATA: Final = "partition.metadata"  # the id of the topic that a partition's directory belongs to
QUORUM_STATE: Final = "quorum-state"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

SEGMENT_SUFFIXES: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX)


def parent_of(path: str) -> str:
    """The directory that a path is in."""
    parent, slash, _ = path.rpartition("/")
    return parent or slash or "."


def repair_command(path: str) -> str:
    """The command that repairs the damage in a segment file."""
    directory = parent_of(path)
    partition = parse_partition(directory.rpartition("/")[2])
    topic = "TOPIC" if partition is None else partition.topic
    return f"barnabas topic repair {topic} --data-dir {parent_of(directory)}"


def deleted_dir(directory: str, number: int) -> str:
    """The name of a partition directory that is being deleted. It does not grow with the name of its topic, which may
    be as long as a name can be; and no topic's directory has it, since those end in digits.
    """
    return f"{directory}/{number:020d}{DELETED}"


def segment_file(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


def swap_file(directory: str, base_offset: int, end_base_offset: int) -> str:
    """A compacted segment that replaces every segment with a base offset in [base, end base)."""
    return f"{directory}/{base_offset:020d}.{end_base_offset:020d}{SWAP}"


def swap_txn_index_file(directory: str, base_offset: int, end_base_offset: int) -> str:
    """The transaction index of a compacted segment until the swap is finished. Without a swap file it is a leftover."""
    return f"{directory}/{base_offset:020d}.{end_base_offset:020d}{TXN_INDEX}{SWAP}"


def parse_swap(name: str) -> tuple[int, int] | None:
    """The range of base offsets that a swap file replaces."""
    base, _, end_base = name.removesuffix(SWAP).partition(".")
    if name.endswith(SWAP) and base.isdecimal() and end_base.isdecimal():
        return int(base), int(end_base)
    return None


def base_offset_of(name: str, suffix: str) -> int | None:
    """The offset in the name of a file with this suffix."""
    stem = name.removesuffix(suffix)
    return int(stem) if stem != name and len(stem) == 20 and stem.isdecimal() else None


def parse_partition(name: str) -> TopicPartition | None:
    """The partition that a directory name stands for."""
    topic, _, partition = name.rpartition("-")
    if topic and partition.isdecimal() and str(int(partition)) == partition:
        return TopicPartition(topic, int(partition))
    return None
