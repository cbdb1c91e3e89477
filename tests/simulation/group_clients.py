"""Members of groups, of both protocols, dynamic and static: they join, read on, commit, hang, restart and leave.

Each does one thing at a time on a connection of its own. What it reads is of no concern here: it takes the offset that
is committed, goes on by some, and commits. One that wakes up, or has moved on, also tries to commit as what it was
before, which must be refused once others can know that it is not that any more.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from barnabas.core.groups import embedded
from barnabas.testing import wire_client as wire
from barnabas.testing.wire_client import WireClient
from tests.simulation.group_history import NO_OFFSET, At, Author, Commit, GroupHistory, Owner
from tests.simulation.node_clients import OK, TOPIC_EXISTS, Client, World
from tests.simulation.node_history import Violation

OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
DESCRIBE_GROUPS: Final = 15
CONSUMER_GROUP_HEARTBEAT: Final = 68
CONSUMER_GROUP_DESCRIBE: Final = 69

BUSY: Final = (14, 15, 16)  # the coordinator loads, or is not there
ILLEGAL_GENERATION: Final = 22
UNKNOWN_MEMBER: Final = 25
REBALANCING: Final = 27
MEMBER_ID_REQUIRED: Final = 79
FENCED_INSTANCE: Final = 82
FENCED_EPOCH: Final = 110
UNRELEASED_INSTANCE: Final = 111
STALE_EPOCH: Final = 113
GROUP_NOT_FOUND: Final = 69
OUT_OF_STEP: Final = (ILLEGAL_GENERATION, UNKNOWN_MEMBER, FENCED_INSTANCE, FENCED_EPOCH, STALE_EPOCH, GROUP_NOT_FOUND)

SESSION_S: Final = 3.0
REBALANCE_S: Final = 5.0
HEARTBEAT_S: Final = 0.5
ANSWER_S: Final = 8.0  # longer than a request waits for groups to be loaded
REBALANCE_ANSWER_S: Final = 3 * REBALANCE_S
TROUBLE: Final = 0.12  # the chance that a member does something else than its work, each time
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2


class GroupWorld(World, Protocol):
    """What members ask of the simulation."""

    is_calm: bool  # nobody hangs, leaves or restarts any more
    incarnation: int  # how often the node was started
    disturbed_s: float  # when something was last done to the node or the network
    counts_of: dict[str, int]  # partitions by topic
    ids: dict[str, UUID]

    def now_s(self) -> float: ...

    def tick(self) -> int: ...


class GroupClient(Client):
    """Somebody who asks about groups, and insists on an answer, or on hearing that there will be none."""

    world: GroupWorld

    def __init__(self, world: GroupWorld, name: str) -> None:
        super().__init__(world, name)
        self._connected_s = 0.0

    async def connect(self) -> WireClient:
        had = self._wire
        client = await super().connect()
        if client is not had:
            self._connected_s = self.world.now_s()
        return client

    async def put(self, key: int, version: int, values: wire.Values, *, timeout_s: float = ANSWER_S) -> Any:
        """The answer, or None when the connection is lost. Silence where nothing is wrong is a violation."""
        client = await self.connect()
        try:
            return await client.ask(key, version, values, timeout_s=timeout_s)
        except TimeoutError:
            if self._connected_s > self.world.disturbed_s:
                raise Violation(f"{self.name}: API {key}, version {version}, had no answer in {timeout_s} s") from None
        except OSError:
            pass
        self.world.counts["unanswered"] += 1
        self.hang_up()
        return None

    # Topics.

    async def create(self, topic: str, partitions: int) -> None:
        while True:
            answer = await self.put(wire.CREATE_TOPICS, 7, wire.create_topic_request(topic, partitions=partitions))
            if answer is not None and answer.topics[0].error_code in (OK, TOPIC_EXISTS):
                break
        answer = await self.ask(wire.METADATA, 12, wire.metadata_request([topic]))
        self.world.ids[topic] = answer.topics[0].topic_id
        self.world.counts_of[topic] = partitions

    async def make_groups_roll(self) -> None:
        """Small segments for the topic of groups, cleaned often: groups are loaded while compaction replaces them."""
        while (found := await self.put(FIND_COORDINATOR, 3, {"key": "any", "key_type": 0})) is None or found.error_code:
            pass
        for name, value in (("internal.segment.bytes", "8192"), ("min.cleanable.dirty.ratio", "0.1")):
            answer = await self.ask(
                wire.INCREMENTAL_ALTER_CONFIGS, 1, wire.set_config_request("__consumer_offsets", name, value)
            )
            if answer.responses[0].error_code:
                raise Violation(f"{name} cannot be set: {answer.responses[0]}")

    # Offsets.

    async def fetch_committed(
        self, group: GroupHistory, partitions: Iterable[At] | None, *, author: Author | None = None
    ) -> dict[At, int] | int | None:
        """What is committed, checked; None when there is no answer, a code when it is refused."""
        by_topic = None if partitions is None else _by_topic(partitions)
        topics = None if by_topic is None else [{"name": t, "partition_indexes": p} for t, p in by_topic.items()]
        version = 9 if author is not None else self.random.choice((7, 8, 9))
        values: dict[str, Any] = {"group_id": group.name, "topics": topics}
        if author is not None:
            values |= {"member_id": author.member_id, "member_epoch": author.epoch}
        asked = self.world.tick()
        answer = await self.put(OFFSET_FETCH, version, values if version < 8 else {"groups": [values]})
        if answer is None:
            return None
        found = answer if version < 8 else answer.groups[0]
        if found.error_code:
            return int(found.error_code)
        committed: dict[At, int] = {}
        now = self.world.tick()
        for topic in found.topics:
            for each in topic.partitions:
                at = At(topic.name, each.partition_index)
                if each.error_code:
                    raise Violation(f"{group.name}: {at} cannot be fetched: {each.error_code!r}")
                group.of(at).note_fetched(each.committed_offset, each.metadata or "", asked=asked, now=now)
                committed[at] = each.committed_offset
        if partitions is None:  # whatever has ever been committed must be among all
            for at, history in group.offsets.items():
                if at not in committed:
                    history.note_fetched(NO_OFFSET, "", asked=asked, now=now)
        self.world.counts["fetched"] += 1
        return committed

    async def commit(
        self, group: GroupHistory, author: Author, offsets: Mapping[At, int], *, instance_id: str | None = None
    ) -> int | None:
        """Commit, and see to it that nobody may who may not; the code, None when there is no answer."""
        version = 9 if isinstance(self, ConsumerMember) else self.random.choice((7, 8, 9))
        commits = {}
        for at, offset in offsets.items():
            sent = self.world.tick()
            commits[at] = Commit(at, offset, f"{self.name}/{sent}", author, sent)
            group.of(at).note_sent(commits[at])
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": number,
                        "committed_offset": commits[At(topic, number)].offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": commits[At(topic, number)].tag,
                    }
                    for number in numbers
                ],
            }
            for topic, numbers in _by_topic(offsets).items()
        ]
        is_fenced = group.is_fenced(author, incarnation=self.world.incarnation)
        answer = await self.put(
            OFFSET_COMMIT,
            version,
            {
                "group_id": group.name,
                "generation_id_or_member_epoch": author.epoch,
                "member_id": author.member_id,
                "group_instance_id": instance_id,
                "topics": topics,
            },
        )
        if answer is None:
            return None
        now = self.world.tick()
        (code,) = {int(each.error_code) for topic in answer.topics for each in topic.partitions}
        if code == OK and is_fenced and group.is_fenced(author, incarnation=self.world.incarnation):
            raise Violation(f"{group.name}: {author} commits though it is fenced")
        for commit in commits.values():
            if code == OK:
                group.of(commit.at).note_acked(commit, now)
            else:
                commit.is_refused = code not in BUSY  # the log may have taken what could not be synced
        self.world.counts["committed" if code == OK else "fenced" if is_fenced else "refused"] += 1
        return code


def _by_topic(partitions: Iterable[At]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at in sorted(partitions):
        found.setdefault(at.topic, []).append(at.partition)
    return found


# Members of either protocol


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
        if author != self.author and self.group.is_fenced(author, incarnation=0):
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


# Classic members


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


# Members of consumer groups


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
        by_topic = _by_topic(self.owner.holds)
        return [{"topic_id": self.world.ids[topic], "partitions": numbers} for topic, numbers in by_topic.items()]

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


# Others


class Loner(GroupClient):
    """Commits from outside of any group protocol, as the only one of its group."""

    def __init__(self, world: GroupWorld, group: GroupHistory, name: str) -> None:
        super().__init__(world, name)
        self.group = group

    async def run(self) -> None:
        at, offset = At(self.group.topics[0], 0), 0
        while not self.world.is_over:
            offset += 1
            code = await self.commit(self.group, Author("", -1), {at: offset})
            if code not in (None, OK, *BUSY):
                raise Violation(f"{self.name}: a commit is refused with {code}")
            await asyncio.sleep(self.random.expovariate(15))
        self.hang_up()


class Auditor(GroupClient):
    """Fetches what groups have committed, now this one's, now that one's, and looks at them when all is quiet."""

    def __init__(self, world: GroupWorld, groups: Sequence[GroupHistory]) -> None:
        super().__init__(world, "auditor")
        self._groups = groups

    async def run(self) -> None:
        while not self.world.is_over:
            await self.audit(self.random.choice(self._groups))
            await asyncio.sleep(self.random.expovariate(5))
        self.hang_up()

    async def audit(self, group: GroupHistory) -> bool:
        """Whether there was an answer, which is then right."""
        found = await self.fetch_committed(group, None)
        if isinstance(found, int) and found not in BUSY:
            raise Violation(f"{group.name}: offsets are refused with {found}")
        return isinstance(found, dict)

    async def describe_classic(self, group: GroupHistory) -> tuple[str, dict[str, set[At]]] | None:
        """The state of a group, and what its members have; None when it is not known."""
        answer = await self.put(DESCRIBE_GROUPS, 5, {"groups": [group.name], "include_authorized_operations": False})
        if answer is None or answer.groups[0].error_code:
            return None
        found = answer.groups[0]
        shares: dict[str, set[At]] = {}
        for member in found.members:
            given = embedded.parse_assignment(member.member_assignment).partitions if member.member_assignment else {}
            shares[member.member_id] = {At(topic, n) for topic, numbers in given.items() for n in numbers}
        return found.group_state, shares

    async def describe_consumer(self, group: GroupHistory) -> tuple[str, dict[str, set[At]]] | None:
        """The same of a consumer group."""
        answer = await self.put(
            CONSUMER_GROUP_DESCRIBE, 0, {"group_ids": [group.name], "include_authorized_operations": False}
        )
        if answer is None or answer.groups[0].error_code:
            return None
        found = answer.groups[0]
        return found.group_state, {
            member.member_id: {
                At(each.topic_name, number) for each in member.assignment.topic_partitions for number in each.partitions
            }
            for member in found.members
        }
