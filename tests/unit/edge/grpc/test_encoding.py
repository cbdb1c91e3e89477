"""Records to batches and back, and which partition each goes to."""

import pytest
from confluent_kafka import murmur2
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import InvalidRecord, InvalidRequest, UnknownTopicOrPartition
from barnabas.core.records.batch import Codec, read_header
from barnabas.core.records.murmur2 import partition_for_key
from barnabas.edge.grpc.decoding import MAX_RECORDS, decode_fetched, decode_one, takes_long
from barnabas.edge.grpc.encoding import choose_partitions, codec_of, encode_batches
from barnabas.edge.grpc.statuses import NoSuchRecord
from barnabas.v1 import bus_pb2

NOW_MS = 1_700_000_000_000
records = st.builds(
    bus_pb2.NewRecord,
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=50),
    timestamp_ms=st.none() | st.integers(0, 2**41),
    headers=st.lists(
        st.builds(bus_pb2.Header, key=st.text(max_size=5), value=st.none() | st.binary(max_size=5)), max_size=3
    ),
)


@given(st.lists(records, min_size=1, max_size=20), st.sampled_from(list(Codec)))
def test_what_is_encoded_is_decoded_alike(given_records: list[bus_pb2.NewRecord], codec: Codec) -> None:
    (batch,) = encode_batches(given_records, [0] * len(given_records), now_ms=NOW_MS, codec=codec)
    batch.stamp(7, 0, 3)
    assert read_header(batch.data).producer_id == 7
    decoded = decode_fetched(batch.data, start_offset=0)
    assert decoded.next_offset == len(given_records)
    for before, after in zip(given_records, decoded.records, strict=True):
        assert after.HasField("key") == before.HasField("key")
        assert (after.key, after.value, list(after.headers)) == (before.key, before.value, list(before.headers))
        assert after.timestamp_ms == (before.timestamp_ms if before.HasField("timestamp_ms") else NOW_MS)


@given(st.binary(max_size=40), st.integers(1, 50))
def test_a_key_goes_where_librdkafka_sends_it(key: bytes, count: int) -> None:
    assert partition_for_key(key, count) == murmur2(key, count)


def test_partitions_are_chosen_by_name_key_turn_or_round() -> None:
    def choose(record: bus_pb2.NewRecord, turn: int = 4, *, is_round_robin: bool = False) -> list[int]:
        chosen = choose_partitions([record] * 3, partition_count=3, turn=turn, is_round_robin=is_round_robin)
        assert not chosen.refused
        return chosen.partitions

    assert choose(bus_pb2.NewRecord(partition=2, key=b"k")) == [2, 2, 2]
    assert choose(bus_pb2.NewRecord(key=b"k")) == [partition_for_key(b"k", 3)] * 3
    assert choose(bus_pb2.NewRecord()) == [1, 1, 1]
    assert choose(bus_pb2.NewRecord(), is_round_robin=True) == [1, 2, 0]


def test_a_record_that_cannot_be_written_is_refused_by_itself() -> None:
    some = [
        bus_pb2.NewRecord(partition=3),
        bus_pb2.NewRecord(partition=1, value=b"good"),
        bus_pb2.NewRecord(partition=-1),
        bus_pb2.NewRecord(timestamp_ms=-5),
    ]

    chosen = choose_partitions(some, partition_count=3, turn=0, is_round_robin=False)

    assert chosen.partitions == [-1, 1, -1, -1]
    assert [type(chosen.refused[at]) for at in (0, 2, 3)] == [
        UnknownTopicOrPartition,
        UnknownTopicOrPartition,
        InvalidRecord,
    ]
    (batch,) = encode_batches(some, chosen.partitions, now_ms=0, codec=Codec.NONE)
    assert (batch.partition, batch.places) == (1, [1])


def test_batches_keep_to_a_size_and_the_order_of_records() -> None:
    many = [bus_pb2.NewRecord(value=bytes([number]) * 100) for number in range(20)]
    batches = encode_batches(
        many, [number % 2 for number in range(20)], now_ms=0, codec=Codec.NONE, max_batch_bytes=400
    )
    for partition in (0, 1):
        places = [at for batch in batches if batch.partition == partition for at in batch.places]
        assert places == list(range(partition, 20, 2))
    assert all(len(batch.places) <= 4 for batch in batches)


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        codec_of(77)


def test_no_more_is_decoded_than_can_be_held() -> None:
    many = [bus_pb2.NewRecord()] * (MAX_RECORDS + 10)
    (batch,) = encode_batches(many, [0] * len(many), now_ms=0, codec=Codec.ZSTD)
    assert takes_long(batch.data)  # few bytes, and many records
    first = decode_fetched(batch.data, start_offset=0)
    assert (len(first.records), first.next_offset) == (MAX_RECORDS, MAX_RECORDS)
    rest = decode_fetched(batch.data, start_offset=first.next_offset)
    assert [each.offset for each in rest.records] == list(range(MAX_RECORDS, MAX_RECORDS + 10))


def test_one_record_is_found_in_its_batch() -> None:
    some = [bus_pb2.NewRecord(value=b"%d" % number) for number in range(5)]
    (batch,) = encode_batches(some, [0] * 5, now_ms=0, codec=Codec.ZSTD)
    assert decode_one(batch.data, offset=3).value == b"3"
    with pytest.raises(NoSuchRecord):
        decode_one(batch.data, offset=7)
