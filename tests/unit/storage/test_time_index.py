"""The time index: Kafka's twelve bytes an entry, the largest time so far and where it was reached."""

import pytest

from barnabas.storage.offset_index import DamagedIndex
from barnabas.storage.time_index import TimeIndex


def index_of(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex()
    for timestamp, relative_offset in entries:
        index.maybe_append(timestamp, relative_offset)
    return index


def test_an_entry_is_eight_bytes_of_time_and_four_of_offset() -> None:
    index = index_of((1_700_000_000_000, 5), (1_700_000_000_001, 0x01020304))
    assert index.encode() == bytes.fromhex("0000018bcfe56800 00000005 0000018bcfe56801 01020304")
    assert index.encode(1) == bytes.fromhex("0000018bcfe56801 01020304")


def test_the_file_is_read_back() -> None:
    data = bytes.fromhex("0000018bcfe56800 00000005 0000018bcfe56801 7fffffff")
    index = TimeIndex.parse(data)
    assert index.last() == (1_700_000_000_001, 2**31 - 1)
    assert index.encode() == data


def test_only_a_later_time_is_added() -> None:
    index = index_of((10, 1), (10, 2), (9, 3), (11, 4), (-1, 5))
    assert (list(index.timestamps), list(index.offsets)) == ([10, 11], [1, 4])


def test_a_time_before_1970_is_none() -> None:
    assert len(index_of((-1, 0))) == 0


@pytest.mark.parametrize(
    ("timestamp", "entry"), [(10, (-1, 0)), (11, (10, 1)), (20, (10, 1)), (21, (20, 7)), (99, (20, 7))]
)
def test_a_lookup_gives_the_last_entry_before_the_time(timestamp: int, entry: tuple[int, int]) -> None:
    assert index_of((10, 1), (20, 7)).lookup(timestamp) == entry


def test_an_empty_index_knows_no_time() -> None:
    assert index_of().last() == (-1, -1)
    assert index_of().lookup(5) == (-1, 0)


@pytest.mark.parametrize(("relative_offset", "left"), [(0, 0), (1, 0), (2, 1), (7, 1), (8, 2)])
def test_a_cut_drops_entries_at_and_beyond_the_offset(relative_offset: int, left: int) -> None:
    index = index_of((10, 1), (20, 7))
    index.truncate(relative_offset)
    assert len(index) == left


@pytest.mark.parametrize(
    "data",
    [
        "0000018bcfe56800 0000",
        "0000018bcfe56800 00000005 0000018bcfe56800 00000006",
        "0000018bcfe56800 00000005 0000018bcfe56801 00000005",
        "0000018bcfe56800 00000005 0000000000000000 00000000",
        "ffffffffffffffff 00000005",
        "0000018bcfe56800 ffffffff",
    ],
)
def test_an_index_that_cannot_be_right_is_refused(data: str) -> None:
    with pytest.raises(DamagedIndex):
        TimeIndex.parse(bytes.fromhex(data))
