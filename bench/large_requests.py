"""Attacks by requests that are large, or small and dear: many partitions, many names, one name many times."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from barnabas.testing.wire_client import WireClient, encode_request, fetch_request
from barnabas.wire.apis import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    FETCH,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    Api,
)
from bench.attack import Attack, repeating
from bench.served import Served

BROKER_RESOURCE: Final = 4
MANY: Final = 90_000
WIDE, WIDE_PARTITIONS = "wide", 10_000
Values = Mapping[str, Any]


def _make_wide(broker: Served) -> None:
    """A topic of many partitions, all of them empty."""

    async def make() -> None:
        host, _, port = broker.bootstrap.rpartition(":")
        client = await WireClient.connect(host, int(port))
        await client.ask(CREATE_TOPICS, 7, _create(WIDE, WIDE_PARTITIONS), timeout_s=120)
        client.close()

    asyncio.run(make())


def _create(name: str, partitions: int) -> Values:
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    return {"topics": [topic], "timeout": 30_000, "validate_only": False}


def _large(
    name: str, api: Api, version: int, values: Callable[[], Values], prepare: Callable[[Served], None] = lambda _: None
) -> Attack:
    return Attack(name, repeating(lambda: encode_request(api, version, values())), prepare)


def _names(count: int, prefix: str = "n") -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def _one_broker_many_times() -> Values:
    resource = {"resource_type": BROKER_RESOURCE, "resource_name": "1", "configuration_keys": None}
    return {"resources": [resource] * 5000, "include_synonyms": False, "include_documentation": False}


def _fetch(topic: str, count: int) -> Values:
    return fetch_request({topic: dict.fromkeys(range(count), 0)}, version=12)


def _parked() -> Values:
    return fetch_request({WIDE: dict.fromkeys(range(WIDE_PARTITIONS), 0)}, version=12, max_wait_ms=500)


def _metadata(names: list[str] | None, *, creates: bool) -> Values:
    topics = None if names is None else [{"name": name, "topic_id": None} for name in names]
    return {
        "topics": topics,
        "allow_auto_topic_creation": creates,
        "include_topic_authorized_operations": False,
    }


def _commit() -> Values:
    partitions = [
        {"partition_index": n % WIDE_PARTITIONS, "committed_offset": n, "committed_metadata": None} for n in range(MANY)
    ]
    return {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": WIDE, "partitions": partitions}],
    }


def _fetch_offsets() -> Values:
    topics = [{"name": WIDE, "partition_indexes": [n % WIDE_PARTITIONS for n in range(MANY)]}]
    return {"group_id": "g", "topics": topics, "require_stable": False}


LARGE_REQUESTS: Final[Sequence[Attack]] = (
    _large("DescribeConfigs of one broker, 5,000 times", DESCRIBE_CONFIGS, 4, _one_broker_many_times),
    _large("Fetch of 10,000 partitions nobody used", FETCH, 12, lambda: _fetch(WIDE, WIDE_PARTITIONS), _make_wide),
    _large("Fetch of 90,000 partitions that are not there", FETCH, 12, lambda: _fetch("none", MANY)),
    _large("Fetch that waits for 10,000 partitions", FETCH, 12, _parked, _make_wide),
    _large(
        "DeleteTopics of 90,000 names",
        DELETE_TOPICS,
        5,
        lambda: {"topic_names": _names(MANY), "timeout": 30_000},
    ),
    _large(
        "DescribeGroups of 90,000 names",
        DESCRIBE_GROUPS,
        5,
        lambda: {"groups": _names(MANY), "include_authorized_operations": False},
    ),
    _large("OffsetCommit of 90,000 partitions", OFFSET_COMMIT, 8, _commit, _make_wide),
    _large("OffsetFetch of 90,000 partitions", OFFSET_FETCH, 7, _fetch_offsets, _make_wide),
    _large("Metadata of 90,000 names", METADATA, 12, lambda: _metadata(_names(MANY), creates=False)),
    _large(
        "Metadata of a topic of 10,000 partitions", METADATA, 12, lambda: _metadata([WIDE], creates=False), _make_wide
    ),
    _large("CreateTopics of 100,000 partitions", CREATE_TOPICS, 7, lambda: _create("huge", 100_000)),
    _large(
        "Metadata that creates 20,000 topics", METADATA, 12, lambda: _metadata(_names(20_000, "auto"), creates=True)
    ),
)
