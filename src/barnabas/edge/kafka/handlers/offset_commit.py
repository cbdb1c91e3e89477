"""OffsetCommit, versions 2 to 10: commit offsets of a group.

From version 10 on topics are named by their ids. Versions below 9 do not know GROUP_ID_NOT_FOUND, and get
ILLEGAL_GENERATION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation, group
from barnabas.core.errors import BarnabasError, GroupIdNotFound, IllegalGeneration
from barnabas.core.groups.offsets import CommitRequest, NewOffset
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import committing
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.letting_go import let_go_flat
from barnabas.services.broker import Broker
from barnabas.wire.apis import OFFSET_COMMIT
from barnabas.wire.requests import to_ms

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import offset_commit as message

_EPOCHS_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 10


@serves(OFFSET_COMMIT, 2, 10)
async def handle(broker: Broker, request: message.OffsetCommitRequest, asked: Asked) -> message.OffsetCommitResponse:
    """See the module."""
    kind = committing.OffsetsToCommitById if asked.version >= _TOPIC_IDS_FROM else committing.OffsetsToCommit
    offsets = await kind.take(broker, asked.session, request.topics)
    try:
        broker.access.authorize(asked.session, Operation.READ, group(request.group_id))
    except BarnabasError as error:
        offsets.refuse(error)
    new_offsets = offsets.new_offsets
    committed = await _commit(broker, request, asked.version, new_offsets) if new_offsets else ()
    answers = await offsets.answer(committed)
    let_go_flat(new_offsets)
    return {"topics": answers}


async def _commit(
    broker: Broker, request: message.OffsetCommitRequest, version: int, new_offsets: list[NewOffset]
) -> list[int]:
    try:
        errors = await broker.groups.commit_offsets(
            CommitRequest(
                group=request.group_id,
                offsets=new_offsets,
                generation=request.generation_id_or_member_epoch,
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                retention_ms=to_ms(request.retention_time),
                knows_epochs=version >= _EPOCHS_FROM,
            )
        )
    except GroupIdNotFound as error:
        code = error.kafka_code if version >= _EPOCHS_FROM else IllegalGeneration.kafka_code
        return [code] * len(new_offsets)
    except BarnabasError as error:
        return [error.kafka_code] * len(new_offsets)
    return [0 if error is None else error.kafka_code for error in errors]
