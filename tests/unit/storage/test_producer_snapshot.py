"""The snapshot of producers: Kafka's layout, one entry for each remembered batch."""

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.records.batch import MAX_SEQUENCE
from barnabas.core.replica.producers import Producer, WrittenBatch
from barnabas.storage.producer_snapshot import DamagedSnapshot, encode_snapshot, parse_snapshot

# ProducerSnapshot of Kafka's message definitions, version 1, after the version and the checksum: a count, then for each
# entry producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the
# open transaction.
ENTRY = "0000000000000007 0003 00000009 0000000000000064 00000004 0000018bcfe56800 00000002 0000000000000060"
NO_BATCH = "0000000000000008 0000 ffffffff ffffffffffffffff 00000000 ffffffffffffffff ffffffff ffffffffffffffff"

KNOWN = Producer(
    producer_id=7,
    epoch=3,
    coordinator_epoch=2,
    last_timestamp=1_700_000_000_000,
    transaction_start=96,
    batches=(WrittenBatch(5, 9, 96, 100, 1_700_000_000_000),),
)


def file_of(count: int, *entries: str) -> bytes:
    body = count.to_bytes(4, "big") + bytes.fromhex("".join(entries))
    return b"\x00\x01" + crc32c(body).to_bytes(4, "big") + body


def test_the_bytes_are_those_of_kafka() -> None:
    assert encode_snapshot([KNOWN, Producer(8, epoch=0)]) == file_of(2, ENTRY, NO_BATCH)


def test_the_bytes_of_kafka_are_read() -> None:
    assert parse_snapshot(file_of(2, ENTRY, NO_BATCH)) == [KNOWN, Producer(8, epoch=0)]


def test_a_snapshot_without_producers() -> None:
    assert encode_snapshot([]) == file_of(0)
    assert parse_snapshot(file_of(0)) == []


def test_five_batches_are_read_back() -> None:
    batches = tuple(WrittenBatch(10 * n, 10 * n + 2, 100 * n, 100 * n + 2, 1000 + n) for n in range(5))
    producer = Producer(7, epoch=1, last_timestamp=1004, batches=batches)
    assert parse_snapshot(encode_snapshot([producer])) == [producer]


def test_a_reader_that_keeps_the_last_entry_of_a_producer_sees_its_newest_batch() -> None:
    batches = tuple(WrittenBatch(n, n, n, n, 1000 + n) for n in range(5))
    data = encode_snapshot([Producer(7, epoch=1, last_timestamp=2000, transaction_start=3, batches=batches)])
    last = file_of(1, data[-46:].hex())
    (producer,) = parse_snapshot(last)
    assert (producer.last_sequence, producer.last_timestamp, producer.transaction_start) == (4, 2000, 3)


def test_a_batch_whose_sequences_wrap_is_read_back() -> None:
    batch = WrittenBatch(MAX_SEQUENCE - 1, 2, 10, 14, 1000)
    producer = Producer(7, epoch=0, last_timestamp=1000, batches=(batch,))
    assert parse_snapshot(encode_snapshot([producer])) == [producer]


@given(
    st.lists(
        st.builds(
            lambda producer_id, epoch, sequence, offset, sizes, start: (
                producer_id,
                epoch,
                sequence,
                offset,
                sizes,
                start,
            ),
            st.integers(0, 2**62),
            st.integers(0, 2**15 - 1),
            st.integers(0, MAX_SEQUENCE),
            st.integers(0, 2**62),
            st.lists(st.integers(1, 1000), max_size=5),
            st.none() | st.integers(0, 2**62),
        ),
        max_size=5,
        unique_by=lambda each: each[0],
    )
)
def test_whatever_is_remembered_is_read_back(
    facts: list[tuple[int, int, int, int, list[int], int | None]],
) -> None:
    producers = []
    for producer_id, epoch, first_sequence, first_offset, sizes, start in facts:
        sequence, offset, batches = first_sequence, first_offset, []
        for size in sizes:
            last = (sequence + size - 1) % (MAX_SEQUENCE + 1)
            batches.append(WrittenBatch(sequence, last, offset, offset + size - 1, 5))
            sequence, offset = (last + 1) % (MAX_SEQUENCE + 1), offset + size
        producers.append(
            Producer(producer_id, epoch, last_timestamp=5, transaction_start=start, batches=tuple(batches))
        )
    assert parse_snapshot(encode_snapshot(producers)) == producers


@pytest.mark.parametrize("size", [0, 5, 9, 55])
def test_a_snapshot_cut_short_is_refused(size: int) -> None:
    with pytest.raises(DamagedSnapshot):
        parse_snapshot(file_of(1, ENTRY)[:size])


def test_a_snapshot_that_claims_other_counts_is_refused() -> None:
    for count in (0, 2, 2**31 - 1):
        with pytest.raises(DamagedSnapshot, match="claims"):
            parse_snapshot(file_of(count, ENTRY))


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(DamagedSnapshot, match="version 2"):
        parse_snapshot(b"\x00\x02" + file_of(1, ENTRY)[2:])


@pytest.mark.parametrize("bit", range(0, 8 * 56, 7))
def test_a_flipped_bit_is_noticed(bit: int) -> None:
    data = bytearray(file_of(1, ENTRY))
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedSnapshot):
        parse_snapshot(bytes(data))
