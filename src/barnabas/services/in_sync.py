"""Keeping the in-sync replicas (ISR) of what this node leads, and the high watermarks on disk.

What to ask the controller for `core.replica.leader` decides; here it is asked, for many partitions at once. A proposal
counts until the metadata say what became of it, so it is repeated until the controller has answered. One that is
refused for certain no longer counts; that a replica is not eligible is certain once the metadata here say so, too.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from barnabas.core.errors import (
    BarnabasError,
    BrokerIdNotRegistered,
    ControllerBusy,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidUpdateVersion,
    NewLeaderElected,
    NotController,
    PeerError,
    RequestTimedOut,
    StaleBrokerEpoch,
)
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.isr import UNCHECKED_EPOCH, IsrChange
from barnabas.core.metadata.records import MetadataRecord, NodeRecord, RemoveNodeRecord
from barnabas.core.replica.leader import IsrProposal
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.logs import Logs
from barnabas.runtime.offload import Offload
from barnabas.runtime.replica import Replica
from barnabas.runtime.turns import in_turns
from barnabas.services.membership import Membership

log = get_logger("barnabas.replicas")

PER_REQUEST: Final = 500
RETRY_S: Final = 0.1
UNKNOWN: Final = (NotController, PeerError, ControllerBusy, RequestTimedOut, StaleBrokerEpoch, BrokerIdNotRegistered)
"""Answers that leave open what becomes of a proposal."""

OUTDATED: Final = (NewLeaderElected, InvalidUpdateVersion, FencedLeaderEpoch)
"""Answers after which the metadata bring another state, which may be the proposed one: another try of a proposal is
refused like this if the first was carried out. Until then the proposal counts."""


class _Proposed(NamedTuple):
    partition: Replica
    proposal: IsrProposal


class InSync:
    """The ISRs of one node; `run` and `run_checkpoints` are its tasks."""

    def __init__(self, logs: Logs, membership: Membership, offload: Offload, image: Image, *, max_lag_ms: int) -> None:
        self._logs = logs
        self._replicas = logs.replicas
        self._membership = membership
        self._offload = offload
        self._replicas.max_lag_ms = max_lag_ms
        self._look_s = max_lag_ms / 2000  # as Kafka does: nobody is out of sync for more than half as long again
        self._taken: dict[Replica, IsrProposal] = {}  # what the controller has answered, and the metadata not yet
        for node in image.nodes.values():
            self._note_node(node)

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Follow which nodes are active. To be told before the partitions are."""
        for record in records:
            if isinstance(record, NodeRecord):
                self._note_node(record)
            elif isinstance(record, RemoveNodeRecord):
                self._replicas.active.pop(record.node_id, None)

    def _note_node(self, node: NodeRecord) -> None:
        if node.is_active:
            self._replicas.active[node.node_id] = node.epoch
            self._replicas.is_doubted.set()  # it may have waited for that to be in sync
        else:
            self._replicas.active.pop(node.node_id, None)

    # The ISRs

    async def run(self) -> None:
        """Propose ISRs until cancelled: at once where a follower has caught up, regularly for those that lag."""
        loop = asyncio.get_running_loop()
        looked_at = loop.time()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(looked_at + self._look_s):
                    await self._replicas.is_doubted.wait()
            self._replicas.is_doubted.clear()
            doubted, self._replicas.doubted = self._replicas.doubted, {}
            if loop.time() >= looked_at + self._look_s:
                looked_at = loop.time()
                doubted = dict(self._replicas.led)
            if not await self._look_at(doubted):
                await asyncio.sleep(RETRY_S)

    async def _look_at(self, partitions: dict[Replica, None]) -> bool:
        """Propose what should change in these; False if some of it is to be tried again."""
        proposed: list[_Proposed] = []
        is_settled = True
        async for partition in in_turns(partitions):
            proposal = partition.propose(now_ms=self._replicas.now_ms())
            if proposal is None:
                self._taken.pop(partition, None)
            elif proposal != self._taken.get(partition):
                proposed.append(_Proposed(partition, proposal))
            if len(proposed) >= PER_REQUEST:
                is_settled &= await self._propose(proposed)
                proposed = []
        return (not proposed or await self._propose(proposed)) and is_settled

    async def _propose(self, proposed: Sequence[_Proposed]) -> bool:
        try:
            outcomes = await self._membership.alter_partitions([_change(each) for each in proposed])
        except BarnabasError as error:  # whatever it is, it says nothing of what becomes of them, and may pass
            say = log.info if isinstance(error, UNKNOWN) else log.warning
            say("the ISRs of %d partitions are not changed yet: %s", len(proposed), error)
            for each in proposed:
                self._replicas.doubt(each.partition)
            return False
        is_settled = True
        for (partition, proposal), outcome in zip(proposed, outcomes, strict=True):
            is_settled &= self._settle(partition, proposal, outcome)
        return is_settled

    def _settle(self, partition: Replica, proposal: IsrProposal, outcome: BarnabasError | None) -> bool:
        """Take the controller's answer; False if it is to be asked again."""
        if outcome is None:
            log.info("%s: in sync are %s", partition.name, [node for node, _ in proposal.isr])
        if outcome is None or isinstance(outcome, OUTDATED):
            self._taken[partition] = proposal
            return True
        if isinstance(outcome, UNKNOWN) or (isinstance(outcome, IneligibleReplica) and self._seem_eligible(proposal)):
            self._replicas.doubt(partition)
            return False
        log.info("%s: its ISR is not changed: %s", partition.name, outcome)
        partition.refuse(proposal)
        return True

    def _seem_eligible(self, proposal: IsrProposal) -> bool:
        """Whether the metadata here do not say yet who of these is not eligible.

        The refusal may be that of another try, and an earlier one, of which no answer came, may have been carried out
        before the replica went. Metadata that have the one have the other. Until then the proposal counts.
        """
        return all(epoch >= 0 and self._replicas.active.get(node) == epoch for node, epoch in proposal.isr)

    # The high watermarks

    async def run_checkpoints(self, *, interval_s: float) -> None:
        """Write the high watermarks regularly, until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            with suppress(BarnabasError):  # which takes the directory offline, or passes
                await self._checkpoint()

    async def _checkpoint(self) -> None:
        async for partition in in_turns(list(self._logs.partitions.values())):
            partition.note_watermark()
        await self._offload.run(self._logs.data_dir.begin_watermarks())

    def note_watermarks(self) -> None:
        """Note all high watermarks, for whoever writes the checkpoints next: the node stops."""
        for partition in self._logs.partitions.values():
            partition.note_watermark()


def _change(proposed: _Proposed) -> IsrChange:
    partition, proposal = proposed
    assert partition.topic_id is not None
    return IsrChange(
        topic_id=partition.topic_id,
        partition=partition.name.partition,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
        isr=tuple((node, UNCHECKED_EPOCH if epoch < 0 else epoch) for node, epoch in proposal.isr),
    )
