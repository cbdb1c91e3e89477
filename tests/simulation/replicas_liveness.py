"""What works again soon after all faults are over, for clients that have nothing to do with what happened before:
records, a transaction, and groups of both protocols.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from barnabas.testing.wire_client import ACKS_ALL
from tests.simulation.group_history import GroupHistory
from tests.simulation.node_history import Violation
from tests.simulation.replicas_bank import BankProducer, BankWorld
from tests.simulation.replicas_clients import Producer, Target, World
from tests.simulation.replicas_groups import TOPICS as GROUP_TOPICS
from tests.simulation.replicas_groups import Classic, Consuming, GroupsWorld

ALIVE_S: Final = 12.0
"""The session of a broker (2 s), the lag of replicas (1.5 s), a request that is not answered (up to 6 s), and some
elections.
"""


class Liveness:
    """Fresh clients, and how long each took, from when it began."""

    def __init__(self, cluster: World, bank: BankWorld, groups: GroupsWorld) -> None:
        self.took_s: dict[str, float] = {}
        self._cluster = cluster
        self._bank = bank
        self._groups = groups

    async def check(self) -> None:
        """All of it at once, each within `ALIVE_S`."""
        works: dict[str, Callable[[], Awaitable[None]]] = {
            "every partition takes a record": self._write,
            "a transaction is committed": self._transact,
            "a classic group is joined": self._join_classic,
            "a consumer group is joined": self._join_consumer,
        }
        async with asyncio.TaskGroup() as tasks:
            for what, work in works.items():
                tasks.create_task(self._time(what, work))

    async def _time(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            async with asyncio.timeout(ALIVE_S):
                await work()
        except TimeoutError:
            raise Violation(f"{ALIVE_S} s passed after healing before {what}") from None
        self.took_s[what] = loop.time() - began_s

    async def _write(self) -> None:
        producer = Producer(self._cluster, "allive", acks=ACKS_ALL, is_idempotent=True)
        for topic in list(self._cluster.topics):
            for number in range(topic.partitions):
                if not topic.may_be_gone:
                    await producer.write(Target(topic, number))
        producer.hang_up()

    async def _transact(self) -> None:
        producer = BankProducer(self._bank, "alive", "alive", trouble=0)
        producer.abort_chance = 0
        while await producer.work() is None:
            pass
        producer.hang_up()

    async def _join_classic(self) -> None:
        member = Classic(self._groups, GroupHistory("alive-classic", tuple(GROUP_TOPICS)), "alive0", is_static=False)
        while member.partitions is None:
            await member.work()
        await member.leave()
        member.hang_up()

    async def _join_consumer(self) -> None:
        member = Consuming(self._groups, GroupHistory("alive-consumer", tuple(GROUP_TOPICS)), "alive1", is_static=False)
        wanted = sum(self._groups.counts_of[topic] for topic in member.topics)
        while len(member.owner.holds) < wanted:
            await member.work()
        await member.leave()
        member.hang_up()
