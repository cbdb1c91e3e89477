"""Waiting for a marker to be acknowledged."""

import asyncio
from typing import cast

import pytest

from barnabas.core.errors import BarnabasError, RequestTimedOut, StorageError
from barnabas.core.model import TopicPartition
from barnabas.runtime.acks import AckCallback
from barnabas.runtime.partition import Partition
from barnabas.services.markers import wait_acked


class Unacked:
    """A partition that acknowledges when it is told to."""

    name = TopicPartition("t", 0)
    high_watermark = leader_epoch = 0

    def __init__(self) -> None:
        self.callbacks: list[AckCallback] = []

    def find_loss(self, _leader_epoch: int) -> None:
        return None

    def call_when_acked(self, _end_offset: int, callback: AckCallback) -> None:
        self.callbacks.append(callback)

    def forget_ack(self, _end_offset: int, callback: AckCallback) -> None:
        self.callbacks.remove(callback)


def wait(partition: Unacked, *, for_s: float) -> "asyncio.Task[None]":
    give_up_at = asyncio.get_running_loop().time() + for_s
    return asyncio.create_task(wait_acked(cast("Partition", partition), 1, leader_epoch=0, give_up_at=give_up_at))


def test_a_marker_that_is_not_acknowledged_in_time_is_unknown() -> None:
    async def scenario() -> None:
        partition = Unacked()
        with pytest.raises(RequestTimedOut, match="t-0"):
            await wait(partition, for_s=0)

    asyncio.run(scenario())


def test_a_marker_that_nobody_waits_for_any_more_leaves_nothing_with_its_partition() -> None:
    async def scenario() -> None:
        partition = Unacked()
        with pytest.raises(RequestTimedOut):
            await wait(partition, for_s=0)
        assert not partition.callbacks
        waiting = wait(partition, for_s=60)
        await asyncio.sleep(0)
        assert partition.callbacks
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not partition.callbacks

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [None, StorageError("gone")])
def test_a_marker_is_waited_for(error: BarnabasError | None) -> None:
    async def scenario() -> None:
        partition = Unacked()
        waiting = wait(partition, for_s=60)
        await asyncio.sleep(0)
        partition.callbacks[0](error)
        if error is None:
            await waiting
        else:
            with pytest.raises(StorageError):
                await waiting

    asyncio.run(scenario())
