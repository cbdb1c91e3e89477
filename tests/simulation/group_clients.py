"""Whoever asks about groups: one that commits from outside of any, one that audits, and what members share with them.

Each does one thing at a time on a connection of its own, and insists on an answer, or on hearing that there will
be none.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from barnabas.core.groups import embedded
from barnabas.testing import wire_client as wire
from barnabas.testing.wire_client import WireClient
from barnabas.wire.apis import (
    CONSUMER_GROUP_DESCRIBE,
    CREATE_TOPICS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    Api,
)
from barnabas.wire.writing import Values
from tests.simulation.group_codes import BUSY
from tests.simulation.group_history import NO_OFFSET, At, Author, Commit, GroupHistory
from tests.simulation.node_clients import OK, TOPIC_EXISTS, Client, World
from tests.simulation.node_history import Violation

ANSWER_S: Final = 8.0  # longer than a request waits for groups to be loaded


class GroupWorld(World, Protocol):
    """What members ask of the simulation."""

    is_calm: bool  # nobody hangs, leaves or restarts any more
    disturbed_s: float  # when something was last done to the node or the network
    counts_of: dict[str, int]  # partitions by topic
    ids: dict[str, UUID]

    @property
    def incarnation(self) -> int:
        """How often the node was started."""

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

    async def put(self, api: Api, version: int, values: Values, *, timeout_s: float = ANSWER_S) -> Any:
        """The answer, or None when the connection is lost. Silence where nothing is wrong is a violation."""
        client = await self.connect()
        try:
            answer = await client.ask(api, version, values, timeout_s=timeout_s)
        except TimeoutError:
            if self._connected_s > self.world.disturbed_s:
                raise Violation(f"{self.name}: {api.name}, version {version}, had no answer in {timeout_s} s") from None
        except OSError:
            pass
        else:
            self.world.note_answer(api)
            return answer
        self.world.counts["unanswered"] += 1
        self.hang_up()
        return None

    # Topics.

    async def create(self, topic: str, partitions: int) -> None:
        while True:
            answer = await self.put(CREATE_TOPICS, 7, wire.create_topic_request(topic, partitions=partitions))
            if answer is not None and answer.topics[0].error_code in (OK, TOPIC_EXISTS):
                break
        answer = await self.ask(METADATA, 12, wire.metadata_request([topic]))
        self.world.ids[topic] = answer.topics[0].topic_id
        self.world.counts_of[topic] = partitions

    async def make_groups_roll(self) -> None:
        """Small segments for the topic of groups, cleaned often: groups are loaded while compaction replaces them."""
        while (found := await self.put(FIND_COORDINATOR, 3, {"key": "any", "key_type": 0})) is None or found.error_code:
            pass
        for name, value in (("internal.segment.bytes", "8192"), ("min.cleanable.dirty.ratio", "0.1")):
            answer = await self.ask(
                INCREMENTAL_ALTER_CONFIGS, 1, wire.set_config_request("__consumer_offsets", name, value)
            )
            if answer.responses[0].error_code:
                raise Violation(f"{name} cannot be set: {answer.responses[0]}")

    # Offsets.

    async def fetch_committed(
        self, group: GroupHistory, partitions: Iterable[At] | None, *, author: Author | None = None
    ) -> dict[At, int] | int | None:
        """What is committed, checked; None when there is no answer, a code when it is refused."""
        wanted = None if partitions is None else by_topic(partitions)
        topics = None if wanted is None else [{"name": t, "partition_indexes": p} for t, p in wanted.items()]
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

    def choose_commit_version(self) -> int:
        """Any of those that clients of the classic protocol, or of none, use today."""
        return self.random.choice((7, 8, 9))

    async def commit(
        self, group: GroupHistory, author: Author, offsets: Mapping[At, int], *, instance_id: str | None = None
    ) -> int | None:
        """Commit, and see to it that nobody may who may not; the code, None when there is no answer."""
        version = self.choose_commit_version()
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
            for topic, numbers in by_topic(offsets).items()
        ]
        is_fenced = self._must_be_refused(group, author, offsets)
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
        if code == OK and is_fenced and self._must_be_refused(group, author, offsets):
            raise Violation(f"{group.name}: {author} commits though it is fenced")
        for commit in commits.values():
            if code == OK:
                group.of(commit.at).note_acked(commit, now)
            else:
                commit.is_refused = code not in BUSY  # the log may have taken what could not be synced
        self.world.counts["committed" if code == OK else "fenced" if is_fenced else "refused"] += 1
        return code

    def _must_be_refused(self, group: GroupHistory, author: Author, partitions: Iterable[At]) -> bool:
        incarnation, now_s = self.world.incarnation, self.world.now_s()
        return group.must_refuse(author, partitions, incarnation=incarnation, now_s=now_s)


def by_topic(partitions: Iterable[At]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at in sorted(partitions):
        found.setdefault(at.topic, []).append(at.partition)
    return found


class Loner(GroupClient):
    """Commits from outside of any group protocol, as the only one of its group."""

    def __init__(self, world: GroupWorld, group: GroupHistory, name: str) -> None:
        super().__init__(world, name)
        self.group = group

    async def run(self) -> None:
        at, offset = At(self.group.topics[0], 0), 0
        was_connected = await self.connect()
        while not self.world.is_over:
            if await self.connect() is not was_connected:
                # Before anything newer is committed, which would hide that the last is lost.
                was_connected = await self.connect()
                await self.fetch_committed(self.group, [at])
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
