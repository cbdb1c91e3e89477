"""Batches that unpack to far more than they are."""

import struct

import cramjam
import pytest

from barnabas.core.records.batch import Codec, seal
from tests.system.bad_input.bombs import bomb, gigabyte
from tests.system.bad_input.serving import MIB, Server, honest_client
from tests.system.running import Client, produce


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD], ids=lambda codec: codec.name)
def test_bombs_are_refused_within_bounds(server: Server, codec: Codec) -> None:
    batch = bomb(codec, gigabyte(codec))
    with honest_client(server), server.bounded_memory(len(batch)):
        for topic in ("compacted", "uncompressed", "gzip" if codec is not Codec.GZIP else "uncompressed"):
            with Client(server.port) as client:
                assert produce(client, topic, batch).error_code.value in (2, 10)
    server.check()


def test_a_bomb_of_millions_of_records_is_refused_within_bounds(server: Server) -> None:
    # What is allowed to be unpacked is full of the smallest records there are, none of them with a key.
    records = b"\x0c\x00\x00\x00\x01\x01\x00" * (30 * MIB // 7)
    batch = bytearray(bomb(Codec.ZSTD, bytes(cramjam.zstd.compress(records, 3))))
    count = len(records) // 7
    struct.pack_into(">i", batch, 23, count - 1)
    struct.pack_into(">i", batch, 57, count)
    seal(batch, 0, len(batch))
    with honest_client(server), server.bounded_memory(len(batch)), Client(server.port) as client:
        assert produce(client, "compacted", bytes(batch)).error_code.value in (2, 87)
    server.check()
