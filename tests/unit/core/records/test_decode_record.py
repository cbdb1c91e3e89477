"""One record out of a batch: the same as decoding all of it, without doing so."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.errors import BarnabasError, CorruptRecord
from barnabas.core.records.batch import Codec, read_header, seal
from barnabas.core.records.record import Record, decode_batch, decode_record, encode_batch
from tests.support.examples import examples


@settings(max_examples=examples(60))
@given(
    offsets=st.lists(st.integers(0, 60), min_size=1, unique=True).map(sorted),
    codec=st.sampled_from(Codec),
    data=st.data(),
)
def test_any_record_is_found_and_no_other(offsets: list[int], codec: Codec, data: st.DataObject) -> None:
    records = [Record(offset, 100 - offset, b"k" * offset, None, (("h", b"x"),)) for offset in offsets]
    batch = encode_batch(records, base_offset=0, last_offset=60, codec=codec)
    wanted = data.draw(st.integers(-1, 62))
    expected = next((record for record in records if record.offset == wanted), None)
    assert decode_record(batch, 0, read_header(batch), wanted) == expected


def test_a_record_of_a_complete_batch_is_checked_to_be_the_right_one() -> None:
    batch = encode_batch([Record(n, 0, None, b"v") for n in range(3)])
    delta = batch.index(b"v") - 3  # of the first record: attributes, time, offset, key, value length, value
    batch[delta] = 2
    seal(batch, 0, len(batch))
    with pytest.raises(CorruptRecord, match="instead of"):
        decode_record(batch, 0, read_header(batch), 0)


@settings(max_examples=examples(200))
@given(position=st.integers(61, 200), value=st.integers(0, 255), offset=st.integers(0, 12))
def test_a_damaged_batch_gives_a_record_or_a_refusal(position: int, value: int, offset: int) -> None:
    batch = encode_batch([Record(n, n, b"key", b"value", (("h", None),)) for n in range(10)])
    batch[min(position, len(batch) - 1)] = value
    seal(batch, 0, len(batch))
    try:
        decode_record(batch, 0, read_header(batch), offset)
        decode_batch(batch)
    except BarnabasError:
        pass
