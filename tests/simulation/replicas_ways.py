"""How clients that were written for one node find their way in a cluster: to the coordinator of a group or of a
transactional id, to the leaders of partitions, or to all nodes.

`Routed` takes the place of a client's one connection. A request for several partitions is cut into one for each leader,
and what they answer is put together again; of partitions that are not answered there is nothing in it.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, Final, Protocol

from barnabas.testing.simulation import Simulation
from barnabas.wire.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DESCRIBE_GROUPS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_TRANSACTIONS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    Api,
)
from barnabas.wire.writing import Values
from tests.simulation.group_codes import BUSY
from tests.simulation.replicas_clients import GONE, TRY_AGAIN, Client, Target, Topic, World

GROUP: Final = 0
TRANSACTION: Final = 1
PARTITIONS: Final = {GROUP: 3, TRANSACTION: 2}  # of the topics of coordinators

KEYS: Final[Mapping[Api, tuple[int, Callable[[Any], str]]]] = {
    INIT_PRODUCER_ID: (TRANSACTION, lambda values: values["transactional_id"]),
    ADD_PARTITIONS_TO_TXN: (TRANSACTION, lambda values: values["v3_and_below_transactional_id"]),
    ADD_OFFSETS_TO_TXN: (TRANSACTION, lambda values: values["transactional_id"]),
    END_TXN: (TRANSACTION, lambda values: values["transactional_id"]),
    TXN_OFFSET_COMMIT: (GROUP, lambda values: values["group_id"]),
    OFFSET_COMMIT: (GROUP, lambda values: values["group_id"]),
    OFFSET_FETCH: (
        GROUP,
        lambda values: values["group_id"] if "group_id" in values else values["groups"][0]["group_id"],
    ),
    JOIN_GROUP: (GROUP, lambda values: values["group_id"]),
    SYNC_GROUP: (GROUP, lambda values: values["group_id"]),
    HEARTBEAT: (GROUP, lambda values: values["group_id"]),
    LEAVE_GROUP: (GROUP, lambda values: values["group_id"]),
    CONSUMER_GROUP_HEARTBEAT: (GROUP, lambda values: values["group_id"]),
    DESCRIBE_GROUPS: (GROUP, lambda values: values["groups"][0]),
    CONSUMER_GROUP_DESCRIBE: (GROUP, lambda values: values["group_ids"][0]),
}


class ReplicatedWorld(World, Protocol):
    """What else is asked of the simulation."""

    simulation: Simulation

    def note_answer(self, api: Api, node_id: int) -> None: ...


class Ways(Client):
    """The connections of one client to all nodes, and who coordinates and leads what, as far as it knows."""

    world: ReplicatedWorld

    def __init__(self, world: ReplicatedWorld, name: str, topics: Mapping[str, Topic]) -> None:
        super().__init__(world, name)
        self._topics = topics
        self._coordinators: dict[tuple[int, str], int] = {}
        self.missed = 0
        """How many partitions of the last request were not answered."""

    async def send(self, api: Api, version: int, values: Values, *, timeout_s: float) -> Any:
        """The answer of whoever is to be asked; None if it is not known what became of the request."""
        self.missed = 0
        if api in KEYS:
            return await self._ask_coordinator(api, version, values, timeout_s)
        if api in (PRODUCE, FETCH):
            return await self._ask_leaders(api, version, values, timeout_s)
        if api == LIST_TRANSACTIONS:
            return await self._ask_everybody(api, version, values, timeout_s)
        answer = await self.ask(self.any_node(), api, version, values, timeout_s=timeout_s)
        if answer is None:
            await self.pause()
        return answer

    # Coordinators

    async def _ask_coordinator(self, api: Api, version: int, values: Values, timeout_s: float) -> Any:
        kind, key_of = KEYS[api]
        key = key_of(values)
        node_id = await self._find_coordinator(kind, key)
        if node_id is None:
            await self.pause()
            return None
        answer = await self.ask(node_id, api, version, values, timeout_s=timeout_s)
        if answer is None or any(code in BUSY for code in codes_of(answer)):
            self._coordinators.pop((kind, key), None)
            if answer is None:
                await self.pause()
                return None
        self.world.note_answer(api, node_id)
        return answer

    async def _find_coordinator(self, kind: int, key: str) -> int | None:
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        answer = await self.ask(self.any_node(), FIND_COORDINATOR, 3, {"key": key, "key_type": kind})
        if answer is None or answer.error_code:
            return None
        self._coordinators[kind, key] = int(answer.node_id)
        return int(answer.node_id)

    # Leaders

    async def _ask_leaders(self, api: Api, version: int, values: Values, timeout_s: float) -> Any:
        topics, partitions = ("topic_data", "partition_data") if api == PRODUCE else ("topics", "partitions")
        number = "index" if api == PRODUCE else "partition"
        by_leader: dict[int, list[tuple[Any, Any, Target]]] = {}
        for topic in values[topics]:
            for each in topic[partitions]:
                target = Target(self._topic_of(topic), each[number])
                leader = await self.find_leader(target)
                if leader is None:
                    self.missed += 1
                else:
                    by_leader.setdefault(leader, []).append((topic, each, target))

        async def ask(leader: int, parts: list[tuple[Any, Any, Target]]) -> list[Any]:
            wanted = [{**topic, partitions: [each]} for topic, each, _ in parts]
            answer = await self.ask(leader, api, version, {**values, topics: wanted}, timeout_s=timeout_s)
            if answer is None:
                self.missed += len(parts)
                for _, _, target in parts:
                    self.forget_leader(target)
                return []
            self.world.note_answer(api, leader)
            return list(answer.responses)

        found = await asyncio.gather(*(ask(leader, parts) for leader, parts in by_leader.items()))
        responses = [topic for each in found for topic in each]
        if api == FETCH:
            responses = [self._without_refusals(topic) for topic in responses]
        else:
            self._note_refusals(responses)
        if not responses:
            await self.pause()
            return None
        return SimpleNamespace(responses=responses, error_code=0)

    def _topic_of(self, given: Mapping[str, Any]) -> Topic:
        if "name" in given:
            return self._topics[given["name"]]
        return next(topic for topic in self._topics.values() if topic.topic_id == given["topic_id"])

    def _without_refusals(self, topic: Any) -> Any:
        """What a fetch has brought: a leader that says it is none, or not yet, has not answered."""
        refused = [each for each in topic.partitions if each.error_code in TRY_AGAIN or each.error_code in GONE]
        for each in refused:
            self.forget_leader(Target(self._topic_of({"topic_id": topic.topic_id}), each.partition_index))
        self.missed += len(refused)
        return SimpleNamespace(
            topic_id=topic.topic_id, partitions=[each for each in topic.partitions if each not in refused]
        )

    def _note_refusals(self, responses: list[Any]) -> None:
        for topic in responses:
            name = getattr(topic, "name", None)
            given = {"topic_id": topic.topic_id} if name is None else {"name": name}
            for each in topic.partition_responses:
                if each.error_code in TRY_AGAIN or each.error_code in GONE:
                    self.forget_leader(Target(self._topic_of(given), each.index))

    # All nodes

    async def _ask_everybody(self, api: Api, version: int, values: Values, timeout_s: float) -> Any:
        states: list[Any] = []
        for node in self.world.addresses():
            answer = await self.ask(node.node_id, api, version, values, timeout_s=timeout_s)
            if answer is None or answer.error_code:
                return answer
            states += answer.transaction_states
        return SimpleNamespace(error_code=0, transaction_states=states)


def codes_of(answer: Any) -> list[int]:
    """All error codes of an answer, wherever they are."""
    names = getattr(answer, "_fields", None) or [each.name for each in fields(answer)]
    found = []
    for name in names:
        value = getattr(answer, name)
        if name.endswith("error_code"):
            found.append(int(value))
        elif isinstance(value, tuple) and value and not isinstance(value[0], int | str | bytes):
            found += [code for each in value for code in codes_of(each)]
    return found
