"""TxnOffsetCommit, versions 0 to 5: offsets of a group that count once a transaction is committed.

From version 5 on they need not be announced by AddOffsetsToTxn (KIP-890).

Differs from Kafka: an offset for an unknown topic is refused individually in every version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation, group, transactional_id
from barnabas.core.errors import (
    BarnabasError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidTxnState,
    LeaderNotAvailable,
    PeerError,
    StaleMemberEpoch,
    TransactionAbortable,
)
from barnabas.core.groups.offsets import CommitRequest, NewOffset
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import committing
from barnabas.edge.kafka.registry import serves
from barnabas.services.broker import Broker
from barnabas.services.groups import OpenTransaction
from barnabas.wire.apis import TXN_OFFSET_COMMIT

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import txn_offset_commit as message

_LOADING_FROM: Final = 2
_ABORTABLE_FROM: Final = 4
_ADDS_FROM: Final = 5


@serves(TXN_OFFSET_COMMIT, 0, 5)
async def handle(
    broker: Broker, request: message.TxnOffsetCommitRequest, asked: Asked
) -> message.TxnOffsetCommitResponse:
    """See the module."""
    offsets = await committing.OffsetsToCommit.take(broker, asked.session, request.topics)
    try:
        broker.access.authorize(asked.session, Operation.WRITE, transactional_id(request.transactional_id))
        broker.access.authorize(asked.session, Operation.READ, group(request.group_id))
    except BarnabasError as error:
        offsets.refuse(error)
    new_offsets = offsets.new_offsets
    committed = await _commit(broker, request, asked.version, new_offsets) if new_offsets else ()
    return {"topics": await offsets.answer(committed)}


async def _commit(
    broker: Broker, request: message.TxnOffsetCommitRequest, version: int, new_offsets: list[NewOffset]
) -> list[int]:
    try:
        errors = await broker.groups.commit_offsets_within(
            CommitRequest(
                group=request.group_id,
                offsets=new_offsets,
                generation=request.generation_id,
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                is_transactional=True,
            ),
            OpenTransaction(request.transactional_id, request.producer_id, request.producer_epoch),
            adds=version >= _ADDS_FROM,
        )
    except BarnabasError as error:
        return [_code(error, version)] * len(new_offsets)
    return [0 if error is None else error.kafka_code for error in errors]


def _code(error: BarnabasError, version: int) -> int:
    """The code of a refusal, as far as the version knows it."""
    # The coordinator of the transaction cannot be asked. Clients expect neither of these here; what they get instead
    # they retry without looking for another coordinator of the group.
    is_unasked = isinstance(error, LeaderNotAvailable | PeerError)
    if is_unasked or isinstance(error, CoordinatorLoadInProgress):
        return (CoordinatorNotAvailable if version < _LOADING_FROM else CoordinatorLoadInProgress).kafka_code
    if isinstance(error, TransactionAbortable) and version < _ABORTABLE_FROM:
        return InvalidTxnState.kafka_code
    if isinstance(error, GroupIdNotFound | StaleMemberEpoch):
        return IllegalGeneration.kafka_code
    return error.kafka_code
