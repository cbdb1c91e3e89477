"""Asking the share coordinators of other nodes, and where partitions end that they lead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.core.errors import NotCoordinator
from barnabas.core.errors.codes import refusal_of
from barnabas.core.model import TopicPartition
from barnabas.runtime.later import Later
from barnabas.runtime.other_brokers import OtherBrokers
from barnabas.wire.apis import (
    DELETE_SHARE_GROUP_STATE,
    INITIALIZE_SHARE_GROUP_STATE,
    LIST_OFFSETS,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    WRITE_SHARE_GROUP_STATE,
    Api,
)
from barnabas.wire.writing import Values

if TYPE_CHECKING:
    from barnabas.core.groups.share import partition as share_partition
    from barnabas.core.groups.share import persisted, window
    from barnabas.core.groups.share.partition import StateWrite
    from barnabas.core.groups.share.persisted import ShareKey, SnapshotRecord
else:  # loaded with the first share group
    share_partition = Later("barnabas.core.groups.share.partition")
    persisted = Later("barnabas.core.groups.share.persisted")
    window = Later("barnabas.core.groups.share.window")


ASK_TIMEOUT_S: Final = 10.0
SHARES: Final = "share states"
"""The purpose of a connection: these requests wait for nothing else."""
LATEST: Final = -1
_ENDS_FROM: Final = 1  # the version of ListOffsets that answers with one offset


class OtherShares:
    """The verbs of `services.share_states`, at another node."""

    def __init__(self, others: OtherBrokers) -> None:
        self._others = others

    async def initialize(self, node_id: int, key: ShareKey, *, state_epoch: int, start_offset: int) -> None:
        """InitializeShareGroupState."""
        fields: Values = {"state_epoch": state_epoch, "start_offset": start_offset}
        await self._ask(node_id, INITIALIZE_SHARE_GROUP_STATE, key, fields)

    async def read(self, node_id: int, key: ShareKey, *, leader_epoch: int) -> SnapshotRecord:
        """ReadShareGroupState."""
        found = await self._ask(node_id, READ_SHARE_GROUP_STATE, key, {"leader_epoch": leader_epoch})
        batches = tuple(
            share_partition.StateBatch(
                each.first_offset, each.last_offset, window.Persisted(each.delivery_state), each.delivery_count
            )
            for each in found.state_batches
        )
        return persisted.SnapshotRecord(key, 0, found.state_epoch, leader_epoch, found.start_offset, -1, 0, 0, batches)

    async def write(
        self, node_id: int, key: ShareKey, write: StateWrite, *, state_epoch: int, leader_epoch: int
    ) -> None:
        """WriteShareGroupState."""
        fields: Values = {
            "state_epoch": state_epoch,
            "leader_epoch": leader_epoch,
            "start_offset": write.start_offset,
            "delivery_complete_count": write.complete_count,
            "state_batches": [
                {
                    "first_offset": each.first,
                    "last_offset": each.last,
                    "delivery_state": int(each.state),
                    "delivery_count": each.delivery_count,
                }
                for each in write.batches
            ],
        }
        await self._ask(node_id, WRITE_SHARE_GROUP_STATE, key, fields)

    async def delete(self, node_id: int, key: ShareKey) -> None:
        """DeleteShareGroupState."""
        await self._ask(node_id, DELETE_SHARE_GROUP_STATE, key, {})

    async def summarize(self, node_id: int, key: ShareKey) -> SnapshotRecord:
        """ReadShareGroupStateSummary."""
        found = await self._ask(node_id, READ_SHARE_GROUP_STATE_SUMMARY, key, {"leader_epoch": -1})
        count = found.delivery_complete_count
        return persisted.SnapshotRecord(
            key, 0, found.state_epoch, found.leader_epoch, found.start_offset, count, 0, 0, ()
        )

    async def find_end(self, node_id: int, name: TopicPartition) -> int:
        """ListOffsets: the end of a partition that a node leads."""
        partition: Values = {"partition_index": name.partition, "current_leader_epoch": -1, "timestamp": LATEST}
        answer = await self._others.ask(
            node_id,
            LIST_OFFSETS.key,
            {
                "replica_id": -1,
                "isolation_level": 0,
                "topics": [{"name": name.topic, "partitions": [partition]}],
                "timeout": int(ASK_TIMEOUT_S * 1000),
            },
            timeout_s=ASK_TIMEOUT_S,
            purpose=SHARES,
            min_version=_ENDS_FROM,
        )
        (found,) = [each for topic in answer.topics for each in topic.partitions]
        code = int(found.error_code)
        if code:
            raise refusal_of(code, f"the end of {name} cannot be found: broker {node_id} answers with error {code}")
        return int(found.offset)

    async def _ask(self, node_id: int, api: Api, key: ShareKey, fields: Values) -> Any:
        topic: Values = {"topic_id": key.topic_id, "partitions": [{"partition": key.partition, **fields}]}
        answer = await self._others.ask(
            node_id, api.key, {"group_id": key.group, "topics": [topic]}, timeout_s=ASK_TIMEOUT_S, purpose=SHARES
        )
        found = [each for result in answer.results for each in result.partitions]
        if len(found) != 1:
            raise NotCoordinator(f"broker {node_id} does not answer for {key}")
        code = int(found[0].error_code)
        if code:
            raise refusal_of(code, found[0].error_message or f"broker {node_id} refused with error {code}")
        return found[0]
