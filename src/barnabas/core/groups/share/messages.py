"""Requests to a share group (KIP-932) and their replies, independent of API versions, and its settings."""

from typing import Final

import msgspec

from barnabas.core.errors import InvalidRequest
from barnabas.core.groups.records import StateTopic, TopicPartitions

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
MAX_TOPICS: Final = 10_000  # of one member: all are looked at in one step
MAX_MEMBER_ID: Final = 36  # characters, as of a UUID


class ShareHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A member joins (epoch 0), is alive, or leaves (-1). A field that is None has not changed."""

    group: str
    member_id: str
    member_epoch: int
    rack: str | None = None
    topics: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""


class ShareHeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a member. `assignment` is None if it has not changed."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: tuple[TopicPartitions, ...] | None = None
    # Not for the member: the partitions whose state is to be made before they can be assigned.
    initialize: tuple[StateTopic, ...] = ()


def check_heartbeat(request: ShareHeartbeat) -> None:
    """Refuse a heartbeat that is invalid for any group."""
    if not request.group.strip():
        raise InvalidRequest("GroupId can't be empty.")
    if not request.member_id.strip():
        raise InvalidRequest("MemberId can't be empty.")
    if request.rack is not None and not request.rack.strip():
        raise InvalidRequest("RackId can't be empty.")
    if request.member_epoch < LEAVE_EPOCH:
        raise InvalidRequest(f"MemberEpoch is invalid: {request.member_epoch}.")
    if request.member_epoch == JOIN_EPOCH and not request.topics:
        raise InvalidRequest("SubscribedTopicNames must be set in first request.")
    if request.topics is not None and len(request.topics) > MAX_TOPICS:
        raise InvalidRequest(f"a member names {len(request.topics)} topics; the maximum is {MAX_TOPICS}")
