"""The two key maps: the same records stay, to the byte, and neither takes more memory than it may."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.errors import CorruptRecord
from barnabas.core.records.batch import BatchHeader, TimestampType, read_header
from barnabas.core.records.record import Record, decode_records, encode_batch, payload
from barnabas.storage.compaction.key_map import Engine, KeyMap, PlainKeyMap, choose_engine, make_key_map
from barnabas.storage.compaction.native import NativeKeyMap
from barnabas.storage.compaction.native_table import ROW_SIZE, hash_bytes
from tests.support.examples import examples

HASH_KEY = bytes(range(16))
ENGINES = list(Engine)


def make(engine: Engine, max_bytes: int = 1024**2) -> KeyMap:
    return make_key_map(engine, max_bytes=max_bytes, dirty_bytes=1, hash_key=HASH_KEY)


def batch_of(*keys: bytes | None, base_offset: int = 0) -> tuple[BatchHeader, bytes]:
    data = encode_batch([Record(base_offset + i, 1000 + i, key, b"v") for i, key in enumerate(keys)])
    header = read_header(data)
    return header, bytes(payload(data, 0, header))


keys = st.one_of(st.none(), st.binary(max_size=20), st.sampled_from([b"", b"a", b"b", b"0123456789abcdef"]))
records = st.builds(
    lambda gap, timestamp, key, value, headers: (gap, timestamp, key, value, headers),
    st.integers(1, 200),
    st.integers(-(2**40), 2**45),
    keys,
    st.one_of(st.none(), st.binary(max_size=200)),
    st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3))), max_size=2).map(tuple),
)


@st.composite
def logs(draw: st.DrawFn) -> list[bytearray]:
    """A few batches, one after the other, with gaps in their offsets."""
    offset, batches = 0, []
    for drawn in draw(st.lists(st.lists(records, min_size=1, max_size=8), min_size=1, max_size=6)):
        batch = []
        for gap, timestamp, key, value, headers in drawn:
            offset += gap
            batch.append(Record(offset, timestamp, key, value, headers))
        batches.append(encode_batch(batch, timestamp_type=draw(st.sampled_from(TimestampType))))
    return batches


@settings(max_examples=examples(150), deadline=None)
@given(batches=logs(), split=st.integers(0, 6), keeps_tombstones=st.booleans(), horizon=st.integers(0, 2**45))
def test_both_maps_keep_the_same_records_to_the_byte(
    batches: list[bytearray], split: int, keeps_tombstones: bool, horizon: int
) -> None:
    maps = [make(engine) for engine in ENGINES]
    parsed = [(header := read_header(batch), payload(batch, 0, header)) for batch in batches]
    for header, section in parsed[split:]:
        assert [each.add(header, section) for each in maps] == [True, True]
    assert len(maps[0]) == len(maps[1])
    for header, section in parsed:
        plain, native = (each.select(header, section, keeps_tombstones=keeps_tombstones) for each in maps)
        assert (plain.count, plain.tombstones) == (native.count, native.tombstones)
        assert bytes(plain.records()) == bytes(native.records())
        if plain.count:
            assert plain.oldest_timestamp == native.oldest_timestamp
            assert plain.newest_timestamp == native.newest_timestamp
            assert bytes(plain.records(base_timestamp=horizon)) == bytes(native.records(base_timestamp=horizon))


@pytest.mark.parametrize("engine", ENGINES)
def test_records_moved_to_another_base_timestamp_read_the_same(engine: Engine) -> None:
    batch = encode_batch([Record(i, 10**12 + 7**i, b"%d" % i, b"v" * i, (("h", b"x"),)) for i in range(20)])
    header = read_header(batch)
    chosen = make(engine).select(header, payload(batch, 0, header), keeps_tombstones=True)
    moved = bytes(chosen.records(base_timestamp=10**15))
    rebuilt = encode_batch([], base_offset=0, last_offset=19)[:61] + moved
    new_header = header._replace(base_timestamp=10**15, batch_length=len(rebuilt) - 12)
    assert decode_records(rebuilt, 0, new_header) == decode_records(batch, 0, header)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_newest_record_of_a_key_stays(engine: Engine) -> None:
    keys = make(engine)
    header, section = batch_of(b"a", b"b", b"a", None)
    assert keys.add(header, section)
    chosen = keys.select(header, section, keeps_tombstones=True)
    assert (len(keys), chosen.count, chosen.oldest_timestamp, chosen.newest_timestamp) == (2, 2, 1001, 1002)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_empty_key_is_a_key(engine: Engine) -> None:
    keys = make(engine)
    header, section = batch_of(b"", b"")
    keys.add(header, section)
    assert keys.select(header, section, keeps_tombstones=True).count == 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("max_bytes", [0, 1000, 20_000, 100_000])
def test_a_map_takes_no_more_memory_than_it_may_and_says_when_it_is_full(engine: Engine, max_bytes: int) -> None:
    keys = make(engine, max_bytes)
    added = 0
    while keys.add(*batch_of(*(b"%d" % (added + i) for i in range(10)), base_offset=added)):
        added += 10
        assert keys.memory_bytes <= max_bytes
    assert added <= len(keys) <= added + 10
    assert max_bytes < 20_000 or added >= max_bytes // (2 * 250)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_full_map_still_takes_newer_records_of_its_keys(engine: Engine) -> None:
    keys = make(engine, 30_000)
    while keys.add(*batch_of(b"%d" % len(keys))):
        pass
    assert keys.add(*batch_of(b"0", base_offset=10**6))
    header, section = batch_of(b"0", base_offset=10**6 - 1)
    assert keys.select(header, section, keeps_tombstones=True).count == 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("damage", ["cut", "extra", "length"])
def test_records_that_do_not_fit_their_batch_are_refused(engine: Engine, damage: str) -> None:
    header, section = batch_of(b"abc", b"def")
    broken = {"cut": section[:-1], "extra": section + b"\x00", "length": b"\x7f" + section[1:]}[damage]
    with pytest.raises(CorruptRecord):
        make(engine).add(header, broken)


def test_the_plain_map_counts_at_least_what_its_keys_take() -> None:
    batches = [
        batch_of(*(b"key-%012d" % (start + i) for i in range(500)), base_offset=start)
        for start in range(0, 12_000, 500)
    ]
    keys = PlainKeyMap(2**40)
    tracemalloc.start()
    try:
        for header, section in batches:
            keys.add(header, section)
            assert keys.memory_bytes >= tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_the_native_map_grows_with_its_keys() -> None:
    keys = NativeKeyMap(1024**2, dirty_bytes=1, hash_key=HASH_KEY)
    sizes = set()
    for start in range(0, 20_000, 1000):
        keys.add(*batch_of(*(b"%d" % (start + i) for i in range(1000)), base_offset=start))
        sizes.add(keys.memory_bytes)
    assert len(keys) == 20_000
    assert len(sizes) > 1
    assert max(sizes) <= 1024**2
    assert all(size % ROW_SIZE == 0 for size in sizes)


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (7, "a1f1ebbed8dbc153c0b84aa61ff08239"),
        (8, "3b62a9ba6258f5610f83e264f31497b4"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
        (63, "5150d1772f50834a503e069a973fbd7c"),
    ],
)
def test_the_hash_is_siphash_with_128_bits(length: int, expected: str) -> None:
    k0, k1 = np.frombuffer(HASH_KEY, "<u8")
    found = hash_bytes(np.arange(length, dtype=np.uint8), k0, k1)
    assert b"".join(int(word).to_bytes(8, "little") for word in found).hex() == expected


def test_a_hash_key_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        NativeKeyMap(1000, dirty_bytes=1, hash_key=b"short")


def test_the_native_engine_is_for_logs_that_are_worth_it() -> None:
    assert choose_engine(1000, has_numba=True) is Engine.PLAIN
    assert choose_engine(10**9, has_numba=True) is Engine.NATIVE
    assert choose_engine(10**9, has_numba=False) is Engine.PLAIN
