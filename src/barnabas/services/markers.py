"""Writing the markers that end a transaction into the partitions that it wrote to.

The same verb whoever asks: the coordinator of the transaction on this node or on another (WriteTxnMarkers), or an
operator who ends a transaction that hangs. Offsets that were committed in the transaction count from its marker on.
"""

import asyncio
from typing import Final, NamedTuple

from barnabas.core.errors import BarnabasError
from barnabas.core.metadata.names import OFFSETS_TOPIC
from barnabas.core.model import TopicPartition
from barnabas.core.records.control import MarkerType
from barnabas.runtime.clock import Clock
from barnabas.runtime.partition import Partition
from barnabas.runtime.turns import in_turns
from barnabas.services.groups import GroupService
from barnabas.services.served import ServedTopics

_PER_TURN: Final = 10  # each is an append, and may make a log


class TransactionEnd(NamedTuple):
    """What the markers of one transaction say."""

    producer_id: int
    epoch: int
    is_commit: bool
    coordinator_epoch: int
    version: int  # of the protocol of transactions: 2 has an epoch for each


class Markers:
    """The verb: end a transaction in partitions that this node leads."""

    def __init__(self, served: ServedTopics, groups: GroupService, clock: Clock) -> None:
        self._served = served
        self._groups = groups
        self._clock = clock

    async def write(
        self, end: TransactionEnd, partitions: "list[TopicPartition] | tuple[TopicPartition, ...]"
    ) -> dict[TopicPartition, BarnabasError | None]:
        """Write a marker to each of these, and wait until they are durable. Each may be refused by itself."""
        results: dict[TopicPartition, BarnabasError | None] = {}
        waits: list[tuple[Partition, int]] = []
        async for name in in_turns(partitions, per_turn=_PER_TURN):
            try:
                waits.append(self._append(end, name))
                results[name] = None
            except BarnabasError as refusal:
                results[name] = refusal.with_traceback(None)
        async for partition, end_offset in in_turns(waits):
            try:
                await wait_acked(partition, end_offset)
            except BarnabasError as failure:
                results[partition.name] = failure.with_traceback(None)
        return results

    def _append(self, end: TransactionEnd, name: TopicPartition) -> tuple[Partition, int]:
        partition = self._served.get_partition(*name)
        end_offset = partition.append_marker(
            MarkerType.COMMIT if end.is_commit else MarkerType.ABORT,
            producer_id=end.producer_id,
            epoch=end.epoch,
            coordinator_epoch=end.coordinator_epoch,
            version=end.version,
            now_ms=self._clock.now_ms(),
        )
        if name.topic == OFFSETS_TOPIC:
            self._groups.end_transaction(name.partition, end.producer_id, is_commit=end.is_commit)
        return partition, end_offset


async def wait_acked(partition: Partition, end_offset: int) -> None:
    """Return once everything below an offset is acknowledged; raises what stands against it."""
    if partition.high_watermark >= end_offset:
        return
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def note(error: BarnabasError | None) -> None:
        if future.done():
            return  # whoever waited has gone
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    partition.call_when_acked(end_offset, note)
    await future
