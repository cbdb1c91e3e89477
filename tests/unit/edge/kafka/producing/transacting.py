"""What the tests of transactional produces share: a coordinator that says what it is told to, and when."""

from typing import Any

from barnabas.core.records.control import MarkerType
from barnabas.runtime.partition import Partition
from barnabas.services.broker import Broker
from tests.support.admission import FakeAdmission
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.calling import Call, Caller, batch

PRODUCER = 7
ID = "transfers"


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
        marker, producer_id=PRODUCER, producer_epoch=epoch, coordinator_epoch=0, version=version, now_ms=NOW_MS
    )


def has_guards(broker: Broker, index: int = 0) -> bool:
    return partition_of(broker, index)._guards is not None
