"""A transactional producer without a socket, of either generation: it announces its partitions, or each transaction has
an epoch of its own.
"""

from typing import Any

from barnabas.core.records.batch import iter_whole_batches
from barnabas.core.records.record import decode_records
from barnabas.services.broker import Broker
from barnabas.wire import apis
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.support import ask

OLD, NEW = 0, 2
GENERATIONS = (OLD, NEW)


class Client:
    """One producer with a transactional id."""

    def __init__(self, broker: Broker, transactional_id: str = "id", *, generation: int = NEW) -> None:
        self.broker = broker
        self.caller = Caller(broker)
        self.transactional_id = transactional_id
        self.is_new = generation == NEW
        self.producer_id = self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    @property
    def who(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    async def init(self, *, timeout_ms: int = 60_000, **fields: Any) -> int:
        """InitProducerId; the error code."""
        request = {"transactional_id": self.transactional_id, "transaction_timeout": timeout_ms, **fields}
        answer = await ask(self.broker, apis.INIT_PRODUCER_ID, 5, **request)
        if not answer.error_code.value:
            self._take(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code.value)

    def _take(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self._sequences.clear()

    async def add(self, topic: str, *partitions: int) -> list[int]:
        """AddPartitionsToTxn as older clients send it; the codes."""
        fields = {f"v3_and_below_{name}": value for name, value in self.who.items()}
        topics = [{"name": topic, "partitions": partitions}]
        answer = await ask(self.broker, apis.ADD_PARTITIONS_TO_TXN, 3, **fields, v3_and_below_topics=topics)
        [found] = answer.results_by_topic_v3_and_below
        return [int(each.partition_error_code.value) for each in found.results_by_partition]

    async def send(self, topic: str, *values: bytes, partition: int = 0) -> int:
        """Produce in the transaction; the code."""
        if not self.is_new:
            [code] = await self.add(topic, partition)
            if code:
                return code
        sequence = self._sequences.get((topic, partition), 0)
        data = batch(
            *values,
            is_transactional=True,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
        )
        options = {"version": 12 if self.is_new else 11, "transactional_id": self.transactional_id}
        code = await self.caller.refusal(topic, data, partition=partition, **options)
        if not code:
            self._sequences[(topic, partition)] = sequence + len(values)
        return code

    def use_sequences_again(self) -> None:
        """As if nothing had been written in this epoch."""
        self._sequences.clear()

    async def commit_offset(self, group: str, topic: str, offset: int, **member: Any) -> int:
        """An offset of a group, in the transaction; the code. From outside of the group, or from a member of it."""
        if not self.is_new:
            answer = await ask(self.broker, apis.ADD_OFFSETS_TO_TXN, 3, **self.who, group_id=group)
            if answer.error_code.value:
                return int(answer.error_code.value)
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        answer = await ask(
            self.broker,
            apis.TXN_OFFSET_COMMIT,
            5 if self.is_new else 3,
            **self.who,
            topics=[{"name": topic, "partitions": [partition]}],
            **{"group_id": group, "generation_id": -1, **member},
        )
        return int(answer.topics[0].partitions[0].error_code.value)

    async def end(self, *, commit: bool = True, **fields: Any) -> int:
        """EndTxn; the code. A producer of the newer generation goes on with the epoch that it is told."""
        answer = await ask(
            self.broker, apis.END_TXN, 5 if self.is_new else 4, **{**self.who, "committed": commit, **fields}
        )
        if self.is_new and not answer.error_code.value and not fields:
            self._take(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code.value)


async def read(broker: Broker, topic: str, *, partition: int = 0, committed: bool = True) -> list[bytes]:
    """The values that a consumer sees, aborted ones left out as consumers do."""
    answer = await Caller(broker).fetched((topic, partition, 0), isolation_level=int(committed))
    data = memoryview(bytes(answer.records or b""))
    aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
    values: list[bytes] = []
    ongoing: set[int] = set()
    for position, header in iter_whole_batches(data):
        while aborted and aborted[0][0] <= header.last_offset:
            ongoing.add(aborted.pop(0)[1])
        if header.is_control:
            ongoing.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in ongoing):
            values += [bytes(record.value or b"") for record in decode_records(data, position, header)]
    return values


async def stable_offset(broker: Broker, topic: str) -> tuple[int, int]:
    """The last stable offset and the high watermark."""
    answer = await Caller(broker).fetched((topic, 0, 0))
    return answer.last_stable_offset, answer.high_watermark


async def fetch_offset(broker: Broker, group: str, topic: str, *, stable: bool = True) -> tuple[int, int]:
    """What a group has committed, and the code."""
    answer = await ask(
        broker,
        apis.OFFSET_FETCH,
        8,
        groups=[{"group_id": group, "topics": [{"name": topic, "partition_indexes": (0,)}]}],
        require_stable=stable,
    )
    found = answer.groups[0].topics[0].partitions[0]
    return found.committed_offset, int(found.error_code.value)


async def state_of(broker: Broker, transactional_id: str = "id") -> str:
    answer = await ask(broker, apis.DESCRIBE_TRANSACTIONS, 0, transactional_ids=(transactional_id,))
    return str(answer.transaction_states[0].transaction_state)
