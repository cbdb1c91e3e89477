"""What group tests ask, in any version: members that join and sync, and offsets that are committed and fetched."""

from typing import Any

from barnabas.services.broker import Broker
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.wire import apis
from tests.unit.edge.kafka.support import ask, config_of

QUICK: BrokerConfig = config_of(group_initial_rebalance_delay_ms="0")


async def join(
    broker: Broker,
    *,
    version: int = 9,
    group: str = "g",
    member_id: str = "",
    instance_id: str | None = None,
    protocols: tuple[str, ...] = ("range",),
    metadata: bytes = b"meta",
) -> Any:
    return await ask(
        broker,
        apis.JOIN_GROUP,
        version,
        group_id=group,
        session_timeout=10_000,
        rebalance_timeout=20_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[{"name": name, "metadata": metadata} for name in protocols],
    )


async def join_alone(broker: Broker, *, version: int = 9, group: str = "g") -> Any:
    """Join a group as its only member, with the two steps that versions from 4 on take."""
    answer = await join(broker, version=version, group=group)
    if answer.error_code == 79:
        answer = await join(broker, version=version, group=group, member_id=answer.member_id)
    assert answer.error_code == 0
    return answer


async def sync(broker: Broker, joined: Any, *, version: int = 5, group: str = "g", **fields: Any) -> Any:
    return await ask(
        broker,
        apis.SYNC_GROUP,
        version,
        **{
            "group_id": group,
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": joined.member_id, "assignment": b"all"}],
            **fields,
        },
    )


async def commit(broker: Broker, topic: str, offsets: dict[int, int], *, version: int = 9, **fields: Any) -> list[int]:
    """Commit offsets of a topic; the codes, in the order of the partitions."""
    topic_id = broker.served.by_name[topic].topic_id if topic in broker.served.by_name else None
    answer = await ask(
        broker,
        apis.OFFSET_COMMIT,
        version,
        **{
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "retention_time": -1,
            "topics": [
                {
                    "name": topic,
                    "topic_id": topic_id,
                    "partitions": [
                        {"partition_index": index, "committed_offset": offset, "committed_metadata": f"at {offset}"}
                        for index, offset in offsets.items()
                    ],
                }
            ],
            **fields,
        },
    )
    return [int(each.error_code) for each in answer.topics[0].partitions]


async def fetch(
    broker: Broker, topic: str, *partitions: int, version: int = 9, group: str = "g", **fields: Any
) -> tuple[int, list[tuple[int, int, int]]]:
    """Fetch offsets of a topic: the group's code, and of each partition its number, offset and code."""
    topic_id = broker.served.by_name[topic].topic_id if topic in broker.served.by_name else None
    topics = [{"name": topic, "topic_id": topic_id, "partition_indexes": partitions}]
    named = {"group_id": group, "topics": topics, **fields}
    answer = await ask(broker, apis.OFFSET_FETCH, version, **named, groups=[named])
    body = answer.groups[0] if version >= 8 else answer
    found = [
        (each.partition_index, each.committed_offset, int(each.error_code))
        for answered in body.topics
        for each in answered.partitions
    ]
    return int(getattr(body, "error_code", 0)), found
