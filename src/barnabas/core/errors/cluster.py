"""Refusals of the cluster: its metadata, its controller, its quorum, and the other nodes."""

from typing import ClassVar

from barnabas.core.errors.requests import BarnabasError


class UnknownTopicOrPartition(BarnabasError):
    """A topic or partition that does not exist."""

    kafka_code = 3


class ControllerBusy(BarnabasError):
    """Too many metadata changes are waiting; try again."""

    kafka_code = 7


class InvalidTopic(BarnabasError):
    """An invalid topic name, or one that collides with another."""

    kafka_code = 17


class TopicExists(BarnabasError):
    """A topic of that name already exists."""

    kafka_code = 36


class InvalidPartitions(BarnabasError):
    """An invalid number of partitions."""

    kafka_code = 37


class InvalidReplicationFactor(BarnabasError):
    """A replication factor below one, or above the number of nodes."""

    kafka_code = 38


class InvalidReplicaAssignment(BarnabasError):
    """An assignment of replicas that does not fit the cluster or itself."""

    kafka_code = 39


class NotController(BarnabasError):
    """A metadata change was requested of a node that is not the active controller."""

    kafka_code = 41


class ForwardingRefused(BarnabasError):
    """The controller refused to take a request from this node, whatever it asks for: that is not the client's fault."""


class PrincipalDeserializationFailure(BarnabasError):
    """A principal in a forwarded request that cannot be read."""

    kafka_code = 97


class PeerError(BarnabasError):
    """Another node did not answer. `may_be_done` says whether it may have carried out the request."""

    kafka_code = 13
    may_be_done: ClassVar[bool] = False


class PeerUnreachable(PeerError):
    """No connection to a node: the request was not sent."""


class PeerBusy(PeerError):
    """Too many calls wait for a node: the request was not sent."""

    kafka_code = 7


class PeerTimedOut(PeerError):
    """A node that has not answered in time."""

    kafka_code = 7
    may_be_done = True


class PeerLost(PeerError):
    """The connection to a node ended before its answer."""

    may_be_done = True


class LeaderNotAvailable(BarnabasError):
    """The partition has no leader yet: a client retries."""

    kafka_code = 5


class PreferredLeaderNotAvailable(BarnabasError):
    """The first replica is not in sync, so it cannot lead."""

    kafka_code = 80


class EligibleLeadersNotAvailable(BarnabasError):
    """No replica is available that could lead."""

    kafka_code = 83


class ElectionNotNeeded(BarnabasError):
    """The partition already has the leader that an election would choose."""

    kafka_code = 84


class UnknownTopicId(BarnabasError):
    """A topic id that no topic has."""

    kafka_code = 100


class BrokerIdNotRegistered(BarnabasError):
    """A node that has not registered with the cluster."""

    kafka_code = 102


class InvalidMetadata(BarnabasError):
    """A metadata record that cannot be read, or contradicts the ones before it."""


class TopicDeletionDisabled(BarnabasError):
    """Topics cannot be deleted in this cluster."""

    kafka_code = 73


class NoReassignmentInProgress(BarnabasError):
    """A reassignment to cancel that does not exist."""

    kafka_code = 85


class InvalidUpdateVersion(BarnabasError):
    """A level that a feature cannot have, or a change to a state that is no longer the current one."""

    kafka_code = 95


class StaleBrokerEpoch(BarnabasError):
    """A broker with a registration that another has replaced."""

    kafka_code = 77


class DuplicateBrokerRegistration(BarnabasError):
    """A broker with this id is already running."""

    kafka_code = 101


class SnapshotNotFound(BarnabasError):
    """A snapshot of the metadata log that does not exist, or no longer."""

    kafka_code = 98


class PositionOutOfRange(BarnabasError):
    """A position outside of a snapshot."""

    kafka_code = 99


class InconsistentClusterId(BarnabasError):
    """A request from a node of another cluster."""

    kafka_code = 104


class InvalidVoterKey(BarnabasError):
    """A request for another voter: this node has another id or another data directory."""

    kafka_code = 125


class DuplicateVoter(BarnabasError):
    """A node to add as a voter that is one already."""

    kafka_code = 126


class VoterNotFound(BarnabasError):
    """A node to remove or update that is not a voter."""

    kafka_code = 127


class IneligibleReplica(BarnabasError):
    """A replica that cannot be in sync: fenced, leaving, or not the registration that the leader has heard of."""

    kafka_code = 107


class NewLeaderElected(BarnabasError):
    """The change was made, and by it another replica leads the partition."""

    kafka_code = 108
