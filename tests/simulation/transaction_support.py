"""Transactions on a whole node in simulation: a bank whose transfers go through crashes, cuts, zombies and repetitions.

`run(seed)` has producers of both generations move amounts between accounts, some of them by working off a source, for
some virtual seconds of faults. What they and readers of committed records are told is checked as it comes
(`transaction_history`). Then all producers are killed, in the middle of what they do: within the longest timeout of a
transaction and some seconds nothing may be open any more, and every transfer is there whole or not at all. So it stays
through a last power cut and a clean stop, and every transactional id can be used again. A failure names its seed.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec
import pytest

from barnabas.core.coordination import Decision
from barnabas.core.transactions import initialising
from barnabas.core.transactions.decision import TransactionDecision
from barnabas.core.transactions.initialising import AbortFirst, Initialised
from barnabas.core.transactions.producers import LAST_USED_EPOCH
from barnabas.core.transactions.records import TransactionRecord
from barnabas.services.settings.catalogue.group_settings import GroupSettings
from barnabas.services.settings.catalogue.transaction_settings import TransactionSettings
from barnabas.testing.disk import Keep, SimulatedCrash
from barnabas.testing.link import NetworkConfig
from barnabas.testing.simulation import Simulation
from barnabas.wire.apis import END_TXN, INIT_PRODUCER_ID, TXN_OFFSET_COMMIT
from tests.simulation.group_history import At
from tests.simulation.node_clients import HOST
from tests.simulation.node_history import Violation
from tests.simulation.node_support import CONFIG, NodeWorld, run_world, soon
from tests.simulation.seeded import Run
from tests.simulation.transaction_clients import ACCOUNTS, TIMEOUTS_S, TransactionalProducer
from tests.simulation.transaction_crashes import POINTS, POINTS_OF_NODE, install
from tests.simulation.transaction_history import Bank, Step
from tests.simulation.transaction_requests import NOBODY, Identity, Sent, by_topic
from tests.simulation.transaction_watchers import Auditor, Echo, Reader

GROUPS: Final = ("group0", "group1")
STEPS: Final = tuple(Step(group, At("source", number), 0, 0) for number, group in enumerate(GROUPS))
CUTS: Final = 5  # of power, in one run that is about those
SLOW_SYNC_S: Final = 0.03
SETTLING_S: Final = max(TIMEOUTS_S) + 5
TRANSACTION_CONFIG: Final = msgspec.structs.replace(
    CONFIG,
    groups=GroupSettings(offsets_topic_num_partitions=2),
    transactions=TransactionSettings(transaction_state_log_num_partitions=2),
)
SLOW_NETWORK: Final = NetworkConfig(spike_chance=0.02, max_spike_s=1.5, reset_chance=0.003, refuse_chance=0.01)


class BankWorld(NodeWorld):
    """One node, the clients of its transactions, and what goes wrong."""

    config = TRANSACTION_CONFIG
    faults = 7
    gap_s = 1.5
    promises = frozenset((END_TXN, INIT_PRODUCER_ID, TXN_OFFSET_COMMIT))

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        simulation.network.config = SLOW_NETWORK
        self.bank = Bank()
        self.ids: dict[str, UUID] = {}
        self.is_calm = False
        self.repeated_ends: dict[Identity, None] = {}
        self.sent: deque[Sent] = deque(maxlen=400)
        self._identities: dict[str, Identity] = {}
        POINTS_OF_NODE.armed = None
        POINTS_OF_NODE.crash = self._lose_power_now

    # What clients ask.

    def note_sent(self, sent: Sent) -> None:
        self.sent.append(sent)

    def note_identity(self, transactional_id: str, identity: Identity) -> None:
        self._identities[transactional_id] = max(identity, self._identities.get(transactional_id, NOBODY))

    def may_repeat(self, sent: Sent) -> bool:
        """Whether a request may come once more, at any time: of an older producer, only when its epoch is over."""
        return sent.is_new or self._identities.get(sent.transactional_id, NOBODY) > sent.identity

    # The scenario.

    async def run(self) -> None:
        self._failure = asyncio.get_running_loop().create_future()
        self._start()
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch())
            await self._make_topics()
            producers = self.make_producers()
            watchers: list[Reader | Auditor | Echo] = [Reader(self, "reader"), Auditor(self, STEPS)]
            watchers.append(Echo(self, self.sent))
            working = [tasks.create_task(client.run()) for client in (*producers, *watchers)]
            await self.disturb()
            for task in working:
                task.cancel()
            await asyncio.wait(working)
            await asyncio.sleep(SETTLING_S)
            self.is_calm = True
            await self._check_everything_of_bank(within_s=0)
            await self._use_again(producers)
            self._crash(Keep.NOTHING)
            self._start()
            await self._check_everything_of_bank(within_s=5)
            await self._stop()
            self._start()
            await self._check_everything_of_bank(within_s=5)
            await self._stop()
            watching.cancel()
        fates = Counter(transfer.fate.value for transfer in self.bank.transfers.values())
        self.counts.update({f"found {fate}": count for fate, count in fates.items()})

    async def disturb(self) -> None:
        """What goes wrong, while clients work."""
        await self._break_things()
        await asyncio.sleep(1)

    async def _lose_power_soon(self) -> None:
        if self._random.random() < 0.6:
            await self.lose_power_at(self._random.choice(POINTS))
        else:
            await super()._lose_power_soon()

    async def lose_power_at(self, point: str) -> None:
        """When a transaction next comes to this point."""
        POINTS_OF_NODE.armed = point
        try:
            async with asyncio.timeout(5):
                await self._has_crashed.wait()
        except TimeoutError:
            POINTS_OF_NODE.armed = None
            return
        self.counts[f"crash when {point}"] += 1
        self._crash()
        await self._start_again()

    def _lose_power_now(self) -> None:
        """In the middle of the node's own code, which goes no further."""
        self._disk._is_down = True
        self._note_crash()
        raise SimulatedCrash("at a point that was armed")

    async def _make_topics(self) -> None:
        auditor = Auditor(self, STEPS)
        for topic, numbers in by_topic([*ACCOUNTS, *(step.source for step in STEPS)]).items():
            await auditor.create(topic, len(numbers))
        auditor.hang_up()

    def make_producers(self) -> Sequence[TransactionalProducer]:
        """Some alone with their ids, some in pairs that replace each other, some that work off a source."""
        forgetful = TransactionalProducer(self, "forgetful", "forgetful")
        forgetful.abort_chance, forgetful.new_chance, forgetful.reuse_chance = 0.5, 0.0, 1.0
        return [
            forgetful,
            TransactionalProducer(self, "alone0", "alone0"),
            TransactionalProducer(self, "alone1", "alone1", trouble=0),
            TransactionalProducer(self, "pair0", "pair"),
            TransactionalProducer(self, "pair1", "pair", trouble=2),
            TransactionalProducer(self, "worker0", "worker0", group=GROUPS[0]),
            TransactionalProducer(self, "worker1", "worker1", group=GROUPS[1]),
            TransactionalProducer(self, "spare1", "worker1", group=GROUPS[1]),
        ]

    # Checks.

    async def _check_everything_of_bank(self, *, within_s: float) -> None:
        """All is decided within some seconds, and as it should be."""
        await self._wait_settled(within_s)
        reader, auditor = Reader(self, "last-reader"), Auditor(self, STEPS)
        async with soon("everything can be read"):
            await reader.read_all()
            self.bank.check_all(reader.found)
            for step in STEPS:
                self.bank.check_progress(step.source, await auditor.wait_stable(step))
        auditor.hang_up()
        self._check_nothing_open()

    async def _wait_settled(self, within_s: float) -> None:
        """Until no transaction is open, for the coordinator nor for a reader."""
        deadline_s = self.simulation.loop.time() + within_s
        reader, auditor = Reader(self, "settled-reader"), Auditor(self, STEPS)
        while True:
            is_late = self.simulation.loop.time() > deadline_s
            async with soon("the node can be asked"):
                left = await auditor.find_open()
                await reader.read_all()
            left += [f"{at}: stable to {low} of {high}" for at, (low, high) in reader.ends.items() if low < high]
            if not left:
                break
            if is_late:
                raise Violation(f"still open: {left}")
            await asyncio.sleep(0.2)
        auditor.hang_up()

    def _check_nothing_open(self) -> None:
        """What only the inside tells: of the topic of groups too."""
        assert self._node is not None
        assert self._node.broker is not None
        for partition in self._node.broker.logs.partitions.values():
            if partition.log.producers.open_transactions:
                raise Violation(f"{partition} has transactions open: {partition.log.producers.open_transactions}")

    async def _use_again(self, producers: Sequence[TransactionalProducer]) -> None:
        """Every transactional id can be used, and every source be worked off."""
        for producer in {each.transactional_id: each for each in producers}.values():
            producer.identity = NOBODY
            async with soon(f"{producer.transactional_id} can be used again"):
                while await producer.work() is None:
                    pass
            producer.hang_up()


class SmallBankWorld(BankWorld):
    """A few producers that give no trouble of their own."""

    def make_producers(self) -> Sequence[TransactionalProducer]:
        return [
            TransactionalProducer(self, "alone0", "alone0", trouble=0),
            TransactionalProducer(self, "alone1", "alone1", trouble=0),
            TransactionalProducer(self, "worker0", "worker0", group=GROUPS[0], trouble=0),
        ]


def cut_at(point: str) -> Run:
    """Runs whose node loses power again and again when a transaction comes to this point."""

    class CutWorld(SmallBankWorld):
        async def disturb(self) -> None:
            for _ in range(CUTS):
                await self.lose_power_at(point)

    return lambda seed: run_bank(CutWorld, seed)


def hang_up_at(point: str) -> Run:
    """Runs whose clients lose their connections again and again when a transaction comes to this point."""

    class HangUpWorld(SmallBankWorld):
        async def disturb(self) -> None:
            self._has_hung_up = asyncio.Event()
            POINTS_OF_NODE.crash = self._hang_up_now
            for _ in range(CUTS):
                POINTS_OF_NODE.armed = point
                async with soon(f"a transaction is {point}"):
                    await self._has_hung_up.wait()
                self._has_hung_up.clear()

        def _hang_up_now(self) -> None:
            self.simulation.network.reset_between(HOST)
            self.counts[f"hung up when {point}"] += 1
            self._has_hung_up.set()

    return lambda seed: run_bank(HangUpWorld, seed)


class UndecidedWorld(SmallBankWorld):
    """Older producers that abort most of the time, while they still write, on a disk so slow that the end of a
    transaction is often decided while its coordinator is asked about a write: nothing else goes wrong.
    """

    config = msgspec.structs.replace(
        TRANSACTION_CONFIG, transactions=TransactionSettings(transaction_state_log_num_partitions=1)
    )

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        simulation.offload(HOST).max_delay_s = SLOW_SYNC_S

    def make_producers(self) -> Sequence[TransactionalProducer]:
        producers = [TransactionalProducer(self, f"alone{n}", f"alone{n}", trouble=0) for n in range(8)]
        for producer in producers:
            producer.abort_chance, producer.new_chance = 0.7, 0.0
            producer.late_chance = producer.announce_chance = 1.0
        return producers

    async def disturb(self) -> None:
        await asyncio.sleep(10)


def run_undecided(seed: int) -> tuple[Counter[str], str]:
    """One run of such producers."""
    return run_bank(UndecidedWorld, seed)


def start_at_late_epochs(patch: pytest.MonkeyPatch) -> None:
    """Have producers come near the end of their epochs, so that some go on under another id."""

    def initialise(record: TransactionRecord) -> TransactionDecision[Initialised | AbortFirst]:
        if record.producer_epoch == 0:
            record = msgspec.structs.replace(record, producer_epoch=LAST_USED_EPOCH - 4)
        return Decision([record], Initialised(record.producer_id, record.producer_epoch))

    patch.setattr(initialising, "_initialise", initialise)


def run(seed: int) -> tuple[Counter[str], str]:
    """One run: what happened how often, and the hash of all of it."""
    return run_bank(BankWorld, seed)


def run_bank(kind: type[BankWorld], seed: int) -> tuple[Counter[str], str]:
    """One run of such a bank."""
    with pytest.MonkeyPatch.context() as patch:
        install(patch)
        if seed % 3 == 2:
            start_at_late_epochs(patch)
        return run_world(kind, seed, max_steps=4_000_000)


if __name__ == "__main__":
    import sys

    print(*run(int(sys.argv[1])))
