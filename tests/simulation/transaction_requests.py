"""The requests of transactions in plain values, their codes, and one that was sent and may be sent again."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from barnabas.testing import wire_client as wire
from barnabas.wire.apis import ADD_PARTITIONS_TO_TXN, TXN_OFFSET_COMMIT, Api
from barnabas.wire.writing import Values
from tests.simulation.group_history import At

OK: Final = 0
OUT_OF_ORDER: Final = 45
DUPLICATE_SEQUENCE: Final = 46
UNSTABLE_OFFSET: Final = 88
# Timeout, coordinator loads, is not there, is another; too few replicas; the last transaction is being ended.
RETRIED: Final = (7, 14, 15, 16, 19, 51)
# Of those, what is also said of a request that was carried out, perhaps.
UNCERTAIN: Final = (7, 15, 16)
# Producer epoch, transaction state, id mapping, producer fenced, transaction abortable: when all is not as it was.
REFUSALS: Final = (47, 48, 49, 90, 120)


class Identity(NamedTuple):
    """A producer as it names itself."""

    producer_id: int
    epoch: int


NOBODY: Final = Identity(-1, -1)


class Sent(NamedTuple):
    """A request as it was sent, for whoever delivers it once more."""

    api: Api
    version: int
    values: Values
    transactional_id: str
    identity: Identity
    is_new: bool  # its producer has an epoch for each transaction


def init_producer_id(transactional_id: str, identity: Identity, *, timeout_s: float) -> Values:
    return {
        "transactional_id": transactional_id,
        "transaction_timeout": int(timeout_s * 1000),
        "producer_id": identity.producer_id,
        "producer_epoch": identity.epoch,
    }


def add_partitions(transactional_id: str, identity: Identity, partitions: Iterable[At]) -> Values:
    """Version 3."""
    return {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": identity.producer_id,
        "v3_and_below_producer_epoch": identity.epoch,
        "v3_and_below_topics": [
            {"name": topic, "partitions": numbers} for topic, numbers in by_topic(partitions).items()
        ],
    }


def add_offsets(transactional_id: str, identity: Identity, group: str) -> Values:
    return {**_who(transactional_id, identity), "group_id": group}


def commit_offset(transactional_id: str, identity: Identity, group: str, source: At, offset: int, tag: str) -> Values:
    """Of a group without members; version 3 and on."""
    partition = {
        "partition_index": source.partition,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": tag,
    }
    return {
        **_who(transactional_id, identity),
        "group_id": group,
        "generation_id": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": source.topic, "partitions": [partition]}],
    }


def end_transaction(transactional_id: str, identity: Identity, *, is_commit: bool) -> Values:
    return {**_who(transactional_id, identity), "committed": is_commit}


def fetch_offset(group: str, source: At, *, is_stable: bool) -> Values:
    """Version 8."""
    topics = [{"name": source.topic, "partition_indexes": [source.partition]}]
    return {"groups": [{"group_id": group, "topics": topics}], "require_stable": is_stable}


def produce(
    transactional_id: str, batches: Mapping[At, bytes], *, version: int, ids: Mapping[str, Any], timeout_ms: int = 3000
) -> Values:
    by_name: dict[Any, dict[int, bytes]] = {}
    for at, data in batches.items():
        by_name.setdefault(ids[at.topic] if version >= 13 else at.topic, {})[at.partition] = data
    request = wire.produce_request(by_name, version=version, timeout_ms=timeout_ms)
    return {**request, "transactional_id": transactional_id}


def _who(transactional_id: str, identity: Identity) -> dict[str, Any]:
    return {
        "transactional_id": transactional_id,
        "producer_id": identity.producer_id,
        "producer_epoch": identity.epoch,
    }


def by_topic(partitions: Iterable[At]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at in sorted(partitions):
        found.setdefault(at.topic, []).append(at.partition)
    return found


def code_of(api: Api, answer: Any) -> int:
    """What an answer says that has one code, or that of the first partition that has one."""
    if api == ADD_PARTITIONS_TO_TXN:
        results = [each for topic in answer.results_by_topic_v3_and_below for each in topic.results_by_partition]
        return next((int(each.partition_error_code) for each in results if each.partition_error_code), OK)
    if api == TXN_OFFSET_COMMIT:
        offsets = [each for topic in answer.topics for each in topic.partitions]
        return next((int(each.error_code) for each in offsets if each.error_code), OK)
    return int(answer.error_code)
