"""Refusals of the coordinators of groups and transactions, and of partitions about transactions."""

from barnabas.core.errors.requests import BarnabasError


class CoordinatorNotAvailable(BarnabasError):
    """The coordinator cannot write what it decided; try again."""

    kafka_code = 15


class CoordinatorLoadInProgress(BarnabasError):
    """The coordinator is loading its log, and cannot answer yet."""

    kafka_code = 14


class NotCoordinator(BarnabasError):
    """This node does not coordinate the group or the transactional id."""

    kafka_code = 16


class OffsetMetadataTooLarge(BarnabasError):
    """The metadata of a committed offset is over its limit."""

    kafka_code = 12


class IllegalGeneration(BarnabasError):
    """A request with another generation than the group's."""

    kafka_code = 22


class InconsistentGroupProtocol(BarnabasError):
    """A member's protocols have none in common with those of the group, or are of another type."""

    kafka_code = 23


class InvalidGroupId(BarnabasError):
    """An invalid group id."""

    kafka_code = 24


class UnknownMemberId(BarnabasError):
    """A member that the group does not have."""

    kafka_code = 25


class InvalidSessionTimeout(BarnabasError):
    """A session timeout outside the limits of this cluster."""

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
    """The group has the maximum number of members."""

    kafka_code = 81


class FencedInstanceId(BarnabasError):
    """Another member has taken this instance id since."""

    kafka_code = 82


class GroupSubscribedToTopic(BarnabasError):
    """Offsets of a topic that the group is reading cannot be deleted."""

    kafka_code = 86


class UnstableOffsetCommit(BarnabasError):
    """An open transaction may change this offset; try again."""

    kafka_code = 88


class InvalidGroupRecord(BarnabasError):
    """A record of the coordinator log that cannot be read, or contradicts the ones before it."""


class FencedMemberEpoch(BarnabasError):
    """A member of a consumer group is fenced: it must give up its partitions and join again."""

    kafka_code = 110


class UnreleasedInstanceId(BarnabasError):
    """Another member has this instance id and has not left."""

    kafka_code = 111


class UnsupportedAssignor(BarnabasError):
    """An assignor that this cluster does not support."""

    kafka_code = 112


class StaleMemberEpoch(BarnabasError):
    """A request with a stale epoch of a member of a consumer group: try again with the current one."""

    kafka_code = 113


class InvalidProducerEpoch(BarnabasError):
    """A producer fenced by a newer epoch."""

    kafka_code = 47


class InvalidTxnState(BarnabasError):
    """A write that does not match the state of the transaction."""

    kafka_code = 48


class TransactionCoordinatorFenced(BarnabasError):
    """A transaction marker from a coordinator that a newer one has replaced."""

    kafka_code = 52


class InvalidProducerIdMapping(BarnabasError):
    """A producer id that does not own its transactional id, or an unknown transactional id."""

    kafka_code = 49


class InvalidTransactionTimeout(BarnabasError):
    """A transaction timeout outside the limits of this cluster."""

    kafka_code = 50


class ConcurrentTransactions(BarnabasError):
    """The previous transaction is still ending; try again."""

    kafka_code = 51


class ProducerFenced(BarnabasError):
    """A newer producer has taken this transactional id, or the coordinator has ended the transaction."""

    kafka_code = 90


class TransactionalIdNotFound(BarnabasError):
    """An unknown transactional id."""

    kafka_code = 105


class TransactionAbortable(BarnabasError):
    """The transaction cannot go on; the producer can abort it and begin another."""

    kafka_code = 120


class InvalidTransactionRecord(BarnabasError):
    """A record of the transaction log that cannot be read."""
