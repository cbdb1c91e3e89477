"""Members of the protocol of KIP-848 in simulation."""

from collections.abc import Iterable
from typing import Any, Final

from barnabas.wire.apis import CONSUMER_GROUP_HEARTBEAT
from tests.simulation.group_clients import GroupWorld, by_topic
from tests.simulation.group_codes import (
    BUSY,
    FENCED_EPOCH,
    FENCED_INSTANCE,
    GROUP_NOT_FOUND,
    UNKNOWN_MEMBER,
    UNRELEASED_INSTANCE,
)
from tests.simulation.group_history import SESSION_S, At, GroupHistory, Owner
from tests.simulation.group_members import REBALANCE_S, Member
from tests.simulation.node_clients import OK
from tests.simulation.node_history import Violation

LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2


class ConsumerMember(Member):
    """A member of the protocol of KIP-848. It gives up what it is told to, says so, and then takes what is new."""

    def __init__(self, world: GroupWorld, group: GroupHistory, name: str, *, is_static: bool) -> None:
        super().__init__(world, group, name, is_static=is_static)
        self.owner = Owner(name)
        self.is_told = False  # what it holds now
        self.is_certain = False  # of what the coordinator has heard
        self._serial = 0
        self.epoch = 0
        group.owners.append(self.owner)

    def choose_commit_version(self) -> int:
        return 9  # the first that has member epochs

    @property
    def owned(self) -> Iterable[At]:
        return self.owner.holds

    def abandon(self) -> None:
        self.remember()
        self.owner.holds = set()
        self.positions = {}
        self.epoch = 0

    async def work(self) -> None:
        if not self.member_id:
            self._serial += 1
            self.member_id = self.owner.member_id = f"{self.name}.{self._serial}"
        if self.epoch and not await self.read_on(self.owner.holds, chance=0.4):
            self.is_certain = False  # the heartbeat says what is wrong
        await self._heartbeat()

    async def _heartbeat(self) -> None:
        is_full = self.epoch == 0 or not self.is_certain
        says = is_full or not self.is_told
        if self.epoch == 0:
            self.group.gone.pop(self.member_id, None)  # it comes back under the same name
        sent_s = self.world.now_s()
        self.is_certain, self.is_told = False, True
        answer = await self.put(
            CONSUMER_GROUP_HEARTBEAT,
            1,
            {
                "group_id": self.group.name,
                "member_id": self.member_id,
                "member_epoch": self.epoch,
                "instance_id": self.instance_id,
                "rebalance_timeout": int(REBALANCE_S * 1000) if is_full else -1,
                "subscribed_topic_names": self.topics if is_full else None,
                "topic_partitions": self._holds() if says else None,
            },
        )
        if answer is None:
            return
        if answer.error_code:
            self._take_refusal(int(answer.error_code))
            return
        self.is_certain = True
        if answer.member_epoch != self.epoch:
            self.remember()
        self.epoch = answer.member_epoch
        self.group.note_epoch(self.member_id, self.epoch)
        self.owner.heard_s = sent_s
        if answer.assignment is not None:
            names = {topic_id: topic for topic, topic_id in self.world.ids.items()}
            await self._take(
                {At(names[each.topic_id], n) for each in answer.assignment.topic_partitions for n in each.partitions}
            )
        self.group.check_owner(self.owner, now_s=self.world.now_s(), session_s=SESSION_S)

    async def _take(self, assigned: set[At]) -> None:
        lost, new = self.owner.holds - assigned, assigned - self.owner.holds
        # It has them from now on, and no more those that it lost once it has committed.
        self.owner.holds |= new
        self.group.check_owner(self.owner, now_s=self.world.now_s(), session_s=SESSION_S)
        if lost:
            await self.read_on(lost)
            self.world.counts["revoked"] += 1
        self.owner.holds = assigned
        self.positions = {at: offset for at, offset in self.positions.items() if at in assigned}
        self.is_told = not lost and not new
        if not await self.find_positions(new, author=self.author):
            self.is_certain = False

    def _holds(self) -> list[Any]:
        held = by_topic(self.owner.holds)
        return [{"topic_id": self.world.ids[topic], "partitions": numbers} for topic, numbers in held.items()]

    def _take_refusal(self, code: int) -> None:
        if code in BUSY:
            return
        if code in (FENCED_EPOCH, UNKNOWN_MEMBER, FENCED_INSTANCE, GROUP_NOT_FOUND):
            if code == UNKNOWN_MEMBER:
                self.group.gone[self.member_id] = None
            self.abandon()
            self.world.counts["out of step"] += 1
        elif code != UNRELEASED_INSTANCE or self.instance_id is None:
            raise Violation(f"{self.name}: its heartbeat is refused with {code}")

    async def leave(self) -> None:
        is_back_soon = self.instance_id is not None and self.random.random() < 0.6
        epoch = STATIC_LEAVE_EPOCH if is_back_soon else LEAVE_EPOCH
        self.remember()
        self.owner.holds = set()
        answer = await self.put(
            CONSUMER_GROUP_HEARTBEAT,
            1,
            {
                "group_id": self.group.name,
                "member_id": self.member_id,
                "member_epoch": epoch,
                "instance_id": self.instance_id,
                "rebalance_timeout": -1,
                "subscribed_topic_names": None,
                "topic_partitions": None,
            },
        )
        if answer is not None and answer.error_code == OK:
            self.group.gone[self.member_id] = None
