"""The controller's side of partitions: their ISRs, their leaders, and where they are moved.

Only the active controller decides; any other node refuses with `NotController`. Several partitions are decided in one
commit, each for itself.

In the background preferred leaders come back, and leaders that may lack records are elected where that is allowed.
"""

import asyncio
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import Final

import msgspec

from barnabas.core.errors import BarnabasError, NotController
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.electing import RulesOf, rules_given, rules_of
from barnabas.core.metadata.elections import MAX_BALANCED, balance, elect_leaders, elect_where_allowed
from barnabas.core.metadata.image import Image, PartitionState
from barnabas.core.metadata.isr import IsrChange, alter_partitions
from barnabas.core.metadata.reassignments import Target, alter_all
from barnabas.runtime.cluster_metadata import ClusterMetadata
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.turns import pieces
from barnabas.services.settings.broker_config import BrokerConfig

log = get_logger("barnabas.controller")

PER_COMMIT: Final = 50
"""Partitions that an edge asks for at once: the loop is held while they are decided."""

ISRS_PER_COMMIT: Final = 500


class ElectionType(IntEnum):
    """The type of an election, numbered as in the protocol."""

    PREFERRED = 0
    UNCLEAN = 1


class PartitionRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings of a controller say about partitions."""

    rules: RulesOf = rules_of
    brings_back_leaders: bool = True
    balance_interval_s: float = 300.0
    unclean_interval_s: float = 300.0

    @classmethod
    def of(cls, config: BrokerConfig) -> "PartitionRules":
        """The values of a node's settings."""
        replicas = config.replicas
        return cls(
            rules=rules_given(config.topic_defaults),
            brings_back_leaders=replicas.auto_leader_rebalance_enable,
            balance_interval_s=replicas.leader_imbalance_check_interval_seconds,
            unclean_interval_s=replicas.unclean_leader_election_interval_ms / 1000,
        )


Outcome = PartitionState | BarnabasError
"""What became of a partition that something was asked for: its state then, or why not."""


class ControlledPartitions:
    """The partitions of the cluster, as their controller sees them; `run` is a task of it."""

    def __init__(self, metadata: ClusterMetadata, settings: PartitionRules) -> None:
        self._metadata = metadata
        self._settings = settings

    @property
    def rules(self) -> RulesOf:
        """What settings say about the leaders of topics, those of this node's file included."""
        return self._settings.rules

    def check_active(self) -> None:
        """Refuse if this node is not the active controller."""
        if not self._metadata.is_active:
            raise NotController("this node is not the active controller")

    async def alter_isrs(self, node_id: int, *, broker_epoch: int, changes: Sequence[IsrChange]) -> list[Outcome]:
        """Change the ISRs of partitions as their leader asks for; what became of each, in their order.

        After a failure a leader may ask for thousands: they take several commits.
        """
        outcomes: list[Outcome] = []
        async for some in pieces(changes, per_turn=ISRS_PER_COMMIT):
            outcomes += await self._metadata.commit(
                partial(
                    alter_partitions,
                    node_id=node_id,
                    broker_epoch=broker_epoch,
                    changes=some,
                    rules=self._settings.rules,
                )
            )
        return outcomes

    async def elect(self, kind: ElectionType, wanted: Sequence[tuple[str, int]]) -> list[Outcome]:
        """Elect leaders, in one commit; what became of each, in their order."""
        is_unclean = kind is ElectionType.UNCLEAN
        return await self._commit_if_needed(
            partial(elect_leaders, wanted=wanted, is_unclean=is_unclean, rules=self._settings.rules)
        )

    async def reassign(self, targets: Sequence[Target], *, may_change_factor: bool = True) -> list[Outcome]:
        """Move partitions to other nodes, or cancel that, in one commit; what became of each, in their order."""
        return await self._commit_if_needed(
            partial(alter_all, targets=targets, may_change_factor=may_change_factor, rules=self._settings.rules)
        )

    async def _commit_if_needed(self, decide: Callable[[Image], MetadataDecision[list[Outcome]]]) -> list[Outcome]:
        """Commit a decision; often it changes nothing, and need not wait for its turn."""
        self.check_active()
        decision = decide(self._metadata.image)
        return await self._metadata.commit(decide) if decision.records else decision.reply

    # In the background

    async def run(self) -> None:
        """Bring preferred leaders back, and elect unclean leaders, whenever this node is the active controller."""
        async with asyncio.TaskGroup() as tasks:
            if self._settings.brings_back_leaders:
                tasks.create_task(self._repeat(balance, self._settings.balance_interval_s, "preferred leaders lead"))
            tasks.create_task(
                self._repeat(
                    elect_where_allowed, self._settings.unclean_interval_s, "leaders that may lack records lead"
                )
            )

    async def _repeat(self, decide: Callable[..., MetadataDecision[int]], interval_s: float, what: str) -> None:
        """Decide in rounds, again at once while a round is full."""
        while True:
            await asyncio.sleep(interval_s)
            try:
                while (count := await self._round(partial(decide, rules=self._settings.rules))) > 0:
                    log.info("%d %s again", count, what)
                    if count < MAX_BALANCED:
                        break
            except NotController:
                pass  # another node will
            except BarnabasError as refusal:
                log.warning("the controller could not elect leaders: %s", refusal)

    async def _round(self, decide: Callable[[Image], MetadataDecision[int]]) -> int:
        if not self._metadata.is_active or not decide(self._metadata.image).records:
            return 0
        return await self._metadata.commit(decide)
