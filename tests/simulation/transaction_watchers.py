"""Whoever watches transactions, or disturbs them: readers of what is committed, an auditor of offsets, and a network
that delivers requests once more, at any time after, over another connection.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from barnabas.core.records.batch import check_batch, iter_batches
from barnabas.core.records.control import MarkerType, read_marker
from barnabas.core.records.record import decode_batch
from barnabas.testing import wire_client as wire
from barnabas.testing.wire_client import WireClient
from barnabas.wire.apis import CREATE_TOPICS, END_TXN, FETCH, LIST_TRANSACTIONS, METADATA
from tests.simulation.group_history import At
from tests.simulation.node_clients import HOST, OK, PORT, TOPIC_EXISTS, whole_batches
from tests.simulation.node_history import Violation
from tests.simulation.transaction_clients import ACCOUNTS, Asking, TransactionWorld
from tests.simulation.transaction_history import Step
from tests.simulation.transaction_requests import Sent, by_topic

READ_COMMITTED = 1


class Reader(Asking):
    """Reads what is committed, from some offset on, as consumers do: without what the answer says was aborted."""

    def __init__(self, world: TransactionWorld, name: str) -> None:
        super().__init__(world, name)
        self.positions = dict.fromkeys(ACCOUNTS, 0)
        self.found: dict[At, dict[int, bytes]] = {at: {} for at in ACCOUNTS}
        self.ends: dict[At, tuple[int, int]] = {}  # last stable offset and high watermark, as they were told last

    async def run(self) -> None:
        try:
            while not self.world.is_over:
                if self.random.random() < 0.05:
                    self.positions = dict.fromkeys(ACCOUNTS, 0)
                await self.fetch(max_bytes=self.random.choice((1, 300, 100_000)))
                await asyncio.sleep(self.random.expovariate(8))
        finally:
            self.hang_up()

    async def read_all(self) -> None:
        """All there is, from the beginning."""
        before = None
        while before != self.positions or not self.is_at_end:
            before = dict(self.positions)
            if not await self.fetch(max_bytes=100_000):
                before = None
        self.hang_up()

    @property
    def is_at_end(self) -> bool:
        return all(at in self.ends and self.positions[at] >= self.ends[at][0] for at in self.positions)

    async def fetch(self, *, max_bytes: int) -> bool:
        """One fetch of all accounts; False when there was no answer."""
        floors = dict(self.world.bank.stable)
        offsets = {
            self.world.ids[topic]: {number: self.positions[At(topic, number)] for number in numbers}
            for topic, numbers in by_topic(self.positions).items()
        }
        request = wire.fetch_request(
            offsets,
            max_wait_ms=self.random.choice((0, 200)),
            partition_max_bytes=max_bytes,
            isolation_level=READ_COMMITTED,
        )
        answer = await self.put(FETCH, self.random.choice((13, 15)), request)
        if answer is None:
            return False
        names = {topic_id: name for name, topic_id in self.world.ids.items()}
        for topic in answer.responses:
            for found in topic.partitions:
                at = At(names[topic.topic_id], found.partition_index)
                if found.error_code:
                    raise Violation(f"{at} cannot be read: {found.error_code!r}")
                self._take(at, found, at_least=floors.get(at, 0))
        return True

    def _take(self, at: At, found: Any, *, at_least: int) -> None:
        stable, high_watermark = found.last_stable_offset, found.high_watermark
        self.world.bank.note_offsets(at, last_stable=stable, high_watermark=high_watermark, at_least=at_least)
        self.ends[at] = (stable, high_watermark)
        data = whole_batches(bytes(found.records or b""))
        aborted = sorted((each.first_offset, each.producer_id) for each in found.aborted_transactions or ())
        current: set[int] = set()
        for position, header in iter_batches(data):
            check_batch(data, position, header)
            expected = self.positions[at]
            if header.next_offset > stable or header.base_offset > expected or header.next_offset <= expected:
                raise Violation(f"{at}: {header} given for {expected}, stable to {stable}")
            while aborted and aborted[0][0] <= header.last_offset:
                current.add(aborted.pop(0)[1])
            self.positions[at] = header.next_offset
            if header.is_control:
                if read_marker(data, position, header).type is MarkerType.ABORT:
                    current.discard(header.producer_id)
            elif header.producer_id not in current:
                for record in decode_batch(data[position : position + header.size]):
                    self.found[at][record.offset] = record.value or b""
                    self.world.bank.note_read(at, record.offset, record.value or b"")
                self.world.counts["read"] += 1


class Auditor(Asking):
    """Fetches committed offsets, stable ones or not, makes topics, and looks for what is left open."""

    def __init__(self, world: TransactionWorld, steps: Sequence[Step]) -> None:
        super().__init__(world, "auditor")
        self._steps = steps

    async def run(self) -> None:
        try:
            while not self.world.is_over:
                await self.fetch_offset(self.random.choice(self._steps), is_stable=self.random.random() < 0.5)
                await asyncio.sleep(self.random.expovariate(8))
        finally:
            self.hang_up()

    async def wait_stable(self, step: Step) -> int:
        """The committed offset, when no transaction can change it any more."""
        while (offset := await self.fetch_offset(step, is_stable=True)) is None:
            await self.pause()
        return offset

    async def create(self, topic: str, partitions: int) -> None:
        configs = {"internal.segment.bytes": self.random.choice(("1024", "100000"))}
        if topic == "savings":
            configs["compression.type"] = "gzip"  # so that there is a moment between looking at a batch and appending
        request = wire.create_topic_request(topic, partitions=partitions, configs=configs)
        while True:
            answer = await self.put(CREATE_TOPICS, 7, request)
            if answer is not None and answer.topics[0].error_code in (OK, TOPIC_EXISTS):
                break
        answer = await self.ask(METADATA, 12, wire.metadata_request([topic]))
        self.world.ids[topic] = answer.topics[0].topic_id

    async def find_open(self) -> list[str]:
        """The transactions that are not complete."""
        while True:
            values = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
            answer = await self.put(LIST_TRANSACTIONS, 1, values)
            if answer is not None and answer.error_code == OK:
                break
            if answer is not None and answer.error_code not in self.retried:
                raise Violation(f"transactions cannot be listed: {answer.error_code!r}")
            await self.pause()
        return [
            f"{each.transactional_id}: {each.transaction_state}"
            for each in answer.transaction_states
            if each.transaction_state not in ("Empty", "CompleteCommit", "CompleteAbort")
        ]


class Echo(Asking):
    """Delivers requests of others once more, late."""

    def __init__(self, world: TransactionWorld, sent: Sequence[Sent]) -> None:
        super().__init__(world, "echo")
        self._sent = sent

    async def run(self) -> None:
        while not self.world.is_over:
            await asyncio.sleep(self.random.expovariate(15))
            if self._sent:
                # Of what was just sent, or of any.
                some = self._sent if self.random.random() < 0.5 else list(self._sent)[-20:]
                await self.repeat(self.random.choice(some))

    async def repeat(self, sent: Sent) -> None:
        if not self.world.may_repeat(sent):
            return
        if sent.api == END_TXN:
            self.world.repeated_ends[sent.identity] = None
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(2):
                await self.deliver(sent)
        self.world.counts["repeated"] += 1

    async def deliver(self, sent: Sent) -> None:
        client = await WireClient.connect(HOST, PORT, client_id=self.name)
        try:
            await client.send(sent.api, sent.version, sent.values)
        finally:
            client.close()
