"""Produce's own reader and writer against kio, for every version."""

import struct
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.core.produced import ProduceRequest
from barnabas.wire.apis import PRODUCE
from barnabas.wire.errors import MalformedRequest
from barnabas.wire.frame import MAX_TAGGED_FIELDS, RequestHeader, answer_head, write_uvarint
from barnabas.wire.produce import (
    MAX_PARTITIONS,
    TOPIC_IDS_FROM,
    PartitionAnswer,
    TopicAnswer,
    read_produce,
    read_single,
    write_produce,
    write_single,
)
from tests.support.examples import examples
from tests.support.served import versions_of
from tests.unit.wire.kio_values import decode_response, encode, endpoints_of, requests, responses

VERSIONS = versions_of(PRODUCE)
FEW = settings(max_examples=examples(24), suppress_health_check=[HealthCheck.too_slow])


def as_kio_has_it(request: ProduceRequest) -> Any:
    return (
        request.transactional_id,
        request.acks,
        request.timeout_ms,
        [
            (
                None if topic.topic_id is None or topic.topic_id.int == 0 else topic.topic_id,
                topic.name,
                [(each.partition, None if each.records is None else bytes(each.records)) for each in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def as_we_have_it(entity: Any) -> Any:
    return (
        entity.transactional_id,
        entity.acks,
        round(entity.timeout.total_seconds() * 1000),
        [
            (
                getattr(topic, "topic_id", None),
                getattr(topic, "name", None),
                [(each.index, None if each.records is None else bytes(each.records)) for each in topic.partition_data],
            )
            for topic in entity.topic_data
        ],
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_read_as_kio_wrote_it(version: int) -> None:
    @given(requests(PRODUCE, version), st.binary(max_size=5))
    @FEW
    def check(entity: Any, before: bytes) -> None:
        data = before + encode(entity)
        read = read_produce(memoryview(data), len(before), len(data), version)
        assert as_kio_has_it(read) == as_we_have_it(entity)

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_short_way_reads_the_same_or_nothing(version: int) -> None:
    @given(requests(PRODUCE, version))
    @FEW
    def check(entity: Any) -> None:
        data = memoryview(encode(entity))
        single = read_single(data, 0, len(data), version)
        if single is not None:
            read = read_produce(data, 0, len(data), version)
            ((topic,), transactional_id) = read.topics, read.transactional_id
            assert transactional_id is None
            ((partition, records),) = topic.partitions
            name = (topic.name, topic.topic_id, partition, records)
            assert (read.acks, read.timeout_ms, *name) == single

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncation_is_malformed_and_nothing_else(version: int) -> None:
    @given(requests(PRODUCE, version))
    @settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
    def check(entity: Any) -> None:
        whole = encode(entity)
        # Within a longer buffer too: what lies behind the end is another request.
        padded = memoryview(whole + b"\x01" * 64)
        for end in range(len(whole)):
            with pytest.raises(MalformedRequest):
                read_produce(memoryview(whole)[:end], 0, end, version)
            with pytest.raises(MalformedRequest):
                read_produce(padded, 0, end, version)

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_any_changed_byte_is_read_or_malformed(version: int) -> None:
    @given(requests(PRODUCE, version), st.data())
    @FEW
    def check(entity: Any, data: st.DataObject) -> None:
        whole = bytearray(encode(entity))
        for _ in range(data.draw(st.integers(1, 4))):
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
        for read in (read_produce, read_single):
            with suppress(MalformedRequest):
                read(memoryview(whole), 0, len(whole), version)

    check()


def old_request(topics: int, partitions: int) -> bytes:
    topic = struct.pack(">h", 1) + b"t" + struct.pack(">i", partitions) + struct.pack(">ii", 0, -1) * partitions
    return struct.pack(">hhii", -1, 1, 1000, topics) + topic * topics


def flexible_request(topics: int, partitions: int) -> bytes:
    topic = b"\x02t" + write_uvarint(partitions + 1) + b"\x00\x00\x00\x00\x00\x00" * partitions + b"\x00"
    return b"\x00" + struct.pack(">hi", 1, 1000) + write_uvarint(topics + 1) + topic * topics + b"\x00"


@pytest.mark.parametrize(("make", "version"), [(old_request, 3), (flexible_request, 9)])
def test_the_number_of_partitions_is_bounded_over_all_topics(make: Any, version: int) -> None:
    whole = make(2, MAX_PARTITIONS // 2)
    read = read_produce(memoryview(whole), 0, len(whole), version)
    assert sum(len(topic.partitions) for topic in read.topics) == MAX_PARTITIONS
    for topics, partitions in ((1, MAX_PARTITIONS + 1), (2, MAX_PARTITIONS // 2 + 1), (MAX_PARTITIONS + 1, 0)):
        whole = make(topics, partitions)
        with pytest.raises(MalformedRequest):
            read_produce(memoryview(whole), 0, len(whole), version)


@pytest.mark.parametrize("count", [-2, -(2**31), 2**31 - 1, 1000])
def test_array_counts_beyond_the_bytes_are_malformed(count: int) -> None:
    data = struct.pack(">hhii", -1, 1, 1000, count) + b"\x00" * 20
    with pytest.raises(MalformedRequest):
        read_produce(memoryview(data), 0, len(data), 3)


@pytest.mark.parametrize("count", [0, 1000, 2**31, 2**32 - 1])
def test_compact_array_counts_beyond_the_bytes_are_malformed(count: int) -> None:
    data = b"\x00" + struct.pack(">hi", 1, 1000) + write_uvarint(count) + b"\x00" * 20
    with pytest.raises(MalformedRequest):
        read_produce(memoryview(data), 0, len(data), 9)


def test_too_many_tagged_fields_are_malformed_wherever_they_are() -> None:
    tags = write_uvarint(MAX_TAGGED_FIELDS + 1) + b"\x00\x00" * (MAX_TAGGED_FIELDS + 1)
    head = b"\x00" + struct.pack(">hi", 1, 1000)
    partition = b"\x02t\x02" + struct.pack(">i", 0) + b"\x00"
    for body in (
        b"\x01" + tags,
        b"\x02" + partition + tags + b"\x00\x00",
        b"\x02" + partition + b"\x00" + tags + b"\x00",
    ):
        data = head + body
        with pytest.raises(MalformedRequest):
            read_produce(memoryview(data), 0, len(data), 9)


def test_a_topic_without_a_name_is_malformed() -> None:
    old = struct.pack(">hhii", -1, 1, 1000, 1) + b"\xff\xff" + struct.pack(">i", 0)
    flexible = b"\x00" + struct.pack(">hi", 1, 1000) + b"\x02\x00\x01\x00\x00"
    for data, version in ((old, 3), (flexible, 9)):
        with pytest.raises(MalformedRequest):
            read_produce(memoryview(data), 0, len(data), version)


def answers_of(entity: Any, version: int) -> list[TopicAnswer]:
    return [
        TopicAnswer(
            getattr(topic, "name", None),
            getattr(topic, "topic_id", None),
            [
                PartitionAnswer(
                    each.index,
                    each.error_code.value,
                    each.base_offset,
                    -1 if each.log_append_time is None else round(each.log_append_time.timestamp() * 1000),
                    getattr(each, "log_start_offset", -1),
                    getattr(each, "error_message", None),
                    tuple((e.batch_index, e.batch_index_error_message) for e in getattr(each, "record_errors", ())),
                    leader_of(each),
                )
                for each in topic.partition_responses
            ],
        )
        for topic in entity.responses
    ]


def leader_of(partition: Any) -> tuple[int, int] | None:
    leader = getattr(partition, "current_leader", None)
    return None if leader is None or leader == type(leader)() else (leader.leader_id, leader.leader_epoch)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_written_as_kio_writes_it(version: int) -> None:
    @given(responses(PRODUCE, version))
    @FEW
    def check(entity: Any) -> None:
        if version >= TOPIC_IDS_FROM and any(topic.topic_id is None for topic in entity.responses):
            return
        throttle_ms = round(entity.throttle_time.total_seconds() * 1000)
        endpoints = endpoints_of(entity)
        written = write_produce(version, answers_of(entity, version), throttle_ms=throttle_ms, endpoints=endpoints)
        assert written == encode(entity)
        assert decode_response(PRODUCE, version, written) == entity

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_that_quotes_a_long_name_is_cut_to_what_the_format_holds(version: int) -> None:
    name = "n" * 32_767
    answer = PartitionAnswer(0, 3, error_message=f"topic '{name}' does not exist", record_errors=((0, name * 2),))
    topic_id = None if version < TOPIC_IDS_FROM else UUID(int=1)
    decode_response(PRODUCE, version, write_produce(version, [TopicAnswer(name, topic_id, [answer])]))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["t", "n" * 249, "topic-é"])
def test_the_short_way_writes_what_the_long_one_does(version: int, name: str) -> None:
    topic_id = UUID(int=2**100 + len(name))
    header = RequestHeader(PRODUCE, version, 77, None, 0)
    for index, placed in ((3, (0, -1, 0)), (2**31 - 1, (2**62, 1_700_000_000_000, 17))):
        long = write_produce(version, [TopicAnswer(name, topic_id, [PartitionAnswer(index, 0, *placed)])])
        assert write_single(version, 77, name, topic_id, index, placed) == answer_head(header, len(long)) + long
