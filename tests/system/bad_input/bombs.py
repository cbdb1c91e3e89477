"""Batches that are far more than they look."""

import struct

import cramjam

from barnabas.core.records.batch import BatchHeader, Codec, attributes_of, seal, write_header
from tests.system.bad_input.serving import MIB


def bomb(codec: Codec, section: bytes) -> bytes:
    """A batch whose records are `section`, with everything right that can be told without unpacking it."""
    out = bytearray(61) + section
    header = BatchHeader(0, len(out) - 12, -1, 2, 0, attributes_of(codec), 0, 1, 1, -1, -1, -1, 1)
    write_header(out, 0, header)
    seal(out, 0, len(out))
    return bytes(out)


def gigabyte(codec: Codec) -> bytes:
    """Compressed data of a megabyte, or as little as the codec can do, that unpacks to a gigabyte of zeros."""
    piece = bytes(64 * MIB)
    match codec:
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(piece, 9)) * 16
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(piece, 3)) * 16
        case Codec.LZ4:
            return bytes(cramjam.lz4.compress(piece)) * 16
        case _:
            block = bytes(cramjam.snappy.compress_raw(bytes(32 * 1024)))
            blocks = (struct.pack(">i", len(block)) + block) * 32 * 1024
            return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + blocks
