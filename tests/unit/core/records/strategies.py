"""Records and batches of every shape, for the property tests of this folder."""

from hypothesis import strategies as st

from barnabas.core.records.batch import Codec, TimestampType
from barnabas.core.records.record import Record, encode_batch

MAX_OFFSET = 2**63 - 1

small_bytes = st.binary(max_size=200)
nullable_bytes = st.none() | small_bytes
# Any bytes as a header key: what is not UTF-8 is a surrogate escape in the record.
header_keys = st.binary(max_size=12).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
headers = st.lists(st.tuples(header_keys, nullable_bytes), max_size=4).map(tuple)
# Timestamps whose distance always fits 64 bits.
timestamps = st.integers(-1, 2**62) | st.integers(1_700_000_000_000, 1_700_000_100_000)


@st.composite
def records(draw: st.DrawFn, *, min_size: int = 1, max_size: int = 12) -> list[Record]:
    """Records in the order of their offsets, with gaps."""
    gaps = draw(st.lists(st.just(1) | st.integers(1, 1 << 20), min_size=min_size, max_size=max_size))
    offset = draw(st.integers(0, 1 << 40) | st.just(MAX_OFFSET - (12 << 20)))
    result = []
    for gap in gaps:
        offset += gap
        result.append(Record(offset, draw(timestamps), draw(nullable_bytes), draw(nullable_bytes), draw(headers)))
    return result


codecs = st.sampled_from(Codec)
timestamp_types = st.sampled_from(TimestampType)


@st.composite
def batches(draw: st.DrawFn) -> bytearray:
    """One sealed batch of any codec and timestamp type."""
    return encode_batch(draw(records()), codec=draw(codecs), timestamp_type=draw(timestamp_types))
