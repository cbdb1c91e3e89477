"""Members of the classic protocol in simulation, and how they assign when they lead."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from barnabas.core.groups import embedded
from barnabas.wire.apis import FIND_COORDINATOR, HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from tests.simulation.group_clients import GroupWorld
from tests.simulation.group_codes import (
    BUSY,
    FENCED_INSTANCE,
    ILLEGAL_GENERATION,
    MEMBER_ID_REQUIRED,
    REBALANCING,
    UNKNOWN_MEMBER,
)
from tests.simulation.group_history import SESSION_S, At, GroupHistory
from tests.simulation.group_members import REBALANCE_S, Member
from tests.simulation.node_clients import OK
from tests.simulation.node_history import Violation

REBALANCE_ANSWER_S: Final = 3 * REBALANCE_S


class ClassicMember(Member):
    """A member of the classic protocol, which assigns when it leads."""

    def __init__(self, world: GroupWorld, group: GroupHistory, name: str, *, is_static: bool) -> None:
        super().__init__(world, group, name, is_static=is_static)
        self.partitions: frozenset[At] | None = None  # None: it has to join

    @property
    def owned(self) -> Iterable[At]:
        return self.partitions or ()

    async def work(self) -> None:
        if self.partitions is None:
            await self._join()
        elif not await self.read_on(self.partitions):
            self.abandon()
        else:
            await self._heartbeat()

    def abandon(self) -> None:
        self.remember()
        self.partitions = None
        self.positions = {}

    async def _heartbeat(self) -> None:
        is_old = self.group.is_fenced(self.author, incarnation=0)
        answer = await self.put(HEARTBEAT, self.random.choice((3, 4)), self._me())
        if answer is not None and answer.error_code == OK and is_old:
            raise Violation(f"{self.group.name}: {self.author} is not told that it is out of step")
        if answer is None or answer.error_code == OK:
            return
        self._take_refusal(int(answer.error_code), "heartbeat")

    def _me(self) -> dict[str, Any]:
        return {
            "group_id": self.group.name,
            "generation_id": self.epoch,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }

    def _take_refusal(self, code: int, what: str) -> None:
        if code in BUSY:
            return
        if code not in (REBALANCING, ILLEGAL_GENERATION, UNKNOWN_MEMBER, FENCED_INSTANCE):
            raise Violation(f"{self.name}: its {what} is refused with {code}")
        self.abandon()
        if code in (UNKNOWN_MEMBER, FENCED_INSTANCE):
            self.group.gone[self.member_id] = self.world.incarnation
            self.member_id = ""

    async def _join(self) -> None:
        if self.random.random() < 0.1:
            await self.put(FIND_COORDINATOR, 3, {"key": self.group.name, "key_type": 0})
        subscription = embedded.build_subscription(embedded.Subscription(1, self.topics))
        request = {
            "group_id": self.group.name,
            "session_timeout": int(SESSION_S * 1000),
            "rebalance_timeout": int(REBALANCE_S * 1000),
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": subscription} for name in ("range", "roundrobin")],
        }
        version = self.random.choice((5, 7, 9) if self.instance_id else (3, 4, 7, 9))
        answer = await self.put(JOIN_GROUP, version, request, timeout_s=REBALANCE_ANSWER_S)
        if answer is None:
            return
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            await self._join()
        elif answer.error_code:
            self._take_refusal(int(answer.error_code), "join")
        else:
            self.member_id, self.epoch = answer.member_id, answer.generation_id
            await self._sync(answer, skips=getattr(answer, "skip_assignment", False))

    async def _sync(self, joined: Any, *, skips: bool) -> None:
        assignments: list[Any] = []
        if joined.leader == self.member_id and not skips:
            wants = {each.member_id: embedded.parse_subscription(each.metadata).topics for each in joined.members}
            if self.member_id not in wants:
                raise Violation(f"{self.name}: leads generation {self.epoch} and is not in it")
            shares = assign(joined.protocol_name, wants, self.world.counts_of)
            assignments = [{"member_id": who, "assignment": _encode(share)} for who, share in shares.items()]
            self.world.counts["led"] += 1
        protocol = {"protocol_type": "consumer", "protocol_name": joined.protocol_name}
        answer = await self.put(
            SYNC_GROUP,
            self.random.choice((3, 4, 5)),
            {**self._me(), **protocol, "assignments": assignments},
            timeout_s=REBALANCE_ANSWER_S,
        )
        if answer is None:
            return
        if answer.error_code:
            self._take_refusal(int(answer.error_code), "sync")
            return
        given = embedded.parse_assignment(answer.assignment).partitions if answer.assignment else {}
        mine = frozenset(At(topic, number) for topic, numbers in given.items() for number in numbers)
        self.group.note_synced(self.epoch, self.member_id, self.instance_id or self.member_id, mine)
        self.positions = {}
        if await self.find_positions(mine):
            self.partitions = mine
            self.world.counts["synced"] += 1

    async def leave(self) -> None:
        members = [{"member_id": self.member_id, "group_instance_id": self.instance_id}]
        answer = await self.put(
            LEAVE_GROUP, self.random.choice((3, 5)), {"group_id": self.group.name, "members": members}
        )
        if answer is not None and answer.error_code == OK:
            # What is in memory alone until the next generation is made, so it holds as long as the node runs.
            self.group.gone[self.member_id] = self.world.incarnation


def assign(
    assignor: str, wants: Mapping[str, Sequence[str]], counts_of: Mapping[str, int]
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Who reads what, topic by topic among those that want it."""
    shares: dict[str, dict[str, tuple[int, ...]]] = {who: {} for who in wants}
    for topic in sorted({topic for topics in wants.values() for topic in topics}):
        readers = sorted(who for who, topics in wants.items() if topic in topics)
        count = counts_of[topic]
        size, left = divmod(count, len(readers))
        for number, who in enumerate(readers):
            first = number * size + min(number, left)
            every_nth = range(number, count, len(readers))
            shares[who][topic] = tuple(
                every_nth if assignor == "roundrobin" else range(first, first + size + (number < left))
            )
    return shares


def _encode(share: Mapping[str, tuple[int, ...]]) -> bytes:
    return embedded.build_assignment(embedded.EmbeddedAssignment(1, share))
