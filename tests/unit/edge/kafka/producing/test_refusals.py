"""What a producer is told when the coordinator refuses its transaction, in the words of its version."""

import pytest

from barnabas.core.errors import (
    BarnabasError,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    LeaderNotAvailable,
    NotCoordinator,
    PeerTimedOut,
    PeerUnreachable,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
)
from barnabas.edge.kafka.produce_versions import transacting_of

RETRIED = 19
CODES = [
    (ProducerFenced, {10: 47, 11: 47, 12: 47}),
    (InvalidProducerEpoch, {10: 47, 11: 47, 12: 47}),
    (TransactionAbortable, {3: 48, 10: 48, 11: 120, 12: 120, 13: 120}),
    (InvalidTxnState, {10: 48, 12: 48}),
    (InvalidProducerIdMapping, {10: 49, 12: 49}),
    (ConcurrentTransactions, {10: RETRIED, 11: RETRIED, 12: 51, 13: 51}),
    (CoordinatorNotAvailable, {10: RETRIED, 12: RETRIED}),
    (CoordinatorLoadInProgress, {10: RETRIED, 12: RETRIED}),
    (NotCoordinator, {10: RETRIED, 12: RETRIED}),
    (RequestTimedOut, {10: RETRIED, 12: RETRIED}),
    (LeaderNotAvailable, {10: RETRIED, 12: RETRIED}),
    (PeerUnreachable, {10: RETRIED, 12: RETRIED}),
    (PeerTimedOut, {10: RETRIED, 12: RETRIED}),
]


@pytest.mark.parametrize(
    ("error", "version", "code"),
    [(error, version, code) for error, codes in CODES for version, code in codes.items()],
)
def test_every_refusal_is_one_that_the_version_knows(error: type[BarnabasError], version: int, code: int) -> None:
    refusal = transacting_of(version).refusal_of(error("why"))
    assert refusal.kafka_code == code
    assert "why" in str(refusal)
