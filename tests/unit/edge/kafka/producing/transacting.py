"""What the tests of transactional produces share: a coordinator that says what it is told to, and when."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.core.records.control import MarkerType
from barnabas.runtime.partition import Partition
from barnabas.services.broker import Broker
from tests.unit.edge.kafka.calling import Call, Caller, batch
from tests.unit.edge.kafka.support import NOW_MS

PRODUCER = 7
ID = "transfers"


class FakeAdmission:
    """Admits everything, but what it is told to refuse; waits while it is held."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, tuple[TopicPartition, ...], bool]] = []
        self.refusals: dict[TopicPartition, list[BarnabasError]] = {}  # for one question after another
        self.is_asked = asyncio.Event()
        self._may_answer = asyncio.Event()
        self._may_answer.set()

    def hold(self) -> None:
        self._may_answer.clear()

    def go_on(self) -> None:
        self._may_answer.set()

    def refuse(self, error: BarnabasError, *, partition: int = 0, times: int = 1) -> None:
        self.refusals[TopicPartition("t", partition)] = [error] * times

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, BarnabasError | None]:
        self.asked.append((transactional_id, producer_id, epoch, tuple(partitions), adds))
        self.is_asked.set()
        await self._may_answer.wait()
        refusals = {name: self.refusals.get(name) for name in partitions}
        return {name: errors.pop(0) if errors else None for name, errors in refusals.items()}


def with_admission(broker: Broker) -> FakeAdmission:
    broker.produce.admission = admission = FakeAdmission()
    return admission


def part(sequence: int, *values: bytes, epoch: int = 0, producer_id: int = PRODUCER, **fields: Any) -> bytes:
    """A batch in a transaction."""
    ids: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    return batch(*values, is_transactional=True, **ids, **fields)


def send(caller: Caller, *batches: bytes | None, **options: Any) -> Call:
    """Produce to the partitions of topic `t`, in a transaction."""
    return caller.produce("t", *batches, **{"transactional_id": ID, **options})


async def codes(call: Call) -> list[int]:
    """The error codes of all partitions."""
    response = await call.read()
    return [int(each.error_code.value) for topic in response.responses for each in topic.partition_responses]


def partition_of(broker: Broker, index: int = 0) -> Partition:
    return broker.served.get_partition("t", index)


def end(broker: Broker, epoch: int, *, index: int = 0, version: int = 2, marker: MarkerType = MarkerType.COMMIT) -> int:
    """Write the marker that ends the producer's transaction in a partition."""
    return partition_of(broker, index).append_marker(
        marker, producer_id=PRODUCER, epoch=epoch, coordinator_epoch=0, version=version, now_ms=NOW_MS
    )


def has_guards(broker: Broker, index: int = 0) -> bool:
    return partition_of(broker, index)._guards is not None
