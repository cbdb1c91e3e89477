"""How the versions of Produce differ in transactions."""

from functools import cache, partial
from typing import Final

from barnabas.core.errors import (
    BarnabasError,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    LeaderNotAvailable,
    NotCoordinator,
    NotEnoughReplicas,
    PeerError,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
)
from barnabas.services.produce import Transacting

ABORTABLE_FROM: Final = 11  # these know TRANSACTION_ABORTABLE
ADDS_FROM: Final = 12  # these add partitions to the transaction by writing to them
_RETRIED: Final = (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    LeaderNotAvailable,  # the coordinator's partition has none
    NotCoordinator,
    PeerError,
    RequestTimedOut,
)


@cache
def transacting_of(version: int) -> Transacting:
    """How transactions work with clients of a Produce `version`."""
    return Transacting(adds=version >= ADDS_FROM, refusal_of=partial(_refusal_of, version))


def _refusal_of(version: int, error: BarnabasError) -> BarnabasError:
    """The error for a client of a Produce `version` when the coordinator refuses its transaction."""
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch(str(error))  # to a producer, that says to abort and go on
    if isinstance(error, TransactionAbortable) and version < ABORTABLE_FROM:
        return InvalidTxnState(str(error))
    is_old_concurrent = isinstance(error, ConcurrentTransactions) and version < ADDS_FROM
    if is_old_concurrent or isinstance(error, _RETRIED):
        # Clients do not know these as answers to a produce, and this one they retry without looking for another leader.
        return NotEnoughReplicas(f"cannot verify that the partition is part of the transaction: {error}")
    return error
