"""Writing the markers that end a transaction to its partitions.

The same verb for all callers: the coordinator of the transaction on this node or on another (WriteTxnMarkers), or an
operator who aborts a hanging transaction. Offsets committed in the transaction take effect with its marker. A marker
that is not acknowledged in time may still be: the caller gets a timeout, and retries. An existing marker is not written
twice, so a retry does no harm.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from barnabas.core.errors import BarnabasError, RequestTimedOut
from barnabas.core.metadata.names import OFFSETS_TOPIC
from barnabas.core.model import TopicPartition
from barnabas.core.records.control import MarkerType
from barnabas.runtime.clock import Clock
from barnabas.runtime.partition import Partition
from barnabas.runtime.turns import PER_TURN, next_turn
from barnabas.services.group_coordinators import GroupCoordinators
from barnabas.services.served import ServedTopics

if TYPE_CHECKING:
    from barnabas.core.transactions.ending import TransactionEnd

_PER_TURN: Final = 10  # each is an append, and may make a log
ACK_TIMEOUT_S: Final = 30.0  # for all markers of one request together, as long as Kafka waits for them


class Markers:
    """The verb: end a transaction in partitions that this node leads."""

    def __init__(self, served: ServedTopics, groups: GroupCoordinators, clock: Clock) -> None:
        self._served = served
        self._groups = groups
        self._clock = clock

    async def write(
        self, end: TransactionEnd, partitions: list[TopicPartition] | tuple[TopicPartition, ...]
    ) -> dict[TopicPartition, BarnabasError | None]:
        """Write a marker to each partition, and wait until they are durable. Each may be refused separately."""
        results: dict[TopicPartition, BarnabasError | None] = {}
        waits: list[tuple[Partition, int, int]] = []
        # Counted here: most transactions have few partitions, and an asynchronous generator costs as much as a marker.
        for number, name in enumerate(partitions, 1):
            if not number % _PER_TURN:
                await next_turn()
            try:
                waits.append(self._append(end, name))
                results[name] = None
            except BarnabasError as refusal:
                results[name] = refusal.with_traceback(None)
        give_up_at = asyncio.get_running_loop().time() + ACK_TIMEOUT_S
        for number, (partition, end_offset, leader_epoch) in enumerate(waits, 1):
            if not number % PER_TURN:
                await next_turn()
            try:
                await wait_acked(partition, end_offset, leader_epoch=leader_epoch, give_up_at=give_up_at)
            except BarnabasError as failure:
                results[partition.name] = failure.with_traceback(None)
        return results

    def _append(self, end: TransactionEnd, name: TopicPartition) -> tuple[Partition, int, int]:
        partition = self._served.get_partition(*name)
        end_offset = partition.append_marker(
            MarkerType.COMMIT if end.is_commit else MarkerType.ABORT,
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            coordinator_epoch=end.coordinator_epoch,
            version=end.version,
            now_ms=self._clock.now_ms(),
        )
        if name.topic == OFFSETS_TOPIC:
            self._groups.end_transaction(name.partition, end.producer_id, is_commit=end.is_commit)
        return partition, end_offset, partition.leader_epoch


async def wait_acked(partition: Partition, end_offset: int, *, leader_epoch: int, give_up_at: float) -> None:
    """Return once everything below an offset of a leader epoch is acknowledged; raises if it cannot be, or takes too
    long by the time of the loop.
    """
    if partition.leader_epoch == leader_epoch and partition.high_watermark >= end_offset:
        return
    loss = partition.find_loss(leader_epoch)
    if loss is not None:
        raise loss
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def note(error: BarnabasError | None) -> None:
        if future.done():
            return  # whoever waited has gone
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    partition.call_when_acked(end_offset, note)
    try:
        async with asyncio.timeout_at(give_up_at):
            await future
    except TimeoutError:
        raise RequestTimedOut(f"the marker in {partition.name} was not acknowledged in time") from None
    finally:
        if future.cancelled():  # by the time-out, or by whoever waits for this
            partition.forget_ack(end_offset, note)
