"""Batches changed at random, header and all, with a right checksum: whatever a broker takes can be read from it again.

By our own decoder, and by kafka-python's, which is as strict as any: the log is fetched as consumers fetch it.
"""

import random
import struct
from typing import Any

import pytest

from barnabas.core.records.batch import ATTRIBUTES_AT, HEADER_SIZE, Codec, iter_batches, read_header, seal
from barnabas.core.records.record import Record, decode_batch, encode_batch
from barnabas.services.broker import Broker
from tests.conformance.broker.clients import kafka
from tests.conformance.records.test_checked import has_text_keys
from tests.support.examples import examples
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.calling import Caller
from tests.unit.edge.kafka.support import create, run

FORGED = examples(1500)
PLACES = (  # of the numbers in a header that are under the checksum, with their sizes
    (21, ">h"),  # attributes
    (23, ">i"),  # last offset delta
    (27, ">q"),  # base timestamp
    (35, ">q"),  # max timestamp
    (43, ">q"),  # producer id
    (51, ">h"),  # producer epoch
    (53, ">i"),  # base sequence
    (57, ">i"),  # records
)
TOPICS: dict[str, dict[str, Any]] = {
    "plain": {},
    "compacted": {"cleanup_policy": "compact"},
    "converted": {"compression_type": "lz4"},
    "log's time": {"message_timestamp_type": "LogAppendTime"},
}


def forged(rng: random.Random) -> bytes:
    """A batch of any codec, of an idempotent producer or not, something of which was changed."""
    records = [
        Record(
            number,
            NOW_MS + rng.randrange(100),
            b"key",
            rng.choice((None, b"v" * rng.randrange(80))),
            (("h", b"1"), ("", None)) if rng.random() < 0.3 else (),
        )
        for number in range(rng.randrange(1, 6))
    ]
    codec = rng.choice((Codec.NONE, Codec.NONE, *Codec))
    batch = encode_batch(records, codec=codec)
    for _ in range(rng.choice((0, 1, 1, 2))):
        at = rng.randrange(HEADER_SIZE, len(batch))
        batch[at] = rng.choice((rng.randrange(256), batch[at] ^ 1 << rng.randrange(8), batch[at] + 1 & 0xFF))
    for _ in range(rng.choice((0, 0, 1, 2))):
        at, number = rng.choice(PLACES)
        bits = 8 * struct.calcsize(number)
        (old,) = struct.unpack_from(number, batch, at)
        odd = (-1, 0, 1, -2, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), rng.randrange(100), min(old + 1, 2**15 - 1))
        struct.pack_into(number, batch, at, rng.choice(odd))
    seal(batch, 0, len(batch))
    return bytes(batch)


@pytest.mark.parametrize("settings", TOPICS.values(), ids=TOPICS)
@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_taken_can_be_read(seed: int, settings: dict[str, Any]) -> None:
    rng = random.Random(seed)

    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        caller = Caller(broker)
        taken = 0
        for _ in range(FORGED):
            batch = forged(rng)
            answer = await caller.produced("t", batch, acks=1)
            if answer.error_code.value == 0:
                taken += answer.base_offset >= 0
                check_readable(await fetched_at(caller, answer.base_offset))
        assert taken > FORGED // 20
        end_offset = broker.served.get_partition("t", 0).end_offset
        assert end_offset < 10 * FORGED  # nobody uses up offsets that no record has

    run(scenario)


async def fetched_at(caller: Caller, offset: int) -> bytes:
    served = caller.broker.served.get_partition("t", 0)
    await caller.broker.logs.flusher.wait_flushed(served.log, served.end_offset)
    data = bytes((await caller.fetched(("t", 0, offset))).records)
    position, header = next(iter_batches(data))
    return data[position : position + header.size]


def check_readable(data: bytes) -> None:
    header = read_header(data)
    records = decode_batch(data)
    assert [record.offset for record in records] == list(range(header.base_offset, header.next_offset))
    assert not data[ATTRIBUTES_AT + 1] & 0x60
    assert max(record.timestamp for record in records) == header.max_timestamp
    if not has_text_keys(records):
        return  # a header's key that is not UTF-8: Kafka takes that as well, and not all clients read it
    others = list(kafka.record.default_records.DefaultRecordBatch(data))
    assert [(each.offset, each.key, each.value) for each in others] == [
        (each.offset, each.key, each.value) for each in records
    ]
