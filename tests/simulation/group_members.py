"""Members of groups, of both protocols, dynamic and static: they join, read on, commit, hang, restart and leave.

Each does one thing at a time on a connection of its own. What it reads is of no concern here: it takes the offset that
is committed, goes on by some, and commits. One that wakes up, or has moved on, also tries to commit as what it was
before, which must be refused once others can know that it is not that any more.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from tests.simulation.group_clients import GroupClient, GroupWorld
from tests.simulation.group_codes import BUSY, OUT_OF_STEP, REBALANCING
from tests.simulation.group_history import SESSION_S, At, Author, GroupHistory
from tests.simulation.node_clients import OK
from tests.simulation.node_history import Violation

REBALANCE_S: Final = 5.0
HEARTBEAT_S: Final = 0.5
TROUBLE: Final = 0.12  # the chance that a member does something else than its work, each time


class Member(GroupClient):
    """A member that does its work, and at times something else."""

    def __init__(self, world: GroupWorld, group: GroupHistory, name: str, *, is_static: bool) -> None:
        super().__init__(world, name)
        self.group = group
        self.instance_id = name if is_static else None
        self.member_id = ""
        self.epoch = -1  # or the generation
        self.positions: dict[At, int] = {}
        self.topics = self._choose_topics()
        self.former: list[Author] = []  # what it was before
        self.is_in_trouble = False

    def _choose_topics(self) -> tuple[str, ...]:
        count = self.random.randrange(len(self.group.topics)) + 1
        return tuple(sorted(self.random.sample(self.group.topics, count)))

    @property
    def author(self) -> Author:
        return Author(self.member_id, self.epoch)

    @property
    def owned(self) -> Iterable[At]:
        raise NotImplementedError

    async def run(self) -> None:
        await asyncio.sleep(self.random.uniform(0, 2))
        while not self.world.is_over:
            if not self.world.is_calm and self.random.random() < TROUBLE:
                trouble = self.random.choice(
                    (self._hang, self._hang, self._restart, self._lose_connection, self._leave)
                )
                self.world.counts[trouble.__name__.strip("_")] += 1
                self.is_in_trouble = True
                await trouble()
                self.is_in_trouble = False
            await self.work()
            if self.former and self.random.random() < 0.1:
                await self._commit_as_before()
            await asyncio.sleep(HEARTBEAT_S * self.random.uniform(0.7, 1))
        self.hang_up()

    async def work(self) -> None:
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError

    def abandon(self) -> None:
        """It has nothing any more."""
        raise NotImplementedError

    # Trouble.

    async def _hang(self) -> None:
        await asyncio.sleep(self.random.uniform(0.5, 3 * SESSION_S))
        if self.positions and self.random.random() < 0.7:
            await self.read_on(self.owned)  # it does not know yet

    async def _restart(self) -> None:
        self.hang_up()
        self._become_new()
        await asyncio.sleep(self.random.choice((0, 0.5, 2, 5)))

    async def _lose_connection(self) -> None:
        self.hang_up()

    async def _leave(self) -> None:
        if self.member_id:
            await self.leave()
        self._become_new()
        await asyncio.sleep(self.random.choice((0, 1, 4)))

    def _become_new(self) -> None:
        self.remember()
        self.abandon()
        self.member_id = ""
        self.topics = self._choose_topics()

    def remember(self) -> None:
        """It is about to become somebody else."""
        if self.member_id and self.epoch > 0:
            self.former = [*self.former[-3:], self.author]

    async def _commit_as_before(self) -> None:
        """As what it was: over for good, else a restarted node might take it rightly."""
        author = self.random.choice(self.former)
        at = At(self.topics[0], self.random.randrange(self.world.counts_of[self.topics[0]]))
        is_over = self.group.must_refuse(author, [at], incarnation=0, now_s=self.world.now_s())
        if author != self.author and is_over:
            await self.commit(self.group, author, {at: self.random.randrange(3)}, instance_id=self.instance_id)

    # Work.

    async def read_on(self, partitions: Iterable[At], *, chance: float = 0.6) -> bool:
        """Read some of these and commit; False when the member is out of step."""
        offsets = {}
        for at in sorted(partitions):
            if at in self.positions and self.random.random() < chance:
                self.positions[at] += self.random.randrange(1, 20)
                offsets[at] = self.positions[at]
        if not offsets:
            return True
        code = await self.commit(self.group, self.author, offsets, instance_id=self.instance_id)
        if code not in (None, OK, REBALANCING, *BUSY, *OUT_OF_STEP):
            raise Violation(f"{self.name}: a commit is refused with {code}")
        return code not in OUT_OF_STEP

    async def find_positions(self, partitions: Iterable[At], *, author: Author | None = None) -> bool:
        """Where to read on; False when the member is out of step."""
        wanted = [at for at in sorted(partitions) if at not in self.positions]
        while wanted:
            found = await self.fetch_committed(self.group, wanted, author=author)
            if isinstance(found, dict):
                self.positions |= {at: max(offset, 0) for at, offset in found.items()}
                return True
            if found in OUT_OF_STEP:
                return False
            if found is not None and found not in BUSY:
                raise Violation(f"{self.name}: offsets are refused with {found}")
            await asyncio.sleep(0.1)
        return True
