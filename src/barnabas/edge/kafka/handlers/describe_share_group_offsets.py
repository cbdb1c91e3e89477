"""DescribeShareGroupOffsets, versions 0 and 1: where share groups read, and (from 1 on, KIP-1226) how much is left.

Goes to the coordinator of the group, which asks the share coordinators. As Kafka does it: without topics, all that the
group reads and the client may see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation
from barnabas.core.access.resources import group as group_of
from barnabas.core.access.resources import topic as topic_of
from barnabas.core.errors import BarnabasError
from barnabas.core.groups.records import NO_TOPIC_ID
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.handlers.sharing import code_of, text_of
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.access import refusal_of
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.services.share_groups import DescribedOffset
from barnabas.wire.apis import DESCRIBE_SHARE_GROUP_OFFSETS

if TYPE_CHECKING:
    from uuid import UUID

    from barnabas.edge.kafka.messages import describe_share_group_offsets as message

_PER_TURN: Final = 20


@serves(DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1)
async def handle(
    broker: Broker, request: message.DescribeShareGroupOffsetsRequest, asked: Asked
) -> message.DescribeShareGroupOffsetsResponse:
    """See the module."""
    groups = [
        await _describe(broker, wanted, asked.session) async for wanted in in_turns(request.groups, per_turn=_PER_TURN)
    ]
    return {"groups": groups}


async def _describe(
    broker: Broker, wanted: message.DescribeShareGroupOffsetsRequestGroup, session: Session
) -> message.DescribeShareGroupOffsetsResponseGroup:
    group = wanted.group_id
    asked = None
    if wanted.topics is not None:
        asked = {topic.topic_name: list(dict.fromkeys(topic.partitions)) for topic in wanted.topics}
    hidden: list[DescribedOffset] = []
    try:
        broker.access.authorize(session, Operation.DESCRIBE, group_of(group))
        if asked is not None:
            seen = {name for name in asked if broker.access.allows_topic(session, Operation.DESCRIBE, name)}
            hidden = _hidden({name: found for name, found in asked.items() if name not in seen})
            asked = {name: found for name, found in asked.items() if name in seen}
        found = await broker.shares.groups.describe_offsets(group, asked)
    except BarnabasError as error:
        return {"group_id": group, "topics": [], **refused(error)}
    shown = found
    if asked is None:  # what was not named is left out without a word
        shown = [each for each in found if broker.access.sees_topic(session, Operation.DESCRIBE, each.topic)]
    by_topic: dict[tuple[str, UUID], list[message.DescribeShareGroupOffsetsResponsePartition]] = {}
    for each in [*shown, *hidden]:
        by_topic.setdefault((each.topic, each.topic_id), []).append(_partition(each))
    return {
        "group_id": group,
        "topics": [
            {"topic_name": name, "topic_id": topic_id, "partitions": partitions}
            for (name, topic_id), partitions in by_topic.items()
        ],
        **DONE,
    }


def _hidden(asked: dict[str, list[int]]) -> list[DescribedOffset]:
    return [
        DescribedOffset(name, NO_TOPIC_ID, index, error=refusal_of(Operation.DESCRIBE, topic_of(name)))
        for name, indexes in asked.items()
        for index in indexes
    ]


def _partition(each: DescribedOffset) -> message.DescribeShareGroupOffsetsResponsePartition:
    return {
        "partition_index": each.partition,
        "start_offset": each.start_offset,
        "leader_epoch": each.leader_epoch,
        "lag": each.lag,
        "error_code": code_of(each.error),
        "error_message": text_of(each.error),
    }
