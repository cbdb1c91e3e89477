"""Deleting records from the front of a partition on request.

A log is changed on the loop, by its one owner. Its records are synced first, through the flusher, since that may take
long; what remains is to record the new start offset and to unlink files.
"""

from typing import Final

from barnabas.core.errors import InvalidTopic, OffsetOutOfRange, PolicyViolation
from barnabas.core.metadata.names import is_internal
from barnabas.runtime.logs import Logs
from barnabas.runtime.partition import Partition
from barnabas.services.served import ServedTopic
from barnabas.services.syncing import wait_synced
from barnabas.storage.truncate import delete_before

TO_HIGH_WATERMARK: Final = -1


async def delete_records(logs: Logs, topic: ServedTopic, partition: Partition, offset: int) -> int:
    """Delete the records before `offset`; returns the new log start offset."""
    if is_internal(topic.name):
        raise InvalidTopic(f"'{topic.name}' is an internal topic: its records cannot be deleted")
    if topic.config.log.is_compacted and not topic.config.log.is_deleted:
        raise PolicyViolation(f"'{topic.name}' has cleanup.policy=compact: its records cannot be deleted by offset")
    log = partition.find_log()
    if log is not None and (offset == TO_HIGH_WATERMARK or partition.high_watermark < offset <= log.end_offset):
        await wait_synced((partition,))
        log = partition.find_log()
    offset = _checked(partition, offset)
    if log is None or offset <= log.log_start_offset:
        return 0 if log is None else log.log_start_offset
    await logs.flusher.wait_flushed(log, offset)
    if partition.find_log() is not log:  # meanwhile the topic may have been deleted, and then this says so
        return 0
    start_offset = delete_before(log, offset)
    partition.note_start()
    return start_offset


def _checked(partition: Partition, offset: int) -> int:
    if offset == TO_HIGH_WATERMARK:
        return partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        raise OffsetOutOfRange(
            f"{partition.name} can be deleted up to its high watermark {partition.high_watermark}, not to {offset}"
        )
    return offset
