"""Checking new batches: what passes can be read, and the checks agree on it."""

import itertools
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.errors import BarnabasError, CorruptRecord
from barnabas.core.records import check_kernel
from barnabas.core.records.batch import HEADER_SIZE, LOG_OVERHEAD, Buffer, Codec, read_header, read_plain, seal
from barnabas.core.records.checking import (
    BAD_ATTRIBUTES,
    BAD_OFFSET,
    OK,
    TRAILING_BYTES,
    check_framing,
    check_records,
    is_one_plain_record,
    problem_of,
    read_one_plain,
)
from barnabas.core.records.compression import check_frame, compress
from barnabas.core.records.record import Record, decode_batch, encode_batch
from tests.support.examples import examples
from tests.unit.core.records.forgery import LIES, body, forge, sized
from tests.unit.core.records.strategies import headers, nullable_bytes

NOW_MS = 1_700_000_000_000
HEADER = encode_batch([Record(0, NOW_MS, None, None)])[:HEADER_SIZE]
Check = Callable[[bytes, int, int], tuple[int, int]]
# Lies that only the header tells: they are found before records are looked at.
OF_THE_HEADER = {
    "count negative",
    "count zero with records",
    "last offset beyond 64 bits",
    "last offset delta negative",
    "no bytes at all",
}


@st.composite
def new_batches(draw: st.DrawFn) -> bytearray:
    """A batch as a producer makes it, of any codec."""
    count = draw(st.integers(1, 12))
    made = [
        Record(n, NOW_MS + draw(st.integers(-70, 70)), draw(nullable_bytes), draw(nullable_bytes), draw(headers))
        for n in range(count)
    ]
    return encode_batch(made)


def section_of(batch: Buffer) -> bytes:
    return bytes(batch[HEADER_SIZE:])


@pytest.mark.parametrize("check", [check_records, check_kernel.check_records], ids=["plain", "native"])
@pytest.mark.parametrize("lie", sorted(set(LIES) - OF_THE_HEADER))
def test_every_lie_is_found(lie: str, check: Check) -> None:
    header = read_header(LIES[lie])
    status, _ = check(section_of(LIES[lie]), header.record_count, header.base_timestamp)
    assert status != OK
    assert problem_of(status).startswith(f"record {status >> 8} ")


@pytest.mark.parametrize("lie", sorted(set(LIES) - OF_THE_HEADER))
def test_the_quick_check_finds_every_lie_at_the_ends_of_a_batch(lie: str) -> None:
    header = read_header(LIES[lie])
    assert check_framing(section_of(LIES[lie]), header.record_count, header.base_timestamp) != OK


@settings(max_examples=examples(200), deadline=None)
@given(new_batches())
def test_what_producers_write_passes_and_its_newest_time_is_known(batch: bytearray) -> None:
    header = read_header(batch)
    asked = section_of(batch), header.record_count, header.base_timestamp
    assert check_records(*asked) == check_kernel.check_records(*asked) == (OK, header.max_timestamp)
    assert check_framing(*asked) == OK


def test_offsets_must_be_0_1_2_and_so_on() -> None:
    gap = forge(sized(body()) + sized(body(offset_delta=2)), count=2, last_offset_delta=2)
    for check in (check_records, check_kernel.check_records):
        assert check(section_of(gap), 2, 0)[0] == BAD_OFFSET | 1 << 8


def test_attributes_that_clients_read_in_several_ways_are_refused() -> None:
    for attributes, expected in ((b"\x7f", OK), (b"\x80", BAD_ATTRIBUTES), (b"\xff", BAD_ATTRIBUTES)):
        section = sized(body(attributes=attributes))
        for check in (check_records, check_kernel.check_records):
            assert check(section, 1, 0)[0] == expected


@pytest.mark.parametrize("count", [1, 7, 8, 9, 15, 16, 17, 40])
def test_the_quick_check_walks_over_every_length(count: int) -> None:
    records = [Record(n, NOW_MS, b"k", bytes(50 * n)) for n in range(count)]
    section = section_of(encode_batch(records))
    assert check_framing(section, count, NOW_MS) == OK
    assert check_framing(section, count + 1, NOW_MS) != OK
    assert check_framing(section + b"\x00", count, NOW_MS) == TRAILING_BYTES | count - 1 << 8
    if count > 1:
        assert check_framing(section, count - 1, NOW_MS) != OK


# What is changed in a batch, where, and to what; the checksum is made right again.
mutations = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=3)


@settings(max_examples=examples(1500), deadline=None)
@given(new_batches(), mutations)
def test_whatever_passes_can_be_read(batch: bytearray, changes: list[tuple[int, int]]) -> None:
    size = len(batch) - HEADER_SIZE
    for at, value in changes:
        batch[HEADER_SIZE + at % size] = value
    seal(batch, 0, len(batch))
    header = read_header(batch)
    asked = section_of(batch), header.record_count, header.base_timestamp
    status, newest = check_records(*asked)
    assert check_kernel.check_records(*asked)[0] == status
    if status != OK:
        return
    assert check_framing(*asked) == OK
    records = decode_batch(batch)  # does not raise
    assert max(record.timestamp for record in records) == newest
    assert [record.offset for record in records] == list(range(header.record_count))


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=60), st.integers(1, 9), st.integers(-(2**63), 2**63 - 1))
def test_garbage_is_judged_alike_by_both(section: bytes, count: int, base_timestamp: int) -> None:
    status, newest = check_records(section, count, base_timestamp)
    found, found_newest = check_kernel.check_records(section, count, base_timestamp)
    assert found == status
    if status == OK:
        assert found_newest == newest
        batch = forge(section, count=count, last_offset_delta=count - 1, base_timestamp=base_timestamp)
        assert len(decode_batch(batch)) == count


@pytest.mark.parametrize("size", [0, 1, 63, 64, 4_000])
def test_one_plain_record_is_known_at_a_glance(size: int) -> None:
    for key, value in ((None, bytes(size)), (bytes(size), None), (bytes(size), bytes(size))):
        assert is_one_plain_record(encode_batch([Record(0, NOW_MS, key, value)]))


@pytest.mark.parametrize("size", range(200))
def test_a_glance_says_the_same_of_any_size(size: int) -> None:
    batch = encode_batch([Record(0, NOW_MS, None, bytes(size))])
    assert is_one_plain_record(batch)
    for other in (batch[:-1], batch + b"\0"):
        assert not is_one_plain_record(other) or check_records(section_of(other), 1, NOW_MS)[0] == OK


@pytest.mark.parametrize("key", [b"\x01", b"\x00", b"\x06key"], ids=["none", "empty", "short"])
@pytest.mark.parametrize("size", range(62, 80))
def test_a_glance_mistakes_no_length_of_one_byte_for_one_of_two(size: int, key: bytes) -> None:
    """Around the sizes where a length begins to take two bytes, with any first byte of the record's or the value's."""
    for first, of_value in itertools.product((2 * (size - 1) & 0xFF, 0x80, 2 * (size - 2) | 0x80, 0xFE), range(256)):
        for second in (b"", b"\x00", b"\x01"):
            section = (bytes([first & 0xFF]) + second + bytes(3) + key + bytes([of_value])).ljust(size, b"\0")
            batch = bytearray(HEADER) + section
            assert not is_one_plain_record(batch) or check_records(section, 1, NOW_MS) == (OK, NOW_MS), section.hex()


def test_a_record_in_a_transaction_is_known_at_a_glance() -> None:
    batch = encode_batch(
        [Record(0, NOW_MS, b"key", b"value")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    assert is_one_plain_record(batch)


@settings(max_examples=examples(1500), deadline=None)
@given(st.binary(max_size=8), st.integers(0, 9), st.booleans(), mutations)
def test_a_glance_takes_nothing_that_the_check_refuses(
    key: bytes, scale: int, has_value: bool, changes: list[tuple[int, int]]
) -> None:
    batch = encode_batch([Record(0, NOW_MS, key or None, bytes(2**scale) if has_value else None)])
    for at, value in changes:
        batch[HEADER_SIZE + at % min(len(batch) - HEADER_SIZE, 20)] = value
    if is_one_plain_record(batch):
        assert check_records(section_of(batch), 1, NOW_MS) == (OK, NOW_MS)


@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_glance_takes_no_lie(lie: str) -> None:
    assert lie in OF_THE_HEADER or not is_one_plain_record(LIES[lie])


@pytest.mark.parametrize("size", [0, 1, 63, 64, 4_000])
def test_one_plain_record_and_its_header_are_read_at_once(size: int) -> None:
    batch = encode_batch([Record(0, NOW_MS, None, bytes(size))])
    assert read_one_plain(batch) == read_plain(batch) == (len(batch) - LOG_OVERHEAD, 0, NOW_MS)


def test_what_is_not_one_plain_record_is_not_read_at_once() -> None:
    one = Record(0, NOW_MS, None, b"v")
    batch = encode_batch([one])
    others = [
        encode_batch([one, Record(1, NOW_MS, None, b"v")]),
        encode_batch([one], producer_id=1, producer_epoch=0, base_sequence=0),
        encode_batch([one], codec=Codec.GZIP),
        batch[:-1],
        batch + b"\0",
        batch[:HEADER_SIZE],
    ]
    for other in others:
        assert read_one_plain(other) is None


def test_no_byte_of_a_plain_batch_can_change_unseen() -> None:
    batch = encode_batch([Record(0, NOW_MS, b"key", b"value")])
    assert read_one_plain(batch) is not None
    for at in (*range(8, 12), *range(16, len(batch))):  # the base offset and the leader epoch are set by the log
        other = bytearray(batch)
        other[at] ^= 1
        assert read_one_plain(other) is None


@pytest.mark.parametrize("lie", sorted(LIES))
def test_no_lie_is_read_at_once(lie: str) -> None:
    assert read_one_plain(LIES[lie]) is None


def test_garbage_with_a_right_checksum_does_not_decode_unless_it_passes() -> None:
    """The other way round: the check refuses nothing that it could read."""
    for lie, batch in LIES.items():
        header = read_header(batch)
        with pytest.raises(BarnabasError):
            decode_batch(batch)
        if lie not in OF_THE_HEADER:
            assert check_records(section_of(batch), header.record_count, header.base_timestamp)[0] != OK


# Compressed data that only some clients read


def lz4_frame(data: bytes, **options: bool) -> bytes:
    compressor = cramjam.lz4.Compressor(**options)
    compressor.compress(data)
    return bytes(compressor.finish())


def test_our_own_compression_is_for_everybody() -> None:
    for codec in Codec:
        for size in (0, 10, 300_000):
            check_frame(codec, compress(codec, bytes(range(256)) * (size // 256)))


def test_lz4_with_a_checksum_is_for_everybody() -> None:
    check_frame(Codec.LZ4, lz4_frame(bytes(100_000), block_linked=False, content_checksum=True))


@pytest.mark.parametrize(
    "data",
    [
        lz4_frame(bytes(100_000), block_linked=True),
        compress(Codec.LZ4, b"one") + compress(Codec.LZ4, b"two"),
        compress(Codec.LZ4, b"one") + b"\x00",
        compress(Codec.LZ4, b"one")[:-1],
        b"",
        b"no frame at all",
    ],
    ids=["linked blocks", "two frames", "bytes after it", "cut off", "nothing", "garbage"],
)
def test_lz4_that_javas_client_does_not_read_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        check_frame(Codec.LZ4, data)
