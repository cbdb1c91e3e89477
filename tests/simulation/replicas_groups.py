"""Groups of both protocols in a simulated cluster, whose coordinators are on several nodes and move between them.

Members and what is checked of what they are told are those of one node (`group_history`). What a coordinator knows by
heart alone, as that a classic member has left, may be forgotten whenever another node takes over, and is not relied on.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from random import Random
from typing import Any, Final
from uuid import UUID

from barnabas.testing.network import LOCALHOST
from barnabas.wire.apis import Api
from barnabas.wire.writing import Values
from tests.simulation.group_clients import ANSWER_S, Auditor, GroupClient, Loner
from tests.simulation.group_codes import BUSY
from tests.simulation.group_history import SESSION_S, At, Author, GroupHistory
from tests.simulation.group_members import HEARTBEAT_S, Member
from tests.simulation.group_members_classic import ClassicMember
from tests.simulation.group_members_consumer import ConsumerMember
from tests.simulation.group_support import find_wrong
from tests.simulation.node_clients import OK
from tests.simulation.node_history import TopicLife, Violation
from tests.simulation.replicas_clients import Topic
from tests.simulation.replicas_truth import Promise
from tests.simulation.replicas_ways import ReplicatedWorld, Ways

TOPICS: Final = {
    "letters": (3, Promise(1, 1, has_values=False)),
    "numbers": (2, Promise(1, 1, has_values=False)),
}
PROPERTIES: Final = {
    "group.initial.rebalance.delay.ms": "300",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": str(int(HEARTBEAT_S * 1000)),
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": str(int(SESSION_S * 1000)),
}


class GroupsWorld:
    """What members of groups ask of the simulation."""

    def __init__(self, cluster: ReplicatedWorld) -> None:
        self.cluster = cluster
        self.counts: Counter[str] = cluster.counts
        self.lives: dict[str, TopicLife] = {}
        self.producer_ids: dict[int, None] = {}
        self.is_over = self.is_calm = False
        self.disturbed_s = 1e9  # silence is no violation: `replicas_world` says how long it may take
        self.counts_of: dict[str, int] = {}
        self.ids: dict[str, UUID] = {}
        self.topics: dict[str, Topic] = {}
        self._ticks = 0

    @property
    def incarnation(self) -> int:
        """Another one whenever somebody asks: nobody knows which node coordinates, nor since when."""
        return self.tick()

    def add(self, topic: Topic) -> None:
        """A topic is there."""
        self.topics[topic.name] = topic
        self.ids[topic.name] = topic.topic_id
        self.counts_of[topic.name] = topic.partitions

    def random(self, name: str) -> Random:
        return self.cluster.random_for(f"groups/{name}")

    def now_ms(self) -> int:
        return self.cluster.simulation.clock(LOCALHOST).now_ms()

    def now_s(self) -> float:
        return self.cluster.simulation.loop.time()

    def tick(self) -> int:
        self._ticks += 1
        return self._ticks

    def note_answer(self, api: Api) -> None:
        """The cluster is told by the `Ways` to it, which know whose answer that is."""


class GroupAsking(GroupClient):
    """Somebody who asks about groups in a cluster."""

    world: GroupsWorld

    @cached_property
    def ways(self) -> Ways:
        return Ways(self.world.cluster, f"groups/{self.name}", self.world.topics)

    async def put(self, api: Api, version: int, values: Values, *, timeout_s: float = ANSWER_S) -> Any:
        answer = await self.ways.send(api, version, values, timeout_s=timeout_s)
        if answer is None:
            self.world.counts["unanswered"] += 1
        return answer

    def hang_up(self) -> None:
        self.ways.hang_up()


class Classic(GroupAsking, ClassicMember):
    """A member of the classic protocol."""


class Consuming(GroupAsking, ConsumerMember):
    """A member of the protocol of KIP-848."""


class GroupAuditor(GroupAsking, Auditor):
    """Fetches what groups have committed."""


class GroupLoner(GroupAsking, Loner):
    """Commits from outside of any group protocol, and looks whether that is there when it was not answered."""

    async def run(self) -> None:
        at, offset, code = At(self.group.topics[0], 0), 0, None
        while not self.world.is_over:
            if code is None or self.random.random() < 0.2:
                # Before anything newer is committed, which would hide that the last is lost.
                await self.fetch_committed(self.group, [at])
            offset += 1
            code = await self.commit(self.group, Author("", -1), {at: offset})
            if code not in (None, OK, *BUSY):
                raise Violation(f"{self.name}: a commit is refused with {code}")
            await asyncio.sleep(self.random.expovariate(5))
        self.hang_up()


class GroupClients:
    """All members of all groups, and what must hold when nothing goes wrong any more."""

    def __init__(self, world: GroupsWorld) -> None:
        self.world = world
        random = world.random("groups")
        alone, mixed = GroupHistory("alone", ("letters",)), GroupHistory("mixed", tuple(TOPICS), is_mixed=True)
        classic, consumer = GroupHistory("classic", tuple(TOPICS)), GroupHistory("consumer", tuple(TOPICS))
        self.members: list[Sequence[Member]] = [
            [Classic(world, classic, f"classic{n}", is_static=random.random() < 0.3) for n in range(2)],
            [Consuming(world, consumer, f"consumer{n}", is_static=random.random() < 0.3) for n in range(2)],
        ]
        if random.random() < 0.3:
            members = (
                Classic(world, mixed, "mixed0", is_static=False),
                Consuming(world, mixed, "mixed1", is_static=False),
            )
            self.members.append(members)
        self._loner = GroupLoner(world, alone, "loner")
        self._groups = [alone, *(members[0].group for members in self.members)]
        self._auditor = GroupAuditor(world, self._groups)
        self._working: list[asyncio.Task[None]] = []

    def start(self, tasks: asyncio.TaskGroup) -> None:
        clients: list[Member | GroupLoner | GroupAuditor] = [member for members in self.members for member in members]
        self._working = [tasks.create_task(client.run()) for client in (*clients, self._loner, self._auditor)]

    async def check(self) -> None:
        """Every group becomes stable, and what was committed is there."""
        self.world.is_calm = True
        auditor = GroupAuditor(self.world, self._groups)
        for members in self.members:
            while await find_wrong(self.world, auditor, members):  # noqa: ASYNC110 - asks the cluster
                await asyncio.sleep(0.5)
        self.world.counts["stable"] += 1
        for group in self._groups:
            while not await auditor.audit(group):
                pass
        auditor.hang_up()

    async def end(self) -> None:
        self.world.is_over = True
        await asyncio.gather(*self._working)
