"""Compression: what is written, what is read, and how little a bomb gets."""

import contextlib
import gzip
import struct
import tracemalloc

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.errors import BarnabasError, CorruptRecord, InvalidConfig, RecordTooLarge
from barnabas.core.records.batch import Codec
from barnabas.core.records.compression import LEVELS, check_level, compress, decompress
from tests.support.examples import examples

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
FRAMED = [Codec.GZIP, Codec.LZ4, Codec.ZSTD]
LIMIT = 1 << 20
TEXT = b"".join(b"record %d of many, " % n for n in range(5000))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(500_000), bytes(range(256)) * 300])
def test_what_was_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), max_bytes=LIMIT) == data


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(Codec), st.binary(max_size=3000), st.integers(1, 40))
def test_any_bytes_round_trip_from_any_kind_of_buffer(codec: Codec, data: bytes, times: int) -> None:
    data *= times
    packed = compress(codec, bytearray(data))
    assert decompress(codec, memoryview(b"!" + packed)[1:], max_bytes=len(data)) == data
    assert compress(codec, memoryview(data)) == packed


@pytest.mark.parametrize("codec", Codec)
def test_exactly_the_limit_is_allowed_and_one_byte_more_is_not(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, max_bytes=len(TEXT)) == TEXT
    with pytest.raises(RecordTooLarge, match=f"limit of {len(TEXT) - 1} bytes"):
        decompress(codec, packed, max_bytes=len(TEXT) - 1)
    with pytest.raises(RecordTooLarge):
        decompress(codec, packed, max_bytes=0)


def bomb(codec: Codec, size: int) -> bytes:
    return compress(codec, bytes(size))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_is_refused_within_the_memory_of_the_limit(codec: Codec) -> None:
    packed = bomb(codec, 64 * LIMIT)
    tracemalloc.start()
    try:
        with pytest.raises(RecordTooLarge):
            decompress(codec, packed, max_bytes=LIMIT)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= LIMIT + 64 * 1024


def test_a_raw_snappy_bomb_is_refused_too() -> None:
    with pytest.raises(RecordTooLarge):
        decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(bytes(64 * LIMIT))), max_bytes=LIMIT)


@pytest.mark.parametrize("codec", FRAMED)
def test_a_very_dense_honest_frame_is_unpacked_when_the_limit_allows(codec: Codec) -> None:
    assert decompress(codec, bomb(codec, 8 * LIMIT), max_bytes=8 * LIMIT) == bytes(8 * LIMIT)


def lying(codec: Codec) -> bytes:
    """A small frame whose header or trailer claims some 4 GiB."""
    match codec:
        case Codec.GZIP:
            return bytes(compress(codec, b"x" * 100)[:-4] + b"\xff\xff\xff\xff")
        case Codec.ZSTD:  # a frame with an eight-byte content size, then an empty raw last block
            return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**32) + b"\x01\x00\x00" + bytes(8)
        case Codec.LZ4:
            return b"\x04\x22\x4d\x18\x68\x40" + struct.pack("<Q", 2**32) + b"\x00" + bytes(4)
        case _:
            return b"\xff\xff\xff\xff\x0f" + b"\x00x" * 8


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_claimed_size_costs_no_memory(codec: Codec) -> None:
    packed = lying(codec)
    tracemalloc.start()
    try:
        with pytest.raises(BarnabasError):
            decompress(codec, packed, max_bytes=1 << 40)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < LIMIT


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_truncation_is_corrupt(codec: Codec) -> None:
    packed = compress(codec, TEXT[:2000])
    # A framed snappy stream may end after its header, or after any of its blocks.
    first = 17 if codec is Codec.SNAPPY else 0
    for size in range(first, len(packed)):
        with pytest.raises(CorruptRecord):
            decompress(codec, packed[:size], max_bytes=LIMIT)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("garbage", [b"\x00", b"x", b"\xff" * 40, b"garbage garbage garbage"])
def test_bytes_after_the_end_are_corrupt(codec: Codec, garbage: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decompress(codec, compress(codec, TEXT) + garbage, max_bytes=LIMIT)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("garbage", [b"", b"\x05", b"\xff" * 30, b"these bytes were never compressed"])
def test_garbage_is_corrupt(codec: Codec, garbage: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decompress(codec, garbage, max_bytes=LIMIT)


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(COMPRESSED), st.data())
def test_damage_is_a_refusal_or_other_bytes_but_never_another_error(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, TEXT[:600]))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BarnabasError):
        assert len(decompress(codec, packed, max_bytes=10_000)) <= 10_000


@pytest.mark.parametrize("codec", FRAMED)
def test_a_full_output_is_told_from_damage_by_a_message_that_has_not_changed(codec: Codec) -> None:
    module = getattr(cramjam, codec.name.lower())
    with pytest.raises(cramjam.DecompressionError, match=r"^failed to write whole buffer$"):
        module.decompress_into(compress(codec, TEXT), bytearray(10))


def test_snappy_is_written_in_the_framing_of_the_java_client() -> None:
    packed = compress(Codec.SNAPPY, bytes(70_000))
    assert packed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (length,) = struct.unpack_from(">i", packed, 16)
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + length])) == bytes(32 * 1024)


def test_snappy_is_read_raw_and_from_streams_in_a_row() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Codec.SNAPPY, raw, max_bytes=LIMIT) == TEXT
    framed = compress(Codec.SNAPPY, TEXT)
    assert decompress(Codec.SNAPPY, framed + framed, max_bytes=LIMIT) == TEXT + TEXT


@pytest.mark.parametrize("length", [-1, 0, 5, 2**31 - 1])
def test_a_snappy_block_with_a_wrong_length_is_corrupt(length: int) -> None:
    header = compress(Codec.SNAPPY, b"")
    with pytest.raises(CorruptRecord, match="claims"):
        decompress(Codec.SNAPPY, header + struct.pack(">i", length) + b"\x01\x00x", max_bytes=LIMIT)


def test_snappy_cut_within_its_header_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="within its header"):
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, TEXT)[:12], max_bytes=LIMIT)


def test_lz4_is_written_with_independent_blocks_because_java_reads_no_others() -> None:
    packed = compress(Codec.LZ4, TEXT)
    assert packed[:4] == b"\x04\x22\x4d\x18"
    version, is_independent = packed[4] >> 6, packed[4] >> 5 & 1
    assert (version, is_independent) == (1, 1)


def test_several_gzip_members_are_read_as_one() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(Codec.GZIP, packed, max_bytes=100) == b"one two"


@pytest.mark.parametrize("codec", LEVELS)
def test_each_documented_level_works(codec: Codec) -> None:
    levels = LEVELS[codec]
    for level in {levels[0], -1, 1, 5, levels[-1]} & set(levels):
        assert decompress(codec, compress(codec, TEXT, level), max_bytes=LIMIT) == TEXT


def test_the_level_makes_a_difference() -> None:
    for codec in LEVELS:
        assert compress(codec, TEXT, 9) != compress(codec, TEXT, 1)


@pytest.mark.parametrize(
    ("codec", "level", "message"),
    [
        (Codec.GZIP, 0, "gzip compression level 0 is not in 1..9"),
        (Codec.GZIP, 10, "gzip compression level 10 is not in 1..9"),
        (Codec.LZ4, 18, "lz4 compression level 18 is not in 1..17"),
        (Codec.ZSTD, 23, "zstd compression level 23 is not in -131072..22"),
        (Codec.SNAPPY, 1, "snappy has no compression levels"),
        (Codec.NONE, 1, "none has no compression levels"),
    ],
)
def test_a_level_that_a_codec_does_not_have_is_refused_by_name(codec: Codec, level: int, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        compress(codec, b"", level)
    check_level(codec, None)
