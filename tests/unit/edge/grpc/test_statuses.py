"""What refusals become."""

from typing import Any

import pytest
from grpc import StatusCode

from barnabas.core import errors
from barnabas.core.errors import BarnabasError
from barnabas.core.errors.codes import refusal_of
from barnabas.edge.grpc.statuses import STATUSES, error_of, message_of, status_of, trailing_of


def kinds() -> list[type[BarnabasError]]:
    found = (each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, BarnabasError))
    return [each for each in found if each.kafka_code >= 0]


def test_no_code_has_two_statuses() -> None:
    codes = [code for some in STATUSES.values() for code in some]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (3, StatusCode.NOT_FOUND),
        (6, StatusCode.UNAVAILABLE),
        (29, StatusCode.PERMISSION_DENIED),
        (1, StatusCode.OUT_OF_RANGE),
    ],
)
def test_a_refusal_of_another_node_has_the_same_status(code: int, status: Any) -> None:
    assert status_of(refusal_of(code, "no")) is status


def test_a_refusal_that_no_table_knows_is_unknown_with_its_code() -> None:
    refusal = refusal_of(4711, "no")
    assert status_of(refusal) is StatusCode.UNKNOWN
    assert dict(trailing_of(refusal))["barnabas-kafka-code"] == "4711"


def test_what_clients_of_these_calls_can_meet_has_a_status() -> None:
    never_met = {
        "BrokerIdNotRegistered",
        "ConcurrentTransactions",
        "DelegationTokenAuthorizationFailed",
        "DuplicateBrokerRegistration",
        "DuplicateResource",
        "DuplicateVoter",
        "ElectionNotNeeded",
        "EligibleLeadersNotAvailable",
        "FencedStateEpoch",
        "FetchSessionIdNotFound",
        "FetchSessionTopicIdError",
        "GroupSubscribedToTopic",
        "IllegalSaslState",
        "InconsistentClusterId",
        "InconsistentGroupProtocol",
        "IneligibleReplica",
        "InvalidFetchSessionEpoch",
        "InvalidRecordState",
        "InvalidShareSessionEpoch",
        "InvalidTransactionTimeout",
        "InvalidTxnState",
        "InvalidUpdateVersion",
        "InvalidVoterKey",
        "LogDirNotFound",
        "MismatchedEndpointType",
        "NewLeaderElected",
        "NoReassignmentInProgress",
        "OperationNotAttempted",
        "PositionOutOfRange",
        "PreferredLeaderNotAvailable",
        "PrincipalDeserializationFailure",
        "ResourceNotFound",
        "ShareSessionLimitReached",
        "ShareSessionNotFound",
        "SnapshotNotFound",
        "StaleBrokerEpoch",
        "TransactionAbortable",
        "TransactionCoordinatorFenced",
        "TransactionalIdNotFound",
        "UnacceptableCredential",
        "UnsupportedAssignor",
        "UnsupportedEndpointType",
        "UnsupportedSaslMechanism",
        "VoterNotFound",
    }
    unknown = {each.__name__ for each in kinds() if status_of(each("x")) is StatusCode.UNKNOWN}
    assert unknown <= never_met


def test_a_message_of_any_length_is_cut() -> None:
    assert len(message_of(BarnabasError("x" * 10_000))) == 500


def test_an_error_says_whether_to_try_again() -> None:
    assert error_of(errors.NotLeaderOrFollower("moved")).is_retriable
    assert not error_of(errors.RecordTooLarge("large")).is_retriable
