"""Requests to a classic group and their replies, independent of API versions: the edge adds what a version lacks."""

from typing import Final, TypeAlias

import msgspec

from barnabas.core.errors import BarnabasError
from barnabas.core.groups.records import ClassicProtocol

UNKNOWN_MEMBER: Final = ""  # the member id of one that has none yet
NO_GENERATION: Final = -1

Protocol: TypeAlias = ClassicProtocol


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A member joins the next generation."""

    group: str
    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    requires_member_id: bool = True  # a new member is told its id and joins again (KIP-394, from version 4)
    skips_assignment: bool = True  # knows of `JoinReply.skip_assignment` (KIP-814, from version 9)


class JoinedMember(msgspec.Struct, frozen=True):
    """One of those that the leader assigns to."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinReply(msgspec.Struct, frozen=True, kw_only=True):
    """A member is part of a generation. Only the leader gets the list of members."""

    member_id: str
    generation: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A member asks for its assignment; the leader sends those of all members."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None  # None: a version that does not say
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


class SyncReply(msgspec.Struct, frozen=True, kw_only=True):
    """The assignment of a member in this generation."""

    protocol_type: str
    protocol: str | None
    assignment: bytes


class HeartbeatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A member is alive. It is answered with None, or a refusal."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None = None


class LeavingMember(msgspec.Struct, frozen=True):
    """Who leaves: by its id, or by its instance id alone."""

    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None


class LeaveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Members leave at once, without waiting for their sessions to end."""

    group: str
    members: tuple[LeavingMember, ...]


class LeftMember(msgspec.Struct, frozen=True):
    """The result for one leaving member."""

    member_id: str
    instance_id: str | None
    error: BarnabasError | None = None


LeaveReply: TypeAlias = tuple[LeftMember, ...]
