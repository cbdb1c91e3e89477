"""Every refusal, each with the Kafka error code that a client hears.

A ``BarnabasError`` is an answer: something was asked that cannot be done, and its message says what
happened and what to do. Anything else that is raised is a bug and is let through.
"""

from typing import ClassVar


class BarnabasError(Exception):
    """A refusal with a Kafka error code."""

    kafka_code: ClassVar[int] = -1


class CorruptRecord(BarnabasError):
    """Bytes that are not what they claim to be: a wrong checksum, length, count or varint."""

    kafka_code = 2


class RecordTooLarge(BarnabasError):
    """A batch, or what it decompresses to, is over its limit."""

    kafka_code = 10


class UnsupportedRecordFormat(BarnabasError):
    """A record format older than v2 (magic 0 or 1), or one that does not exist yet."""

    kafka_code = 43


class UnsupportedCompression(BarnabasError):
    """A compression codec that the format does not define."""

    kafka_code = 76


class InvalidRecord(BarnabasError):
    """Well-formed bytes that break a rule of the log."""

    kafka_code = 87


class OffsetOutOfRange(BarnabasError):
    """An offset below the start of the log or beyond its end."""

    kafka_code = 1


class OutOfOrderSequence(BarnabasError):
    """An idempotent producer skipped a sequence number."""

    kafka_code = 45


class DuplicateSequence(BarnabasError):
    """A retry of a batch so old that its offset is no longer remembered."""

    kafka_code = 46


class InvalidProducerEpoch(BarnabasError):
    """A producer that a newer one has replaced."""

    kafka_code = 47


class InvalidTxnState(BarnabasError):
    """A write that does not fit the transaction that is open, or is not."""

    kafka_code = 48


class TransactionCoordinatorFenced(BarnabasError):
    """A transaction marker from a coordinator that a newer one has replaced."""

    kafka_code = 52


class FencedLeaderEpoch(BarnabasError):
    """An append under a leader epoch older than one the log has seen."""

    kafka_code = 74


class StorageError(BarnabasError):
    """The disk failed or was taken offline; the partition cannot be served from it."""

    kafka_code = 56


class StorageExhausted(StorageError):
    """There is no room, or the process has run out of descriptors or memory: nothing was done, and it may pass."""


class DataDirLost(StorageError):
    """The data directory has vanished or failed for good: a node that has no other cannot go on."""


class CorruptLog(StorageError):
    """Data that was written and is now damaged. It is reported, never dropped."""


class InvalidConfig(BarnabasError):
    """A setting that does not exist, or a value it cannot have."""

    kafka_code = 40


class AddressNotAvailable(BarnabasError):
    """An address that a node cannot listen on now: another process has it, or no interface here does."""


class UnknownTopicOrPartition(BarnabasError):
    """A topic or partition that does not exist."""

    kafka_code = 3


class ControllerBusy(BarnabasError):
    """Too many changes of the metadata wait already; try again."""

    kafka_code = 7


class InvalidTopic(BarnabasError):
    """A topic name that cannot be, or collides with one that is."""

    kafka_code = 17


class TopicExists(BarnabasError):
    """A topic of that name is there already."""

    kafka_code = 36


class InvalidPartitions(BarnabasError):
    """A number of partitions that cannot be."""

    kafka_code = 37


class InvalidReplicationFactor(BarnabasError):
    """A replication factor below one, or above the number of nodes."""

    kafka_code = 38


class InvalidReplicaAssignment(BarnabasError):
    """An assignment of replicas that does not fit the cluster or itself."""

    kafka_code = 39


class NotController(BarnabasError):
    """A change of the metadata was asked of a node that is not the active controller."""

    kafka_code = 41


class InvalidRequest(BarnabasError):
    """A request whose parts contradict each other."""

    kafka_code = 42


class PolicyViolation(BarnabasError):
    """A change that a policy of this cluster forbids."""

    kafka_code = 44


class LeaderNotAvailable(BarnabasError):
    """The partition has no leader yet: a client asks again."""

    kafka_code = 5


class PreferredLeaderNotAvailable(BarnabasError):
    """The first replica is not in sync, so it cannot lead."""

    kafka_code = 80


class EligibleLeadersNotAvailable(BarnabasError):
    """No replica is there that could lead."""

    kafka_code = 83


class ElectionNotNeeded(BarnabasError):
    """The partition has the leader that an election would give it."""

    kafka_code = 84


class UnknownTopicId(BarnabasError):
    """A topic id that no topic has."""

    kafka_code = 100


class BrokerIdNotRegistered(BarnabasError):
    """A node that has not registered with the cluster."""

    kafka_code = 102


class InvalidMetadata(BarnabasError):
    """A metadata record that cannot be read, or does not fit what came before it."""


class NotLeaderOrFollower(BarnabasError):
    """This node does not lead the partition, or has no replica of it."""

    kafka_code = 6


class RequestTimedOut(BarnabasError):
    """What was asked for did not happen in time. Whether it still will is unknown."""

    kafka_code = 7


class NotEnoughReplicas(BarnabasError):
    """Fewer replicas are in sync than the topic asks for."""

    kafka_code = 19


class InvalidRequiredAcks(BarnabasError):
    """A number of acknowledgements other than 0, 1 or all (-1)."""

    kafka_code = 21


class InvalidTimestamp(BarnabasError):
    """A record from a time that its topic does not take."""

    kafka_code = 32


class FetchSessionIdNotFound(BarnabasError):
    """A fetch session that is not, or no longer, kept."""

    kafka_code = 70


class InvalidFetchSessionEpoch(BarnabasError):
    """A request out of turn in its fetch session."""

    kafka_code = 71


class UnknownLeaderEpoch(BarnabasError):
    """A leader epoch that this node has not heard of yet."""

    kafka_code = 75


class FetchSessionTopicIdError(BarnabasError):
    """Topic names and topic ids mixed in one fetch session."""

    kafka_code = 106


class NotCoordinator(BarnabasError):
    """This node does not coordinate the group or the transactional id."""

    kafka_code = 16


class TopicDeletionDisabled(BarnabasError):
    """Topics cannot be deleted in this cluster."""

    kafka_code = 73


class MismatchedEndpointType(BarnabasError):
    """Something was asked of a broker that only a controller's listener answers."""

    kafka_code = 114


class UnsupportedEndpointType(BarnabasError):
    """A type of endpoint that does not exist."""

    kafka_code = 115


class OffsetMetadataTooLarge(BarnabasError):
    """What was to be kept beside a committed offset is over its limit."""

    kafka_code = 12


class CoordinatorNotAvailable(BarnabasError):
    """The coordinator cannot write what it decided; try again."""

    kafka_code = 15


class IllegalGeneration(BarnabasError):
    """A member speaks of another generation than the group is in."""

    kafka_code = 22


class InconsistentGroupProtocol(BarnabasError):
    """A member's protocols have none in common with those of the group, or are not its type."""

    kafka_code = 23


class InvalidGroupId(BarnabasError):
    """A group id that cannot be."""

    kafka_code = 24


class UnknownMemberId(BarnabasError):
    """A member that the group does not have."""

    kafka_code = 25


class InvalidSessionTimeout(BarnabasError):
    """A session timeout outside of what this cluster allows."""

    kafka_code = 26


class RebalanceInProgress(BarnabasError):
    """The group is rebalancing: join again."""

    kafka_code = 27


class NonEmptyGroup(BarnabasError):
    """A group that has members cannot be deleted."""

    kafka_code = 68


class GroupIdNotFound(BarnabasError):
    """A group that does not exist."""

    kafka_code = 69


class MemberIdRequired(BarnabasError):
    """A new member has been given an id: join again with it."""

    kafka_code = 79

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again as member '{member_id}'")
        self.member_id = member_id


class GroupMaxSizeReached(BarnabasError):
    """The group has as many members as it may."""

    kafka_code = 81


class FencedInstanceId(BarnabasError):
    """Another member has taken this instance id since."""

    kafka_code = 82


class GroupSubscribedToTopic(BarnabasError):
    """Offsets of a topic that the group is reading cannot be deleted."""

    kafka_code = 86


class UnstableOffsetCommit(BarnabasError):
    """An open transaction is about to change this offset; try again."""

    kafka_code = 88


class InvalidGroupRecord(BarnabasError):
    """A record of the coordinator log that cannot be read, or does not fit what came before it."""


class UnsupportedVersion(BarnabasError):
    """A version of a request that cannot do what is asked of it."""

    kafka_code = 35


class FencedMemberEpoch(BarnabasError):
    """A member of a consumer group is out of step: it must give up its partitions and join again."""

    kafka_code = 110


class UnreleasedInstanceId(BarnabasError):
    """Another member has this instance id and has not left."""

    kafka_code = 111


class UnsupportedAssignor(BarnabasError):
    """An assignor that this cluster does not have."""

    kafka_code = 112


class StaleMemberEpoch(BarnabasError):
    """A member of a consumer group speaks of another epoch than it is in: try again with the current one."""

    kafka_code = 113


class InvalidRegularExpression(BarnabasError):
    """A regular expression that is none in the syntax of RE2."""

    kafka_code = 128


class CoordinatorLoadInProgress(BarnabasError):
    """The coordinator is reading its log, and can say nothing yet."""

    kafka_code = 14


class InvalidProducerIdMapping(BarnabasError):
    """A producer id that is not the one of its transactional id, or a transactional id that is not known."""

    kafka_code = 49


class InvalidTransactionTimeout(BarnabasError):
    """A transaction timeout outside of what this cluster allows."""

    kafka_code = 50


class ConcurrentTransactions(BarnabasError):
    """The transaction before is still being ended; try again."""

    kafka_code = 51


class TransactionalIdAuthorizationFailed(BarnabasError):
    """A transactional id that the client may not use, or not in this way."""

    kafka_code = 53


class ProducerFenced(BarnabasError):
    """A newer producer has taken this transactional id, or the coordinator has ended the transaction."""

    kafka_code = 90


class TransactionalIdNotFound(BarnabasError):
    """A transactional id that is not known."""

    kafka_code = 105


class TransactionAbortable(BarnabasError):
    """The transaction cannot go on; the producer can abort it and begin another."""

    kafka_code = 120


class InvalidTransactionRecord(BarnabasError):
    """A record of the transaction log that cannot be read."""


class TopicAuthorizationFailed(BarnabasError):
    """A topic that this client may not use in this way."""

    kafka_code = 29


class OperationNotAttempted(BarnabasError):
    """Nothing was tried, because something beside it in the request is wrong."""

    kafka_code = 55


class ReplicaNotAvailable(BarnabasError):
    """This node has no replica of the partition."""

    kafka_code = 9


class SecurityDisabled(BarnabasError):
    """Something that needs an authorizer was asked for, and there is none."""

    kafka_code = 54


class LogDirNotFound(BarnabasError):
    """A directory that is none of this node's data directories."""

    kafka_code = 57


class NoReassignmentInProgress(BarnabasError):
    """A reassignment that is to be cancelled, and is not there."""

    kafka_code = 85


class InvalidUpdateVersion(BarnabasError):
    """A level that a feature cannot be brought to."""

    kafka_code = 95
