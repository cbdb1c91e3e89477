"""The active controller on another node, as `services.membership` calls it: its requests, by `ControllerLink`.

Every request here may be repeated: a registration of the same incarnation is the same one, and a block of producer ids
that nobody got is lost.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from barnabas.core import errors as core_errors
from barnabas.core.errors import BarnabasError, DuplicateBrokerRegistration, InconsistentClusterId, UnsupportedVersion
from barnabas.core.metadata.brokers import Heartbeat, HeartbeatReply, Registration
from barnabas.core.metadata.isr import IsrChange
from barnabas.runtime.controller_link import ControllerLink
from barnabas.runtime.raft_driver.strangers import NOT_LET_IN
from barnabas.wire.apis import ALLOCATE_PRODUCER_IDS, ALTER_PARTITION, BROKER_HEARTBEAT, BROKER_REGISTRATION
from barnabas.wire.writing import Values

REGISTRATION_PURPOSE: Final = "registration"
HEARTBEAT_PURPOSE: Final = "heartbeat"
PRODUCER_IDS_PURPOSE: Final = "producer-ids"
PARTITIONS_PURPOSE: Final = "partitions"
_NO_EPOCH: Final = -1
_PLAINTEXT: Final = 0

_ANSWERED: Final[dict[int, type[BarnabasError]]] = {
    each.kafka_code: each
    for each in (
        core_errors.BrokerIdNotRegistered,
        core_errors.ClusterAuthorizationFailed,
        core_errors.ControllerBusy,
        core_errors.InvalidRequest,
        core_errors.NotController,
        core_errors.StaleBrokerEpoch,
        core_errors.StorageError,
        UnsupportedVersion,
        DuplicateBrokerRegistration,
        InconsistentClusterId,
    )
}
_OF_PARTITIONS: Final[dict[int, type[BarnabasError]]] = {
    each.kafka_code: each
    for each in (
        core_errors.EligibleLeadersNotAvailable,
        core_errors.FencedLeaderEpoch,
        core_errors.IneligibleReplica,
        core_errors.InvalidRequest,
        core_errors.InvalidUpdateVersion,
        core_errors.NewLeaderElected,
        core_errors.NotController,
        core_errors.UnknownTopicId,
        core_errors.UnknownTopicOrPartition,
    )
}
_UNANSWERED: Final = -1
_WHY: Final = {
    core_errors.ClusterAuthorizationFailed: f"the controllers do not let this node act as one. {NOT_LET_IN}",
    DuplicateBrokerRegistration: "another broker {node_id} is running; give this one another node.id",
    InconsistentClusterId: "the controllers are those of another cluster than this node belongs to; look at "
    "controller.quorum.bootstrap.servers, and at the data directory",
    UnsupportedVersion: "the cluster uses features that this version does not know; upgrade this node",
}


def _refusal(code: int) -> BarnabasError | None:
    if code == 0:
        return None
    kind = _OF_PARTITIONS.get(code, core_errors.RequestTimedOut)
    return kind(f"the controller refused with error {code}")


class RemoteController:
    """`services.controller.ControllerCalls` over the network. `timeout_s` is for each call, repetitions included."""

    def __init__(self, link: ControllerLink, *, timeout_s: float) -> None:
        self._link = link
        self._timeout_s = timeout_s

    async def register(self, registration: Registration) -> int:
        """Register a broker; returns its epoch."""
        previous, directory_id = registration.previous_epoch, registration.directory_id
        values: Values = {
            "broker_id": registration.node_id,
            "cluster_id": registration.cluster_id or "",
            "incarnation_id": registration.incarnation,
            "listeners": [
                {"name": each.listener, "host": each.host, "port": each.port, "security_protocol": _PLAINTEXT}
                for each in registration.endpoints
            ],
            "features": [
                {"name": name, "min_supported_version": lowest, "max_supported_version": highest}
                for name, lowest, highest in registration.features
            ],
            "rack": registration.rack,
            "log_dirs": [] if directory_id is None else [directory_id],
            "previous_broker_epoch": _NO_EPOCH if previous is None else previous,
            "generation": registration.generation,
            "previous_generation": -1 if registration.previous_generation is None else registration.previous_generation,
        }
        answer = await self._ask(BROKER_REGISTRATION.key, values, REGISTRATION_PURPOSE, registration.node_id)
        return int(answer.broker_epoch)

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatReply:
        """Keep a broker's session, and hear what it should do."""
        values: Values = {
            "broker_id": beat.node_id,
            "broker_epoch": beat.epoch,
            "current_metadata_offset": beat.metadata_offset,
            "want_fence": beat.wants_fence,
            "want_shut_down": beat.wants_shutdown,
        }
        answer = await self._ask(BROKER_HEARTBEAT.key, values, HEARTBEAT_PURPOSE, beat.node_id)
        return HeartbeatReply(
            answer.is_caught_up,
            answer.is_fenced,
            answer.should_shut_down,
            lease_ms=answer.lease_ms,
            decided_offset=answer.decided_offset,
        )

    async def allocate_producer_ids(self, node_id: int, epoch: int) -> range:
        """A block of producer ids for a broker."""
        values: Values = {"broker_id": node_id, "broker_epoch": epoch}
        answer = await self._ask(ALLOCATE_PRODUCER_IDS.key, values, PRODUCER_IDS_PURPOSE, node_id)
        return range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)

    async def alter_partitions(
        self, node_id: int, *, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> list[BarnabasError | None]:
        """Change the ISRs of partitions that a broker leads; why each is refused, if it is."""
        topics: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
        for change in changes:
            partition = {
                "partition_index": change.partition,
                "leader_epoch": change.leader_epoch,
                "new_isr_with_epochs": [{"broker_id": node, "broker_epoch": epoch} for node, epoch in change.isr],
                "leader_recovery_state": change.recovery_state,
                "partition_epoch": change.partition_epoch,
                "resigns": int(change.resigns),
            }
            topics[change.topic_id].append(partition)
        values: Values = {
            "broker_id": node_id,
            "broker_epoch": broker_epoch,
            "topics": [{"topic_id": topic_id, "partitions": some} for topic_id, some in topics.items()],
        }
        answer = await self._ask(ALTER_PARTITION.key, values, PARTITIONS_PURPOSE, node_id)
        codes = {
            (topic.topic_id, each.partition_index): int(each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        }
        return [_refusal(codes.get((change.topic_id, change.partition), _UNANSWERED)) for change in changes]

    async def _ask(self, api_key: int, values: Values, purpose: str, node_id: int) -> Any:
        answer = await self._link.ask(api_key, values, timeout_s=self._timeout_s, purpose=purpose, may_repeat=True)
        code = int(answer.error_code)
        if code:
            kind = _ANSWERED.get(code, core_errors.RequestTimedOut)
            why = _WHY.get(kind, "the controller refused it with error {code}")
            raise kind(why.format(node_id=node_id, code=code))
        return answer
