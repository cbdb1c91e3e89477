"""Requests to a share group (KIP-932) and their replies, independent of API versions, and its settings."""

from typing import Final

import msgspec

from barnabas.core.errors import InvalidRequest
from barnabas.core.groups.records import StateTopic, TopicPartitions
from barnabas.core.groups.share.partition import ShareLimits

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
MAX_TOPICS: Final = 10_000  # of one member: all are looked at in one step
MAX_MEMBER_ID: Final = 36  # characters, as of a UUID

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BY_DURATION: Final = "by_duration:"


class LetterSettings(msgspec.Struct, frozen=True):
    """Where the dead letters of a group go, and whether they have a copy of their records."""

    topic: str  # errors.deadletterqueue.topic.name
    is_copied: bool = False  # errors.deadletterqueue.copy.record.enable


class ShareConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of share groups; defaults are Kafka's."""

    heartbeat_interval_ms: int = 5_000  # group.share.heartbeat.interval.ms
    session_timeout_ms: int = 45_000  # group.share.session.timeout.ms
    max_size: int = 200  # group.share.max.size
    limits: ShareLimits = ShareLimits()
    auto_offset_reset: str = LATEST  # share.auto.offset.reset
    is_committed: bool = False  # share.isolation.level
    letters: LetterSettings | None = None  # None: there are no dead letters


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
