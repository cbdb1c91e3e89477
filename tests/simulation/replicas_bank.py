"""The bank of transactions in a simulated cluster: its accounts are on several nodes, and so are its coordinators.

What clients are told is checked as on one node (`transaction_history`), with one difference: the last stable offset
that a reader is told may go back, for a new leader may know a lower high watermark for a moment.
"""

import asyncio
from collections import Counter, deque
from functools import cached_property
from random import Random
from typing import Any, Final
from uuid import UUID

from barnabas.testing.network import LOCALHOST
from barnabas.wire.apis import Api
from barnabas.wire.writing import Values
from tests.simulation.group_history import At
from tests.simulation.node_history import TopicLife, Violation
from tests.simulation.replicas_clients import Topic
from tests.simulation.replicas_truth import Promise
from tests.simulation.replicas_ways import ReplicatedWorld, Ways
from tests.simulation.transaction_clients import ANSWER_S, TIMEOUTS_S, Asking, TransactionalProducer
from tests.simulation.transaction_history import Bank, Step
from tests.simulation.transaction_requests import NOBODY, RETRIED, Identity, Sent
from tests.simulation.transaction_watchers import Auditor, Echo, Reader

TOPICS: Final = {
    "accounts": (3, Promise(3, 2, has_values=False)),
    "savings": (1, Promise(3, 2, has_values=False)),
    "source": (2, Promise(2, 1, has_values=False)),
}
STEPS: Final = (Step("group0", At("source", 0), 0, 0), Step("group1", At("source", 1), 0, 0))
SETTLING_S: Final = max(TIMEOUTS_S) + 5
"""How long after healing a transaction may be open at most."""
# Unknown topic, no leader, another leader, too few replicas after the append, storage, leader epochs, unknown topic id.
LEADERLESS: Final = (3, 5, 6, 20, 56, 74, 75, 100)


class ReplicatedBank(Bank):
    """What is known of all transfers."""

    def note_offsets(self, at: At, *, last_stable: int, high_watermark: int, at_least: int) -> None:
        super().note_offsets(at, last_stable=last_stable, high_watermark=high_watermark, at_least=0)


class BankWorld:
    """What clients of transactions ask of the simulation."""

    def __init__(self, cluster: ReplicatedWorld) -> None:
        self.cluster = cluster
        self.counts: Counter[str] = cluster.counts
        self.lives: dict[str, TopicLife] = {}
        self.producer_ids: dict[int, None] = {}
        self.is_over = self.is_calm = False
        self.bank: Bank = ReplicatedBank()
        self.ids: dict[str, UUID] = {}
        self.topics: dict[str, Topic] = {}
        self.repeated_ends: dict[Identity, None] = {}
        self.sent: deque[Sent] = deque(maxlen=400)
        self._identities: dict[str, Identity] = {}

    def add(self, topic: Topic) -> None:
        """A topic is there."""
        self.topics[topic.name] = topic
        self.ids[topic.name] = topic.topic_id

    def random(self, name: str) -> Random:
        return self.cluster.random_for(f"bank/{name}")

    def now_ms(self) -> int:
        return self.cluster.simulation.clock(LOCALHOST).now_ms()

    def note_answer(self, api: Api) -> None:
        """The cluster is told by the `Ways` to it, which know whose answer that is."""

    def note_sent(self, sent: Sent) -> None:
        self.sent.append(sent)

    def note_identity(self, transactional_id: str, identity: Identity) -> None:
        self._identities[transactional_id] = max(identity, self._identities.get(transactional_id, NOBODY))

    def may_repeat(self, sent: Sent) -> bool:
        """Whether a request may come once more, at any time: of an older producer, only when its epoch is over."""
        return sent.is_new or self._identities.get(sent.transactional_id, NOBODY) > sent.identity


class BankClient(Asking):
    """Somebody who asks about transactions in a cluster."""

    world: BankWorld
    retried = (*RETRIED, *LEADERLESS)

    @cached_property
    def ways(self) -> Ways:
        return Ways(self.world.cluster, f"bank/{self.name}", self.world.topics)

    async def put(self, api: Api, version: int, values: Values) -> Any:
        timeout_s = ANSWER_S[-1] if self.world.is_calm else self.random.choice(ANSWER_S)
        answer = await self.ways.send(api, version, values, timeout_s=timeout_s)
        if answer is None:
            self.world.counts["unanswered"] += 1
        return answer

    def hang_up(self) -> None:
        self.ways.hang_up()


class BankProducer(BankClient, TransactionalProducer):
    """A producer whose partitions have several leaders."""

    rate = 4.0

    async def _try(self, api: Api, version: int, values: Values, identity: Identity) -> Any:
        answer = await super()._try(api, version, values, identity)
        self._is_uncertain |= self.ways.missed > 0
        return answer

    def make_other(self, name: str) -> Asking:
        return BankClient(self.world, name)


class BankReader(BankClient, Reader):
    """A reader of partitions that have several leaders."""

    async def fetch(self, *, max_bytes: int) -> bool:
        return await super().fetch(max_bytes=max_bytes) and not self.ways.missed


class BankAuditor(BankClient, Auditor):
    """An auditor of groups that have several coordinators."""


class BankEcho(BankClient, Echo):
    """Delivers requests once more, to whoever they are for by then."""

    async def deliver(self, sent: Sent) -> None:
        await self.ways.send(sent.api, sent.version, sent.values, timeout_s=2)


class BankClients:
    """All clients of the bank, and what must hold when they are done."""

    def __init__(self, world: BankWorld) -> None:
        self.world = world
        self.producers = [
            BankProducer(world, "alone", "alone"),
            BankProducer(world, "pair0", "pair"),
            BankProducer(world, "pair1", "pair", trouble=2),
            BankProducer(world, "worker0", "worker0", group=STEPS[0].group),
            BankProducer(world, "worker1", "worker1", group=STEPS[1].group),
            BankProducer(world, "spare1", "worker1", group=STEPS[1].group),
        ]
        self._working: list[asyncio.Task[None]] = []

    def start(self, tasks: asyncio.TaskGroup) -> None:
        world = self.world
        watchers: list[BankReader | BankAuditor | BankEcho] = [
            BankReader(world, "reader"),
            BankAuditor(world, STEPS),
            BankEcho(world, world.sent),
        ]
        self._working = [tasks.create_task(client.run()) for client in (*self.producers, *watchers)]

    async def kill(self) -> None:
        """In the middle of what they do."""
        for task in self._working:
            task.cancel()
        if self._working:
            await asyncio.wait(self._working)
        for producer in self.producers:
            producer.hang_up()

    async def check(self) -> None:
        """Nothing is open within bounded time, and every transfer is there whole or not at all."""
        self.world.is_calm = True
        await self._wait_settled()
        reader, auditor = BankReader(self.world, "last-reader"), BankAuditor(self.world, STEPS)
        await reader.read_all()
        self.world.bank.check_all(reader.found)
        for step in STEPS:
            self.world.bank.check_progress(step.source, await auditor.wait_stable(step))
        auditor.hang_up()

    async def _wait_settled(self) -> None:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + SETTLING_S
        reader, auditor = BankReader(self.world, "settled-reader"), BankAuditor(self.world, STEPS)
        while True:
            is_late = loop.time() > deadline_s
            left = await auditor.find_open()
            await reader.read_all()
            left += [f"{at}: stable to {low} of {high}" for at, (low, high) in reader.ends.items() if low < high]
            if not left:
                break
            if is_late:
                raise Violation(f"{SETTLING_S} s after healing is still open: {left}")
            await asyncio.sleep(0.2)
        auditor.hang_up()

    async def use_again(self) -> None:
        """Every transactional id can be used, and every source be worked off."""
        for producer in {each.transactional_id: each for each in self.producers}.values():
            producer.identity = NOBODY
            while await producer.work() is None:
                pass
            producer.hang_up()
