"""Produce on a whole broker: batches that are packed anew, and those that cannot be unpacked."""

from typing import Any

import pytest

from barnabas.core.records.batch import Codec, iter_batches
from barnabas.services.broker import Broker
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.producing.support import header_of, patched, records_of
from tests.unit.edge.kafka.support import create, run

CODECS = {"uncompressed": Codec.NONE, **{codec.name.lower(): codec for codec in Codec if codec}}


@pytest.mark.parametrize("settings", [{}, {"cleanup_policy": "compact"}], ids=str)
@pytest.mark.parametrize("setting", [*CODECS, "producer"])
@pytest.mark.parametrize("codec", Codec)
def test_batches_get_the_codec_of_their_topic(codec: Codec, setting: str, settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", compression_type=setting, **settings)
        caller = Caller(broker)
        values = [b"x" * 500, b"y" * 500]
        assert await caller.refusal("t", batch(b"first")) == 0
        assert (
            await caller.refusal("t", batch(*values, codec=codec, producer_id=9, producer_epoch=0, base_sequence=0))
            == 0
        )
        header = header_of(broker, "t")
        assert header.codec is CODECS.get(setting, codec)
        assert (header.producer_id, header.base_sequence, header.base_offset) == (9, 0, 1)
        records = records_of(broker, "t")
        assert [record.value for record in records] == [b"first", *values]
        assert {record.timestamp for record in records} == {NOW_MS}
        fetched = await caller.fetched(("t", 0, 1))
        assert [each.codec for _, each in iter_batches(fetched.records)] == [CODECS.get(setting, codec)]

    run(scenario)


def test_what_cannot_be_unpacked_is_invalid_and_need_not_be_sent_again() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", compression_type="lz4")
        await create(broker, "compacted", cleanup_policy="compact")
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.ZSTD):
            bad = patched(batch(b"x" * 100, codec=codec), 61, b"\xff\xff\xff\xff")
            assert await Caller(broker).refusal("t", bad) == 87
            assert await Caller(broker).refusal("compacted", bad) == 87

    run(scenario)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("settings", [{"cleanup_policy": "compact"}, {"compression_type": "snappy"}], ids=str)
def test_a_batch_that_unpacks_to_far_more_than_it_is_is_refused(codec: Codec, settings: dict[str, Any]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", **settings)
        assert await Caller(broker).refusal("t", batch(bytes(40_000_000), codec=codec)) == 10

    run(scenario)


def test_snappy_that_claims_more_than_it_can_hold_is_invalid() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", cleanup_policy="compact")
        claim = patched(batch(b"x" * 100, codec=Codec.SNAPPY), 61, b"\xff\xff\xff\x7f")
        assert await Caller(broker).refusal("t", claim) == 87

    run(scenario)
