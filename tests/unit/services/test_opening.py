"""Opening a batch: the records its topic does not take, and the codec it asks for."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import BarnabasError, InvalidRecord, InvalidTimestamp, RecordTooLarge
from barnabas.core.records import record as record_module
from barnabas.core.records.batch import HEADER_SIZE, Codec, check_batch, read_header, seal, write_header
from barnabas.core.records.record import Record, decode_batch, encode_batch
from barnabas.services.opening import MIN_OPENED_LIMIT, RecordsRefused, open_batch
from barnabas.services.settings import TopicConfig, resolve_topic
from barnabas.services.settings.broker_config import BrokerConfig

NOW_MS = 1_000_000


def config(**settings: str) -> TopicConfig:
    return resolve_topic({name.replace("_", "."): text for name, text in settings.items()}, BrokerConfig())


RECORDS = st.lists(
    st.tuples(st.none() | st.binary(max_size=5), st.none() | st.binary(max_size=40), st.integers(0, 2 * NOW_MS)),
    min_size=1,
    max_size=6,
)


@given(RECORDS, st.sampled_from(Codec), st.sampled_from(Codec))
def test_conversion_changes_the_codec_and_nothing_else(
    parts: list[tuple[bytes | None, bytes | None, int]], codec: Codec, wanted: Codec
) -> None:
    records = [Record(n, timestamp, key, value) for n, (key, value, timestamp) in enumerate(parts)]
    batch = encode_batch(records, codec=codec, producer_id=3, producer_epoch=4, base_sequence=5)
    name = "uncompressed" if wanted is Codec.NONE else wanted.name.lower()
    opened = open_batch(batch, config(compression_type=name), now_ms=NOW_MS)
    header = read_header(opened)
    check_batch(opened, 0, header)
    assert header.size == len(opened)
    assert header.codec is wanted
    assert decode_batch(opened) == records
    assert header[5:] == read_header(batch)._replace(attributes=header.attributes)[5:]


@given(RECORDS)
def test_a_compacted_topic_takes_a_batch_exactly_if_all_its_records_have_keys(
    parts: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    records = [Record(n, timestamp, key, value) for n, (key, value, timestamp) in enumerate(parts)]
    missing = [n for n, record in enumerate(records) if record.key is None]
    refused: list[int] = []
    try:
        open_batch(encode_batch(records), config(cleanup_policy="compact"), now_ms=NOW_MS)
    except RecordsRefused as error:
        refused = [index for index, _ in error.errors]
    assert refused == missing


@given(RECORDS, st.integers(0, NOW_MS))
def test_a_topic_with_a_bounded_age_takes_what_is_not_older(
    parts: list[tuple[bytes | None, bytes | None, int]], age: int
) -> None:
    records = [Record(n, timestamp, key, value) for n, (key, value, timestamp) in enumerate(parts)]
    is_late = any(record.timestamp < NOW_MS - age for record in records)
    try:
        open_batch(encode_batch(records), config(message_timestamp_before_max_ms=str(age)), now_ms=NOW_MS)
    except InvalidTimestamp:
        assert is_late
    else:
        assert not is_late


def test_what_a_batch_may_unpack_to_grows_with_its_size() -> None:
    large = encode_batch([Record(0, 0, b"k", bytes(MIN_OPENED_LIMIT))], codec=Codec.ZSTD)
    with pytest.raises(RecordTooLarge):
        open_batch(large, config(cleanup_policy="compact"), now_ms=NOW_MS)
    with pytest.raises(RecordTooLarge):
        open_batch(large, config(compression_type="uncompressed"), now_ms=NOW_MS)
    plain = encode_batch([Record(0, 0, b"k", bytes(MIN_OPENED_LIMIT))])
    assert open_batch(plain, config(cleanup_policy="compact"), now_ms=NOW_MS) is plain


def test_a_count_that_its_records_do_not_bear_out_is_refused_before_it_is_converted() -> None:
    batch = encode_batch([Record(0, 0, b"k", b"v")], last_offset=2**31 - 1)
    header = read_header(batch)._replace(record_count=2**31 - 1)

    write_header(batch, 0, header)
    seal(batch, 0, len(batch))
    with pytest.raises(InvalidRecord):
        open_batch(batch, config(compression_type="zstd"), now_ms=NOW_MS)


@given(RECORDS, st.sampled_from(Codec), st.integers(1, 7), st.none() | st.tuples(st.integers(0), st.integers(0, 255)))
def test_records_looked_at_in_pieces_are_those_looked_at_at_once(
    parts: list[tuple[bytes | None, bytes | None, int]],
    codec: Codec,
    piece: int,
    change: tuple[int, int] | None,
) -> None:
    records = [Record(n, timestamp, key, value) for n, (key, value, timestamp) in enumerate(parts)]
    batch = encode_batch(records, codec=codec)
    if change is not None:
        batch[HEADER_SIZE + change[0] % (len(batch) - HEADER_SIZE)] = change[1]
    header = read_header(batch)

    def outcome(read: Callable[[], list[Record]]) -> list[Record] | type[BarnabasError]:
        try:
            return read()
        except BarnabasError as error:
            return type(error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_module, "_PIECE", piece)
        in_pieces = outcome(lambda: list(record_module.iter_records(batch, 0, header)))
    assert in_pieces == outcome(lambda: record_module.decode_records(batch, 0, header))
