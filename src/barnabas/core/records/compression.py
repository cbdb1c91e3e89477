"""The four codecs of record batches, with a hard limit on what decompressing may cost.

Owns which bytes each codec writes and reads:

- gzip: RFC 1952; several members in a row are read as one.
- snappy: written in the framing of Java's client (a 16-byte header, then blocks with their lengths), which
  every client reads; read in that framing and as one raw block, which is what librdkafka writes.
- lz4: the LZ4 frame format, written with independent blocks, because Java's client refuses linked ones.
- zstd: RFC 8878.

Invariants: output never grows past `max_bytes`, and a size that a header merely claims never makes the first
allocation larger than the compressed bytes could justify. Bytes after the end of the compressed data are
refused. Not detected: a second whole gzip member or lz4 or zstd frame (the formats allow it, and it is
decompressed too), and skippable lz4 and zstd frames (ignored, as the formats demand).

Must not know: records, batches, files.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

import cramjam

from barnabas.core.errors import CorruptRecord, InvalidConfig, RecordTooLarge
from barnabas.core.records.batch import Buffer, Codec

# The levels that Kafka documents for `compression.<codec>.level`; None is the default below.
LEVELS: Final[dict[Codec, range]] = {
    Codec.GZIP: range(1, 10),
    Codec.LZ4: range(1, 18),
    Codec.ZSTD: range(-131072, 23),
}
_DEFAULT_LEVELS: Final = {Codec.GZIP: 6, Codec.LZ4: 1, Codec.ZSTD: 3}
_MAX_LZ4_LEVEL: Final = 12  # LZ4 knows no higher one; Kafka allows up to 17 and means the highest

_MODULES: Final[dict[Codec, Any]] = {
    Codec.GZIP: cramjam.gzip,
    Codec.LZ4: cramjam.lz4,
    Codec.ZSTD: cramjam.zstd,
}

# How cramjam says that the output buffer is full. Every other message means bad input.
_OUTPUT_FULL: Final = "failed to write whole buffer"
# The first output is at most this many times the input, however large a header claims the content to be, so
# that lying costs the liar. Then it grows: what is decompressed twice adds a third to the work at worst.
_FIRST_RATIO: Final = 32
_MIN_FIRST_OUTPUT: Final = 16 * 1024
_USUAL_RATIO: Final = 6
_USUAL_BATCH: Final = 1_100_000  # what clients put into one, before compression, when they have much to send
_GROWTH: Final = 4

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, oldest compatible version
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">i")
# Snappy's densest element makes 64 bytes of 3, so a raw block that claims more is lying.
_SNAPPY_MAX_RATIO: Final = 22

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_MIN_HEADER: Final = 7  # magic, flags, block size, checksum of the header
_LZ4_INDEPENDENT: Final = 0x20
_LZ4_BLOCK_CHECKSUM: Final = 0x10
_LZ4_CONTENT_SIZE: Final = 0x08
_LZ4_CONTENT_CHECKSUM: Final = 0x04
_LZ4_RESERVED: Final = 0x03  # the lower of the two has come to mean a dictionary


def check_level(codec: Codec, level: int | None) -> None:
    """Refuse a compression level that the codec does not have; None is always right."""
    if level is None:
        return
    levels = LEVELS.get(codec)
    if levels is None:
        raise InvalidConfig(f"{codec.name.lower()} has no compression levels, but level {level} was asked for")
    if level not in levels:
        allowed = f"{levels.start}..{levels.stop - 1}"
        raise InvalidConfig(f"{codec.name.lower()} compression level {level} is not in {allowed}")


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """`data` in the form that every Kafka client reads; `Codec.NONE` is a plain copy."""
    check_level(codec, level)
    if level is None:
        level = _DEFAULT_LEVELS.get(codec)
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Codec.LZ4:
            assert level is not None
            compressor = cramjam.lz4.Compressor(
                level=min(level, _MAX_LZ4_LEVEL),
                content_checksum=False,  # the batch has a checksum of its own
                block_linked=False,
            )
            compressor.compress(bytes(data))  # it takes nothing else
            return bytes(compressor.finish())
        case _:
            return bytes(_MODULES[codec].compress(data, level))


def decompress(codec: Codec, data: Buffer, *, max_bytes: int) -> Buffer:
    """What `data` was before compression: `RecordTooLarge` if that is over `max_bytes`.

    Truncated, damaged or trailing bytes are `CorruptRecord`. `Codec.NONE` gives `data` itself, uncopied.
    """
    match codec:
        case Codec.NONE:
            if len(data) > max_bytes:
                raise _too_large(codec, max_bytes)
            return data
        case Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), max_bytes)
        case _:
            return _decompress_stream(codec, data, max_bytes)


def check_frame(codec: Codec, data: Buffer) -> None:
    """Refuse compressed bytes that we can read and Java's client cannot: an lz4 frame with linked blocks or a
    dictionary, or more than one of them.
    """
    if codec is not Codec.LZ4:
        return
    if len(data) < _LZ4_MIN_HEADER or data[:4] != _LZ4_MAGIC:
        raise CorruptRecord("lz4 data does not begin with a frame")
    flags = data[4]
    if not flags & _LZ4_INDEPENDENT or flags & _LZ4_RESERVED:
        raise CorruptRecord("the lz4 frame has linked blocks or a dictionary, which Kafka's clients do not read")
    position = _LZ4_MIN_HEADER + (8 if flags & _LZ4_CONTENT_SIZE else 0)
    block_extra = 4 if flags & _LZ4_BLOCK_CHECKSUM else 0
    while True:
        size = int.from_bytes(data[position : position + 4], "little") & 0x7FFFFFFF
        position += 4
        if size == 0 or position > len(data):
            break
        position += size + block_extra
    position += 4 if flags & _LZ4_CONTENT_CHECKSUM else 0
    if position != len(data):
        raise CorruptRecord("bytes follow the lz4 frame, or it is cut off")


def _decompress_stream(codec: Codec, data: Buffer, max_bytes: int) -> bytearray:
    """Decompress into a buffer that grows from an estimate up to the limit."""
    decompress_into = _MODULES[codec].decompress_into
    capacity = min(max_bytes, _first_capacity(codec, data))
    while True:
        output = bytearray(capacity)
        try:
            size: int = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_FULL:
                raise CorruptRecord(f"damaged {codec.name.lower()} data: {error}") from None
        else:
            del output[size:]
            return output
        if capacity >= max_bytes:
            raise _too_large(codec, max_bytes)
        del output  # before the next one is made: only one may be alive, or the limit would not hold
        capacity = min(max_bytes, capacity * _GROWTH)


def _first_capacity(codec: Codec, data: Buffer) -> int:
    claimed = _claimed_size(codec, data)
    guess = claimed
    if guess is None:
        guess = max(len(data) * _USUAL_RATIO, min(len(data) * _FIRST_RATIO, _USUAL_BATCH))
    return min(max(guess, 1), max(len(data) * _FIRST_RATIO, _MIN_FIRST_OUTPUT))


def _claimed_size(codec: Codec, data: Buffer) -> int | None:
    """The size that the compressed bytes say they unpack to: a hint, right for honest writers only."""
    match codec:
        case Codec.GZIP if len(data) >= 18:
            return int.from_bytes(data[-4:], "little")
        case Codec.LZ4 if len(data) >= 15 and data[:4] == _LZ4_MAGIC and data[4] & 0x08:
            return int.from_bytes(data[6:14], "little")
        case Codec.ZSTD if len(data) >= 18 and data[:4] == _ZSTD_MAGIC:
            return _zstd_content_size(data)
        case _:
            return None


def _zstd_content_size(data: Buffer) -> int | None:
    """The optional content size of a zstd frame header (RFC 8878, section 3.1.1.1)."""
    descriptor = data[4]
    is_single_segment = descriptor >> 5 & 1
    size_flag = descriptor >> 6
    width = (is_single_segment, 2, 4, 8)[size_flag]
    if width == 0:
        return None
    at = 5 + (1 - is_single_segment) + (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(data[at : at + width], "little")
    return size + 256 if width == 2 else size


def _compress_xerial(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_SIZE]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytearray:
    # Walked twice rather than listed: a list of views would cost far more than the tiny blocks they show.
    total = 0
    for block in _snappy_blocks(data):
        total += _snappy_size(block)
        if total > max_bytes:
            raise _too_large(Codec.SNAPPY, max_bytes)
    output = bytearray(total)
    view = memoryview(output)
    position = 0
    try:
        for block in _snappy_blocks(data):
            end = position + _snappy_size(block)
            cramjam.snappy.decompress_raw_into(block, view[position:end])
            position = end
    except cramjam.DecompressionError as error:
        raise CorruptRecord(f"damaged snappy data: {error}") from None
    return output


def _snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    if not _has_xerial_header(data, 0):
        yield data
        return
    position = 0
    while position < len(data):
        # Streams written one after the other each bring their header.
        if _has_xerial_header(data, position):
            position += len(_XERIAL_HEADER)
            if position > len(data):
                raise CorruptRecord("snappy data ends within its header")
            continue
        if len(data) - position < _BLOCK_LENGTH.size:
            raise CorruptRecord(f"{len(data) - position} stray bytes after the last snappy block")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if not 0 < length <= len(data) - position:
            raise CorruptRecord(f"snappy block claims {length} bytes, {len(data) - position} are left")
        yield data[position : position + length]
        position += length


def _has_xerial_header(data: memoryview, position: int) -> bool:
    return data[position : position + len(_XERIAL_MAGIC)].tobytes() == _XERIAL_MAGIC


def _snappy_size(block: memoryview) -> int:
    """The uncompressed size a raw block claims, refused when its bytes could never make that many."""
    if not block:
        raise CorruptRecord("snappy data is empty")
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise CorruptRecord(f"damaged snappy data: {error}") from None
    if size > len(block) * _SNAPPY_MAX_RATIO:
        raise CorruptRecord(f"snappy block of {len(block)} bytes claims to unpack to {size}")
    return size


def _too_large(codec: Codec, max_bytes: int) -> RecordTooLarge:
    return RecordTooLarge(f"{codec.name.lower()} data unpacks to more than the limit of {max_bytes} bytes")
