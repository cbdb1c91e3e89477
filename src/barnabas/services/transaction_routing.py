"""Transactions over several nodes: markers to the leaders of their partitions, questions to the coordinator of an id.

What is led here is done here; the rest is asked of its node, each node once for all its partitions. Every partition has
its own outcome. One that has moved, or has no leader at the moment, gets a retriable refusal, and whoever asked tries
again with the metadata of then.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.core.errors import BarnabasError, LeaderNotAvailable, UnknownTopicOrPartition
from barnabas.core.errors.codes import refusal_of
from barnabas.core.metadata.records import NO_LEADER
from barnabas.core.model import TopicPartition
from barnabas.runtime.other_brokers import OtherBrokers
from barnabas.services.markers import ACK_TIMEOUT_S, Markers

if TYPE_CHECKING:
    from barnabas.core.transactions.ending import TransactionEnd

Outcomes = dict[TopicPartition, BarnabasError | None]

MARKER_TIMEOUT_S: Final = ACK_TIMEOUT_S + 5
ADMISSION_TIMEOUT_S: Final = 10.0


class MarkerRouter:
    """Writes the markers of a transaction, wherever its partitions are led."""

    def __init__(self, markers: Markers, others: OtherBrokers) -> None:
        self._markers = markers
        self._others = others

    async def write(self, end: TransactionEnd, partitions: Sequence[TopicPartition]) -> Outcomes:
        """Write a marker to each partition, and wait until they are durable. Each may be refused separately.

        `UnknownTopicOrPartition` only for a partition that this node knows to be gone: another node may not have heard
        of it yet.
        """
        outcomes: Outcomes = {}
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for name in partitions:
            leader = self._others.leader_of(name)
            if leader is None:
                outcomes[name] = UnknownTopicOrPartition(f"{name} does not exist")
            elif leader == NO_LEADER:
                outcomes[name] = LeaderNotAvailable(f"{name} has no leader")
            else:
                by_leader[leader].append(name)
        if len(by_leader) == 1:
            ((leader, names),) = by_leader.items()
            return outcomes | await self._write_at(leader, end, names)
        async with asyncio.TaskGroup() as tasks:
            begun = [tasks.create_task(self._write_at(leader, end, names)) for leader, names in by_leader.items()]
        for task in begun:
            outcomes |= task.result()
        return outcomes

    async def _write_at(self, leader: int, end: TransactionEnd, names: Sequence[TopicPartition]) -> Outcomes:
        if self._others.is_here(leader):
            return await self._markers.write(end, tuple(names))
        try:
            codes = await self._others.write_markers(leader, end, names, timeout_s=MARKER_TIMEOUT_S)
        except BarnabasError as error:
            return dict.fromkeys(names, error.with_traceback(None))
        return {name: self._outcome(leader, name, codes.get(name)) for name in names}

    def _outcome(self, leader: int, name: TopicPartition, code: int | None) -> BarnabasError | None:
        if code == UnknownTopicOrPartition.kafka_code and self._others.leader_of(name) is not None:
            return LeaderNotAvailable(f"broker {leader} has not heard of {name} yet")
        return _refusal(f"broker {leader} refused the marker", name, code)


class AdmissionRouter:
    """Asks the coordinator of a transactional id on another node whether partitions are part of its transaction."""

    def __init__(self, others: OtherBrokers) -> None:
        self._others = others

    async def admit(
        self,
        coordinator: int,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, BarnabasError | None]:
        """See `services.produce.Admission`; `coordinator` is the node that leads the partition of the id."""
        codes = await self._others.admit(
            coordinator,
            transactional_id,
            producer_id,
            producer_epoch,
            partitions,
            adds=adds,
            timeout_s=ADMISSION_TIMEOUT_S,
        )
        said = f"the coordinator of '{transactional_id}', broker {coordinator}, refused"
        return {name: _refusal(said, name, codes.get(name)) for name in partitions}


def _refusal(said: str, name: TopicPartition, code: int | None) -> BarnabasError | None:
    if code is None:
        return LeaderNotAvailable(f"there is no answer for {name}")
    return refusal_of(code, f"{said} in {name} with error {code}") if code else None
