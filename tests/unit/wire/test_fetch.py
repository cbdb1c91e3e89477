"""Fetch's own reader and writer against kio, for every version."""

import struct
from collections.abc import Generator
from contextlib import suppress
from typing import Any, TypeVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.core.fetched import FetchPartition, FetchRequest
from barnabas.wire import fetch, fetch_request
from barnabas.wire.apis import FETCH
from barnabas.wire.endpoints import NodeEndpoint
from barnabas.wire.errors import MalformedRequest
from barnabas.wire.fetch import FetchedPartition, FetchedTopic, write_fetch, write_fetch_in_steps
from barnabas.wire.fetch_request import MAX_PARTITIONS, read_fetch, read_fetch_in_steps
from barnabas.wire.frame import write_uvarint
from tests.support.examples import examples
from tests.support.served import versions_of
from tests.unit.wire.kio_values import decode_response, encode, endpoints_of, requests, responses

T = TypeVar("T")
VERSIONS = versions_of(FETCH)
FEW = settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow])
NO_ID = UUID(int=0)


def topic_of(entity: Any) -> Any:
    return getattr(entity, "topic", None) if hasattr(entity, "topic") else entity.topic_id or NO_ID


def as_we_have_it(entity: Any, version: int) -> FetchRequest:
    state = getattr(entity, "replica_state", None)
    return FetchRequest(
        round(entity.max_wait.total_seconds() * 1000),
        entity.min_bytes,
        entity.max_bytes,
        entity.isolation_level,
        entity.replica_id if state is None else state.replica_id,
        getattr(entity, "session_id", 0),
        getattr(entity, "session_epoch", -1),
        [
            (
                topic_of(topic),
                [
                    FetchPartition(
                        each.partition,
                        getattr(each, "current_leader_epoch", -1),
                        each.fetch_offset,
                        getattr(each, "last_fetched_epoch", -1),
                        each.partition_max_bytes,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in entity.topics
        ],
        [(topic_of(topic), list(topic.partitions)) for topic in getattr(entity, "forgotten_topics_data", ())],
        uses_topic_ids=version >= 13,
        replica_epoch=-1 if state is None else state.replica_epoch,
        rack=getattr(entity, "rack_id", ""),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_read_as_kio_wrote_it(version: int) -> None:
    @given(requests(FETCH, version), st.binary(max_size=5))
    @FEW
    def check(entity: Any, before: bytes) -> None:
        data = before + encode(entity)
        assert read_fetch(memoryview(data), len(before), len(data), version) == as_we_have_it(entity, version)

    check()


def finish(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_read_in_steps_as_it_is_at_once(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_request, "ELEMENTS_PER_STEP", 2)

    @given(requests(FETCH, version), st.binary(max_size=5))
    @FEW
    def check(entity: Any, before: bytes) -> None:
        data = bytearray(before + encode(entity))
        steps = read_fetch_in_steps(memoryview(data), len(before), len(data), version)
        end = len(data) - 1
        cut_off = read_fetch_in_steps(memoryview(data), len(before), end, version)
        data[:] = bytes(len(data))  # the buffer is used again
        assert finish(steps) == as_we_have_it(entity, version)
        with pytest.raises(MalformedRequest):
            finish(cut_off)

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncation_is_malformed_and_nothing_else(version: int) -> None:
    @given(requests(FETCH, version))
    @settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
    def check(entity: Any) -> None:
        whole = encode(entity)
        padded = memoryview(whole + b"\x01" * 64)
        for end in range(len(whole)):
            with pytest.raises(MalformedRequest):
                read_fetch(memoryview(whole)[:end], 0, end, version)
            with pytest.raises(MalformedRequest):
                read_fetch(padded, 0, end, version)

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_any_changed_byte_is_read_or_malformed(version: int) -> None:
    @given(requests(FETCH, version), st.data())
    @FEW
    def check(entity: Any, data: st.DataObject) -> None:
        whole = bytearray(encode(entity))
        for _ in range(data.draw(st.integers(1, 4))):
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
        with suppress(MalformedRequest):
            read_fetch(memoryview(whole), 0, len(whole), version)

    check()


@pytest.mark.parametrize("count", [-1, 1000, 2**31 - 1])
def test_array_counts_beyond_the_bytes_are_malformed(count: int) -> None:
    data = struct.pack(">iiiib", -1, 0, 0, 0, 0) + struct.pack(">i", count) + b"\x00" * 20
    with pytest.raises(MalformedRequest):
        read_fetch(memoryview(data), 0, len(data), 4)


@pytest.mark.parametrize("count", [0, 1000, 2**31, 2**32 - 1])
def test_compact_array_counts_beyond_the_bytes_are_malformed(count: int) -> None:
    data = struct.pack(">iiiibii", -1, 0, 0, 0, 0, 0, -1) + write_uvarint(count) + b"\x00" * 20
    with pytest.raises(MalformedRequest):
        read_fetch(memoryview(data), 0, len(data), 12)


def test_the_number_of_partitions_is_bounded() -> None:
    head = struct.pack(">iiiib", -1, 0, 0, 0, 0) + struct.pack(">ih", 1, 1) + b"t"
    data = head + struct.pack(">i", MAX_PARTITIONS) + bytes(16) * MAX_PARTITIONS
    with pytest.raises(MalformedRequest):
        read_fetch(memoryview(data), 0, len(data), 4)


def fetched(entity: Any) -> FetchedPartition:
    diverging, leader = getattr(entity, "diverging_epoch", None), getattr(entity, "current_leader", None)
    return FetchedPartition(
        entity.partition_index,
        entity.error_code.value,
        entity.high_watermark,
        entity.last_stable_offset,
        getattr(entity, "log_start_offset", -1),
        None
        if entity.aborted_transactions is None
        else tuple((each.producer_id, each.first_offset) for each in entity.aborted_transactions),
        getattr(entity, "preferred_read_replica", -1),
        entity.records,
        None if diverging is None or diverging == type(diverging)() else (diverging.epoch, diverging.end_offset),
        None if leader is None or leader == type(leader)() else (leader.leader_id, leader.leader_epoch),
    )


def has_snapshot(partition: Any) -> bool:
    snapshot = getattr(partition, "snapshot_id", None)
    return snapshot is not None and snapshot.end_offset + snapshot.epoch != -2


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_written_as_kio_writes_it(version: int) -> None:
    @given(responses(FETCH, version))
    @FEW
    def check(entity: Any) -> None:
        partitions = [each for topic in entity.responses for each in topic.partitions]
        if any(has_snapshot(each) for each in partitions):
            return  # snapshots are not told of
        topics = [
            FetchedTopic(
                getattr(topic, "topic", None),
                getattr(topic, "topic_id", None) or NO_ID,
                [fetched(each) for each in topic.partitions],
            )
            for topic in entity.responses
        ]
        error = getattr(entity, "error_code", None)
        pieces = write_fetch(
            version,
            topics,
            error_code=0 if error is None else error.value,
            session_id=getattr(entity, "session_id", 0),
            throttle_ms=round(entity.throttle_time.total_seconds() * 1000),
            endpoints=endpoints_of(entity),
        )
        written = b"".join(bytes(each) for each in pieces)
        assert written == encode(entity)
        assert decode_response(FETCH, version, written) == entity

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_written_in_steps_as_it_is_at_once(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "PARTITIONS_PER_STEP", 3)
    topics = [
        FetchedTopic(
            f"t{number}",
            UUID(int=number),
            [FetchedPartition(each, records=b"abc" if each % 2 else b"") for each in range(number)],
        )
        for number in range(9)
    ]
    endpoints = [NodeEndpoint(1, "a", 9092), NodeEndpoint(2, "b", 9093, "r")]
    steps = write_fetch_in_steps(version, topics, session_id=5, endpoints=endpoints)
    assert finish(steps) == write_fetch(version, topics, session_id=5, endpoints=endpoints)


@pytest.mark.parametrize("version", VERSIONS)
def test_aborted_transactions_divergence_and_null_records_are_all_there(version: int) -> None:
    partition = FetchedPartition(
        3,
        aborted=((7, 100), (8, 2**62)),
        records=None,
        diverging_epoch=(4, 50) if version >= 12 else None,
        current_leader=(2, 9) if version >= 12 else None,
    )
    pieces = write_fetch(version, [FetchedTopic("t", UUID(int=1), [partition, FetchedPartition(4, records=b"abc")])])
    read = decode_response(FETCH, version, b"".join(bytes(each) for each in pieces)).responses[0].partitions
    assert [(each.producer_id, each.first_offset) for each in read[0].aborted_transactions] == [(7, 100), (8, 2**62)]
    assert (read[0].records, read[1].records) == (None, b"abc")
    if version >= 12:
        assert (read[0].diverging_epoch.epoch, read[0].diverging_epoch.end_offset) == (4, 50)
        assert (read[0].current_leader.leader_id, read[0].current_leader.leader_epoch) == (2, 9)


def test_records_are_handed_on_without_a_copy() -> None:
    records = memoryview(bytes(100))
    pieces = write_fetch(18, [FetchedTopic(None, UUID(int=1), [FetchedPartition(0, records=records)])])
    assert any(each is records for each in pieces)
