"""TxnOffsetCommit, versions 0 to 5: offsets of a group that count once a transaction is committed.

From version 5 on they need not be announced by AddOffsetsToTxn (KIP-890).

Differs from Kafka: an offset for a topic that is not there is refused by itself in every version.
"""

from typing import Any, Final

from barnabas.core.errors import (
    BarnabasError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidTxnState,
    StaleMemberEpoch,
    TransactionAbortable,
)
from barnabas.core.groups.offsets import CommitRequest, NewOffset
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import committing
from barnabas.services.broker import Broker
from barnabas.services.groups import OpenTransaction
from barnabas.wire.responses import Values

_LOADING_FROM: Final = 2
_ABORTABLE_FROM: Final = 4
_ADDS_FROM: Final = 5


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    offsets = await committing.Asked.take(broker, request.topics)
    new_offsets = offsets.new_offsets
    committed = await _commit(broker, request, asked.version, new_offsets) if new_offsets else ()
    return {"throttle_time": 0, "topics": await offsets.answer(committed)}


async def _commit(broker: Broker, request: Any, version: int, new_offsets: list[NewOffset]) -> list[int]:
    try:
        errors = await broker.groups.commit_offsets_within(
            CommitRequest(
                group=request.group_id,
                offsets=new_offsets,
                generation=getattr(request, "generation_id", -1),
                member_id=getattr(request, "member_id", ""),
                instance_id=getattr(request, "group_instance_id", None),
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
    if isinstance(error, CoordinatorLoadInProgress) and version < _LOADING_FROM:
        return CoordinatorNotAvailable.kafka_code
    if isinstance(error, TransactionAbortable) and version < _ABORTABLE_FROM:
        return InvalidTxnState.kafka_code
    if isinstance(error, GroupIdNotFound | StaleMemberEpoch):
        return IllegalGeneration.kafka_code
    return error.kafka_code
