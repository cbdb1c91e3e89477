"""The offset index: Kafka's eight bytes an entry, and what is refused of a damaged one."""

import pytest

from barnabas.storage.offset_index import DamagedIndex, OffsetIndex


def index_of(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex()
    for relative_offset, position in entries:
        index.append(relative_offset, position)
    return index


def test_an_entry_is_two_big_endian_numbers_of_four_bytes() -> None:
    index = index_of((5, 4097), (0x01020304, 0x0A0B0C0D))
    assert index.encode() == bytes.fromhex("00000005 00001001 01020304 0a0b0c0d")
    assert index.encode(1) == bytes.fromhex("01020304 0a0b0c0d")
    assert index.encode(2) == b""


def test_the_file_is_read_back() -> None:
    data = bytes.fromhex("00000005 00001001 7fffffff 7ffffffe")
    index = OffsetIndex.parse(data, log_size=2**31 - 1)
    assert (list(index.offsets), list(index.positions)) == ([5, 2**31 - 1], [4097, 2**31 - 2])
    assert index.encode() == data


@pytest.mark.parametrize(
    ("relative_offset", "entry"),
    [(-1, (-1, 0)), (4, (-1, 0)), (5, (5, 100)), (9, (5, 100)), (10, (10, 200)), (99, (10, 200))],
)
def test_a_lookup_gives_the_last_entry_not_beyond(relative_offset: int, entry: tuple[int, int]) -> None:
    assert index_of((5, 100), (10, 200)).lookup(relative_offset) == entry


def test_an_empty_index_leads_to_the_beginning() -> None:
    assert index_of().lookup(100) == (-1, 0)
    assert index_of().last() == (-1, 0)


@pytest.mark.parametrize(("position", "left"), [(0, 0), (100, 0), (101, 1), (200, 1), (201, 2)])
def test_a_cut_drops_entries_at_and_beyond_the_position(position: int, left: int) -> None:
    index = index_of((5, 100), (10, 200))
    index.truncate(position)
    assert len(index) == left


@pytest.mark.parametrize(("relative_offset", "left"), [(-1, 0), (4, 0), (5, 1), (10, 2)])
def test_entries_beyond_an_offset_are_dropped(relative_offset: int, left: int) -> None:
    index = index_of((5, 100), (10, 200))
    index.truncate_after(relative_offset)
    assert len(index) == left


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("00000005 0000", "not a whole number of entries"),
        ("00000005 00000064 00000005 000000c8", "not strictly growing"),
        ("00000005 00000064 00000006 00000064", "not strictly growing"),
        ("00000005 00000064 00000004 000000c8", "not strictly growing"),
        ("00000005 00000064 00000000 00000000", "not strictly growing"),
        ("ffffffff 00000064", "not strictly growing"),
        ("00000005 ffffffff", "not strictly growing"),
        ("00000005 00000064 00000006 000003e8", "within its log"),
    ],
)
def test_an_index_that_cannot_be_right_is_refused(data: str, reason: str) -> None:
    with pytest.raises(DamagedIndex, match=reason):
        OffsetIndex.parse(bytes.fromhex(data), log_size=1000)


def test_an_empty_file_is_an_empty_index() -> None:
    assert len(OffsetIndex.parse(b"", log_size=1)) == 0
