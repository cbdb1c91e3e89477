"""A member of a share group, for tests: it asks a broker without a socket."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire import apis
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.support import ask, ask_as, config_of, create, new_session, produce

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
GROUP_RESOURCE = 32
QUICK = config_of(
    group_share_min_record_lock_duration_ms="1000",
    group_share_record_lock_duration_ms="5000",
    share_coordinator_state_topic_num_partitions="3",
    offsets_topic_num_partitions="3",
)
EARLIEST = {"share.auto.offset.reset": "earliest"}

Acks = Mapping[int, Sequence[tuple[int, int, Sequence[int]]]]
"""By partition: first offset, last offset, types."""


class Member:
    """One member with one connection."""

    def __init__(self, broker: Broker, name: str = "m", group: str = "g", topic: str = "t") -> None:
        self.broker, self.name, self.group, self.topic = broker, name, group, topic
        self.session: Session = new_session()
        self.epoch = 0  # of its share session
        self.member_epoch = 0

    async def beat(self, epoch: int | None = None, **fields: Any) -> Any:
        """A heartbeat; one that joins says what it reads."""
        epoch = self.member_epoch if epoch is None else epoch
        asked: dict[str, Any] = {"group_id": self.group, "member_id": self.name, "member_epoch": epoch}
        asked["subscribed_topic_names"] = (self.topic,) if epoch == 0 else None
        answer = await ask_as(
            self.session, self.broker, apis.SHARE_GROUP_HEARTBEAT, 1, {"rack_id": None, **asked, **fields}
        )
        self.member_epoch = answer.member_epoch
        return answer

    async def fetch(
        self,
        partitions: Sequence[int] = (0,),
        *,
        acks: Acks | None = None,
        epoch: int | None = None,
        version: int = 2,
        topic_id: Any = None,
        **fields: Any,
    ) -> Any:
        """A ShareFetch of its session."""
        acks = acks or {}
        topic_id = topic_id or self.broker.served.by_name[self.topic].topic_id
        asked = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch if epoch is None else epoch,
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 1_000_000,
            "max_records": 500,
            "batch_size": 500,
            "topics": [{"topic_id": topic_id, "partitions": _partitions([*partitions, *acks], acks)}],
            "forgotten_topics_data": [],
            **fields,
        }
        answer = await ask_as(self.session, self.broker, apis.SHARE_FETCH, version, asked)
        if answer.error_code == 0 and epoch is None:
            self.epoch += 1
        return answer

    async def acknowledge(self, acks: Acks, *, epoch: int | None = None, version: int = 2, **fields: Any) -> Any:
        """A ShareAcknowledge of its session."""
        asked = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch if epoch is None else epoch,
            "topics": [
                {
                    "topic_id": self.broker.served.by_name[self.topic].topic_id,
                    "partitions": _partitions(acks, acks),
                }
            ],
            **fields,
        }
        answer = await ask_as(self.session, self.broker, apis.SHARE_ACKNOWLEDGE, version, asked)
        if answer.error_code == 0 and epoch is None:
            self.epoch += 1
        return answer

    async def acquire(self, partition: int = 0, **fields: Any) -> list[tuple[int, int, int]]:
        """What a fetch acquires of a partition: first offset, last offset, deliveries."""
        return acquired(await self.fetch((partition,), **fields), partition)


def _partitions(indexes: Any, acks: Acks) -> list[dict[str, Any]]:
    return [
        {
            "partition_index": index,
            "acknowledgement_batches": [
                {"first_offset": first, "last_offset": last, "acknowledge_types": tuple(types)}
                for first, last, types in acks.get(index, ())
            ],
        }
        for index in dict.fromkeys(indexes)
    ]


def partition_of(answer: Any, partition: int = 0) -> Any:
    """The answer for a partition; None if it has none."""
    assert answer.error_code == 0, answer
    found = [each for topic in answer.responses for each in topic.partitions if each.partition_index == partition]
    return found[0] if found else None


def acquired(answer: Any, partition: int = 0) -> list[tuple[int, int, int]]:
    found = partition_of(answer, partition)
    if found is None:
        return []
    assert found.error_code == 0, found
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in found.acquired_records]


def ack_code(answer: Any, partition: int = 0) -> int:
    """The code for what was acknowledged of a partition."""
    found = partition_of(answer, partition)
    return int(getattr(found, "acknowledge_error_code", found.error_code))


async def set_group(broker: Broker, group: str = "g", **settings: str) -> None:
    """Alter settings of a group; two underscores stand for a dot."""
    changes = [
        {"name": name.replace("__", "."), "value": text, "config_operation": 0} for name, text in settings.items()
    ]
    answer = await ask(
        broker,
        apis.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[{"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": changes}],
    )
    assert [each.error_code for each in answer.responses] == [0], answer


async def begin(broker: Broker, *, partitions: int = 1, records: int = 10, batches: int = 1) -> Member:
    """A topic with records, and a member that reads it from its beginning."""
    await create(broker, "t", partitions)
    await set_group(broker, share__auto__offset__reset="earliest")
    for _ in range(batches):
        await produce(broker, "t", *[NOW_MS] * records)
    member = Member(broker)
    assert (await member.beat()).error_code == 0
    return member


async def pass_time(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def wait_let_go(broker: Broker, group: str = "g") -> None:
    """Return when nothing of a group is in memory."""
    for _ in range(10_000):
        if not broker.shares.led.of_group(group):
            return
        await asyncio.sleep(0)
    raise AssertionError(f"group '{group}' is still in memory")
