"""Groups on a whole node in simulation: members come, hang, restart and go while the node is crashed and cut off.

`run(seed)` has some groups of 1 to 20 members, classic and of KIP-848, work for some virtual seconds of faults. What
they are told is checked as it comes (`group_history`). Once the faults are over every group must become stable soon,
with every partition owned, and so again after a last power cut and after a clean stop. A failure names its seed.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from barnabas.services.settings.catalogue.group_settings import GroupSettings
from barnabas.testing.disk import Keep
from barnabas.testing.simulation import Simulation
from barnabas.wire.apis import CONSUMER_GROUP_HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, OFFSET_COMMIT, SYNC_GROUP
from tests.simulation.group_clients import Auditor, GroupClient, GroupWorld, Loner
from tests.simulation.group_history import SESSION_S, GroupHistory
from tests.simulation.group_members import HEARTBEAT_S, Member
from tests.simulation.group_members_classic import ClassicMember
from tests.simulation.group_members_consumer import ConsumerMember
from tests.simulation.node_history import Violation
from tests.simulation.node_support import CONFIG, NodeWorld, run_world, soon

TOPICS: Final = {"letters": 5, "numbers": 3}
GROUP_CONFIG: Final = msgspec.structs.replace(
    CONFIG,
    groups=GroupSettings(
        offsets_topic_num_partitions=3,
        group_initial_rebalance_delay_ms=300,
        group_min_session_timeout_ms=500,
        group_consumer_heartbeat_interval_ms=int(HEARTBEAT_S * 1000),
        group_consumer_session_timeout_ms=int(SESSION_S * 1000),
    ),
)


class GroupsWorld(NodeWorld):
    """One node, its groups, and what goes wrong."""

    config = GROUP_CONFIG
    faults = 6
    gap_s = 2.0
    sizes: tuple[int, ...] = (1, 2, 3, 4, 6, 10, 20)  # of groups
    promises = frozenset((OFFSET_COMMIT, JOIN_GROUP, SYNC_GROUP, LEAVE_GROUP, CONSUMER_GROUP_HEARTBEAT))

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.is_calm = False
        self.incarnation = 0
        self.disturbed_s = 0.0
        self.counts_of: dict[str, int] = {}
        self.ids: dict[str, UUID] = {}
        self._ticks = 0
        self._make = simulation.random("groups")

    def now_s(self) -> float:
        return self.simulation.loop.time()

    def tick(self) -> int:
        self._ticks += 1
        return self._ticks

    async def run(self) -> None:
        self._failure = asyncio.get_running_loop().create_future()
        self._start()
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch())
            admin = GroupClient(self, "admin")
            for topic, partitions in TOPICS.items():
                await admin.create(topic, partitions)
            await admin.make_groups_roll()
            admin.hang_up()
            members = [
                self._make_members(ClassicMember, "classic"),
                self._make_members(ConsumerMember, "consumer"),
                self._make_mixed(),
            ]
            alone = GroupHistory("alone", ("letters",))
            auditor = Auditor(self, [alone, *(group[0].group for group in members)])
            clients: list[Member | Loner | Auditor] = [member for group in members for member in group]
            working = [tasks.create_task(client.run()) for client in (*clients, Loner(self, alone, "loner"), auditor)]
            await self._break_things()
            self.is_calm = True
            await self._check_everything_of(members)
            self._crash(Keep.NOTHING)
            self._start()
            await self._check_everything_of(members)
            await self._stop()
            self._start()
            await self._check_everything_of(members)
            self.is_over = True
            async with soon("every member is done"):
                await asyncio.gather(*working)
            await self._stop()
            watching.cancel()

    def _make_members(self, kind: type[ClassicMember] | type[ConsumerMember], name: str) -> Sequence[Member]:
        group = GroupHistory(name, self._make.choice((("letters",), ("letters", "numbers"))))
        static = self._make.choice((0, 0.3, 1))
        return [
            kind(self, group, f"{name}{number}", is_static=self._make.random() < static)
            for number in range(self._make.choice(self.sizes))
        ]

    def _make_mixed(self) -> Sequence[Member]:
        """Members of both protocols in one group, which is converted as they come and go."""
        group = GroupHistory("mixed", ("letters", "numbers"), is_mixed=True)
        kinds = [ClassicMember, ConsumerMember, *self._make.choices((ClassicMember, ConsumerMember), k=2)]
        return [kind(self, group, f"mixed{number}", is_static=False) for number, kind in enumerate(kinds)]

    # Faults, noted.

    def _start(self) -> None:
        self.incarnation += 1
        self.disturbed_s = self.now_s()
        super()._start()

    async def _stop(self) -> None:
        self.disturbed_s = self.now_s()
        await super()._stop()

    async def _reset(self) -> None:
        self.disturbed_s = self.now_s()
        await super()._reset()

    async def _cut(self) -> None:
        self.disturbed_s = 1e9
        await super()._cut()
        self.disturbed_s = self.now_s()

    def _note_crash(self) -> None:
        self.disturbed_s = 1e9  # until it is started again
        super()._note_crash()

    # Checks.

    async def _check_everything_of(self, members: Sequence[Sequence[Member]]) -> None:
        auditor = Auditor(self, [group[0].group for group in members])
        for group in members:
            await self._wait_stable(auditor, group)
        before = [[member.author for member in group] for group in members]
        await asyncio.sleep(1.5 * SESSION_S)
        for group, was in zip(members, before, strict=True):
            now = [member.author for member in group]
            wrong = await find_wrong(self, auditor, group)
            if now != was or wrong:
                raise Violation(f"{group[0].group.name} was stable as {was} and is now {now}: {wrong}")
            async with soon("offsets can be fetched"):
                while not await auditor.audit(group[0].group):
                    pass
        auditor.hang_up()

    async def _wait_stable(self, auditor: Auditor, members: Sequence[Member]) -> None:
        wrong = "nobody looked"
        try:
            async with soon(f"{members[0].group.name} is stable"):
                while wrong := await find_wrong(self, auditor, members):  # noqa: ASYNC110 - asks the node
                    await asyncio.sleep(0.5)
        except Violation as violation:
            violation.add_note(wrong)
            raise
        self.counts["stable"] += 1


async def find_wrong(world: GroupWorld, auditor: Auditor, members: Sequence[Member]) -> str:
    """What is missing for a group of these members to be stable."""
    group = members[0].group
    is_classic = all(isinstance(member, ClassicMember) for member in members)
    if any(member.is_in_trouble for member in members):
        return "a member hangs, or is away"
    if not group.is_mixed and len({member.epoch for member in members}) > 1:
        return f"members are in {sorted({member.epoch for member in members})}"
    topics = sorted({topic for member in members for topic in member.topics})
    if wrong := group.check_all_owned([member.owned for member in members], world.counts_of, topics):
        return wrong
    describe = auditor.describe_classic if is_classic else auditor.describe_consumer
    async with soon(f"{group.name} can be described"):
        while (found := await describe(group)) is None:
            pass
    if found != ("Stable", {member.member_id: set(member.owned) for member in members}):
        return f"it is described as {found}"
    return ""


class SmallGroupsWorld(GroupsWorld):
    """Groups of a few members: enough to notice a bug that is planted, in a fraction of the time."""

    sizes = (2, 3)


def run_small(seed: int) -> tuple[Counter[str], str]:
    """One run with small groups."""
    return run_world(SmallGroupsWorld, seed, max_steps=4_000_000)


def run(seed: int) -> tuple[Counter[str], str]:
    """One run: what happened how often, and the hash of all of it."""
    return run_world(GroupsWorld, seed, max_steps=4_000_000)


if __name__ == "__main__":
    import sys

    print(*run(int(sys.argv[1])))
