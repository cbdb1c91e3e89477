"""OffsetCommit, versions 2 to 10: keep how far a group has read. From version 10 on topics are named by their ids.

Versions below 9 do not know GROUP_ID_NOT_FOUND, and hear ILLEGAL_GENERATION.
"""

from typing import Any, Final

from barnabas.core.errors import BarnabasError, GroupIdNotFound, IllegalGeneration
from barnabas.core.groups.offsets import DEFAULT_RETENTION, CommitRequest, NewOffset
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import committing
from barnabas.services.broker import Broker
from barnabas.wire.requests import to_ms
from barnabas.wire.responses import Values

_EPOCHS_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 10


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    offsets = await committing.Asked.take(broker, request.topics, by_id=asked.version >= _TOPIC_IDS_FROM)
    new_offsets = offsets.new_offsets
    committed = await _commit(broker, request, asked.version, new_offsets) if new_offsets else ()
    return {"throttle_time": 0, "topics": await offsets.answer(committed)}


async def _commit(broker: Broker, request: Any, version: int, new_offsets: list[NewOffset]) -> list[int]:
    retention = getattr(request, "retention_time", None)
    try:
        errors = await broker.groups.commit_offsets(
            CommitRequest(
                group=request.group_id,
                offsets=new_offsets,
                generation=request.generation_id_or_member_epoch,
                member_id=request.member_id,
                instance_id=getattr(request, "group_instance_id", None),
                retention_ms=DEFAULT_RETENTION if retention is None else to_ms(retention),
                knows_epochs=version >= _EPOCHS_FROM,
            )
        )
    except GroupIdNotFound as error:
        code = error.kafka_code if version >= _EPOCHS_FROM else IllegalGeneration.kafka_code
        return [code] * len(new_offsets)
    except BarnabasError as error:
        return [error.kafka_code] * len(new_offsets)
    return [0 if error is None else error.kafka_code for error in errors]
