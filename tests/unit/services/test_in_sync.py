"""Asking the controller for other ISRs: what its answers lead to."""

import asyncio
from collections.abc import Sequence
from typing import cast
from uuid import UUID

import pytest

from barnabas.core.errors import (
    BarnabasError,
    IneligibleReplica,
    InvalidUpdateVersion,
    RequestTimedOut,
    StorageError,
)
from barnabas.core.fetched import FetchPartition
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.isr import IsrChange
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.logs import Logs
from barnabas.runtime.partition import Partition
from barnabas.runtime.replica import Replication
from barnabas.services.in_sync import InSync
from barnabas.services.membership import Membership
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import SimulatedDisk
from barnabas.testing.simulation import Simulation

LAG_MS = 1000


class AnsweringController:
    """`Membership`, as far as it is asked here: gives these answers, and then says that all is done."""

    def __init__(self, *answers: BarnabasError | list[BarnabasError | None]) -> None:
        self.asked: list[tuple[int, ...]] = []
        self._answers = list(answers)

    async def alter_partitions(self, changes: Sequence[IsrChange]) -> list[BarnabasError | None]:
        self.asked += [tuple(node for node, _ in change.isr) for change in changes]
        answer = self._answers.pop(0) if self._answers else [None] * len(changes)
        if isinstance(answer, BarnabasError):
            raise answer
        return list(answer)


class Led:
    """A partition with one record that node 1 leads and node 2 has, and the task that cares for its ISR."""

    def __init__(self, simulation: Simulation, controller: AnsweringController) -> None:
        logs = Logs(DataDir(SimulatedDisk(1), "/data"))
        logs.flusher = Flusher(simulation.offload("a"), listener=logs)
        logs.replicas.active = {1: 5, 2: 6}
        self.partition = Partition(TopicPartition("t", 0), logs, LogConfig(), leader_epoch=0, topic_id=UUID(int=1))
        membership = cast("Membership", controller)
        self.in_sync = InSync(logs, membership, simulation.offload("a"), Image(), max_lag_ms=LAG_MS)

    def begin(self) -> None:
        self.partition.lead(1, Replication(1, (1, 2), (1,), 0, 1))
        self.append()
        self.fetch(1)

    def append(self) -> None:
        self.partition.append(encode_batch([Record(0, 0, None, b"v")]), now_ms=0)
        self.partition.log.flush()
        self.partition.note_flushed()

    def fetch(self, end_offset: int) -> None:
        wanted = FetchPartition(0, current_leader_epoch=1, fetch_offset=end_offset, flushed_offset=end_offset)
        self.partition.note_fetch(2, wanted, broker_epoch=6)


def run(controller: AnsweringController, *, for_s: float = 0.5) -> Led:
    """What has become of it after a while, with another record that node 2 does not have."""
    with Simulation(1) as simulation:
        led = Led(simulation, controller)

        async def scenario() -> None:
            led.begin()
            running = asyncio.create_task(led.in_sync.run())
            await asyncio.sleep(for_s)
            led.append()
            await asyncio.sleep(1.2 * LAG_MS / 1000)  # it lags by now
            led.partition.propose(now_ms=int(asyncio.get_running_loop().time() * 1000))
            running.cancel()

        simulation.run(scenario)
    return led


@pytest.mark.parametrize(
    "error", [RequestTimedOut("unknown"), StorageError("the disk of the controller has failed"), BarnabasError("odd")]
)
def test_a_request_that_failed_is_repeated_whatever_it_failed_with(error: BarnabasError) -> None:
    controller = AnsweringController(error, error)

    run(controller)

    assert controller.asked[:3] == [(1, 2)] * 3


def test_what_may_have_been_carried_out_counts_until_the_metadata_say_so() -> None:
    """The first try was carried out and not answered; the second is refused, for the partition has changed by that."""
    led = run(AnsweringController(RequestTimedOut("unknown"), [InvalidUpdateVersion("it has changed")]))

    assert led.partition.high_watermark == 1  # not 2: node 2 is in sync by now, and does not have it


def test_what_is_refused_for_certain_no_longer_counts() -> None:
    led = run(AnsweringController(*[[IneligibleReplica("node 2 is fenced")] for _ in range(1000)]))

    assert led.partition.high_watermark == 2
