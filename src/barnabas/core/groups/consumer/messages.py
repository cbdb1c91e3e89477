"""Requests to a consumer group (KIP-848) and their replies, independent of API versions, and its settings.

Owns the checks that need no group. A field of a heartbeat that is None has not changed since the last one.
"""

from typing import Final

import msgspec

from barnabas.core.errors import InvalidRequest, UnsupportedAssignor
from barnabas.core.groups.records import TopicPartitions
from barnabas.core.groups.settings import ConsumerConfig

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2  # a static member leaves, but comes back before its session ends
UNCHANGED_MS: Final = -1
MAX_TOPICS: Final = 10_000  # of one member: all are looked at in one step


class ConsumerHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A member joins (epoch 0), is alive, or leaves (-1, -2)."""

    group: str
    member_id: str = ""
    member_epoch: int
    instance_id: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int = UNCHANGED_MS
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: tuple[TopicPartitions, ...] | None = None
    client_id: str = ""
    client_host: str = ""
    names_itself: bool = True  # the client makes its member id (KIP-1082, from version 1)

    @property
    def is_full(self) -> bool:
        """Whether all fields are set: on joining, and after an answer was lost."""
        return self.member_epoch == JOIN_EPOCH or (
            self.rebalance_timeout_ms != UNCHANGED_MS
            and (self.topics is not None or self.regex is not None)
            and self.owned is not None
        )

    @property
    def is_leaving(self) -> bool:
        return self.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)


class ConsumerHeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a member. `assignment` is None if it has not changed."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: tuple[TopicPartitions, ...] | None = None


def check_heartbeat(request: ConsumerHeartbeat, config: ConsumerConfig) -> None:
    """Refuse a heartbeat that is invalid for any group."""
    _check_names(request)
    count = max(len(request.topics or ()), len(request.owned or ()))
    if count > MAX_TOPICS:
        raise InvalidRequest(f"a member names {count} topics; the maximum is {MAX_TOPICS}")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise InvalidRequest("InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequest("MemberEpoch is invalid.")
    if request.assignor is not None and request.assignor not in config.assignors:
        raise UnsupportedAssignor(
            f"ServerAssignor {request.assignor} is not supported. Supported assignors: {', '.join(config.assignors)}."
        )


def _check_names(request: ConsumerHeartbeat) -> None:
    needs_id = request.names_itself or request.member_epoch > JOIN_EPOCH or request.member_epoch == LEAVE_EPOCH
    for name, value, needed in (
        ("MemberId", request.member_id, needs_id),
        ("GroupId", request.group, True),
        ("InstanceId", request.instance_id, True),
        ("RackId", request.rack, True),
    ):
        if needed and value is not None and not value.strip():
            raise InvalidRequest(f"{name} can't be empty.")


def _check_join(request: ConsumerHeartbeat) -> None:
    if request.rebalance_timeout_ms == UNCHANGED_MS:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or request.owned:
        raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
    if request.topics is None and request.regex is None:
        raise InvalidRequest("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
