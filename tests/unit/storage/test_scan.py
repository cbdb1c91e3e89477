"""Walking the batches of a file, and telling an interrupted write from damage."""

import struct

import pytest

from barnabas.core.errors import CorruptLog
from barnabas.core.records.batch import seal
from barnabas.storage.scan import BadBatch, scan_batches, walk_headers, zero_share
from barnabas.testing.disk import SECTOR, SimulatedDisk, SimulatedFile
from tests.unit.storage.builders import plain


def batches(count: int, *, size: int = 100) -> list[bytes]:
    """Batches with growing offsets, without a zero among their values."""
    return [bytes(plain(base_offset=n, value=b"v" * size)) for n in range(count)]


def file_with(data: bytes) -> SimulatedFile:
    file = SimulatedDisk().open("segment", create=True)
    file.write(0, data)
    return file


def bad_batch(data: bytes) -> BadBatch:
    file = file_with(data)
    with pytest.raises(BadBatch) as caught:
        list(scan_batches(file, 0, file.size(), min_offset=0))
    return caught.value


def flipped(data: bytes, byte: int, bit: int = 0) -> bytes:
    changed = bytearray(data)
    changed[byte] ^= 1 << bit
    return bytes(changed)


def test_every_batch_is_found_with_its_bytes() -> None:
    written = batches(5)
    file = file_with(b"".join(written))
    found = list(scan_batches(file, 0, file.size(), min_offset=0))
    assert [bytes(batch.data) for batch in found] == written
    assert [batch.header.base_offset for batch in found] == list(range(5))
    assert [batch.position for batch in found] == [n * len(written[0]) for n in range(5)]


@pytest.mark.parametrize("chunk", [1, 61, 100, 500, 10_000])
def test_batches_larger_than_what_is_read_at_once_are_whole(chunk: int) -> None:
    written = [*batches(2, size=50), *batches(3, size=3000)[2:]]
    file = file_with(b"".join(written))
    found = scan_batches(file, 0, file.size(), min_offset=0, chunk=chunk)
    assert [bytes(batch.data) for batch in found] == written


def test_headers_are_found_without_reading_large_batches() -> None:
    disk = SimulatedDisk()
    file = disk.open("segment", create=True)
    data = b"".join(batches(10, size=100_000))
    file.write(0, data)
    assert [header.base_offset for _, header in walk_headers(file, 0, len(data))] == list(range(10))
    assert disk.bytes_read["segment"] < len(data) / 10


def test_a_walk_may_begin_and_end_at_any_batch() -> None:
    written = batches(4)
    file, size = file_with(b"".join(written)), len(written[0])
    assert [header.base_offset for _, header in walk_headers(file, size, 3 * size)] == [1, 2]


# Torn: a crash explains it.


@pytest.mark.parametrize("left", [1, 11, 60, 61, 100])
def test_a_batch_that_ends_with_the_file_is_torn(left: int) -> None:
    written = batches(3)
    bad = bad_batch(b"".join(written[:2]) + written[2][:left])
    assert (bad.is_torn, bad.position) == (True, 2 * len(written[0]))


def test_zeros_where_a_batch_should_be_are_torn() -> None:
    written = batches(2)
    assert bad_batch(b"".join(written) + bytes(1000)).is_torn


def test_a_sector_that_was_never_written_is_torn() -> None:
    first, second = batches(2, size=2000)
    data = bytearray(first + second)
    hole = (len(first) // SECTOR + 2) * SECTOR
    data[hole : hole + SECTOR] = bytes(SECTOR)
    bad = bad_batch(bytes(data))
    assert (bad.is_torn, bad.position) == (True, len(first))


def test_a_header_that_lies_in_two_sectors_of_which_one_was_written_is_torn() -> None:
    first = batches(1, size=SECTOR - 30 - len(batches(1, size=0)[0]) - 2)[0]
    second = batches(2)[1]
    boundary = SECTOR - len(first)
    assert 0 < boundary < 61
    assert bad_batch(first + second[:boundary] + bytes(len(second) - boundary)).is_torn
    assert bad_batch(first + bytes(boundary) + second[boundary:]).is_torn


def test_a_lost_sector_with_a_single_bit_of_the_batch_is_torn() -> None:
    """Its loss changes what a flipped bit would change; that the rest of the sector is zeros tells them apart."""
    head = len(plain(value=b""))
    for tail in range(1, 4):
        value = b"v" * (2 * SECTOR - head - 2)
        last = plain(value=value + b"\x00" * tail)
        last[2 * SECTOR] = 0x10
        seal(last, 0, len(last))
        assert len(last) > 2 * SECTOR
        assert bad_batch(bytes(last[: 2 * SECTOR]) + bytes(len(last) - 2 * SECTOR)).is_torn


# Damage: nothing explains it.


@pytest.mark.parametrize("byte", [17, 21, 30, 43, 57, 61, 100])
def test_a_flipped_bit_under_the_checksum_is_damage(byte: int) -> None:
    first, second = batches(2)
    bad = bad_batch(first + flipped(second, byte))
    assert (bad.is_torn, bad.position) == (False, len(first))


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_of_the_magic_is_damage(bit: int) -> None:
    first, second = batches(2)
    assert not bad_batch(first + flipped(second, 16, bit)).is_torn


@pytest.mark.parametrize("bit", range(32))
def test_a_flipped_bit_of_the_length_is_damage_even_when_it_points_past_the_end(bit: int) -> None:
    first, second = batches(2)
    assert not bad_batch(flipped(first, 11 - bit // 8, bit % 8) + second).is_torn


def test_a_few_zeros_that_belong_there_do_not_make_damage_look_torn() -> None:
    head = len(batches(1, size=0)[0])
    for offset_bytes in range(1, 6):  # the high bytes of an offset, alone at the end of a sector
        first = batches(1, size=SECTOR - head - 2 - offset_bytes)[0]
        second = batches(2)[1]
        assert len(first) == SECTOR - offset_bytes
        assert not bad_batch(first + flipped(second, 70)).is_torn


def test_an_offset_below_the_one_before_is_damage() -> None:
    first, second = batches(2)
    bad = bad_batch(second + first)
    assert not bad.is_torn
    assert "offset 0 comes after 1" in bad.reason


def test_damage_is_reported_with_its_place_and_what_to_do() -> None:
    first, second = batches(2)
    refusal = bad_batch(first + flipped(second, 70)).as_corrupt_log()
    assert isinstance(refusal, CorruptLog)
    assert f"segment at position {len(first)}" in str(refusal)
    assert "restore the file from a replica or a backup" in str(refusal)


def test_what_the_checksum_does_not_cover_is_seen_by_the_next_batch_only() -> None:
    """A known limit of the format: a larger offset of the last batch, or another epoch, passes for right."""
    first, second, third = batches(3)
    larger = bytearray(second)
    struct.pack_into(">q", larger, 0, 1000)
    assert not bad_batch(first + bytes(larger) + third).is_torn
    file = file_with(first + bytes(larger))
    assert [batch.header.base_offset for batch in scan_batches(file, 0, file.size(), min_offset=0)] == [0, 1000]


@pytest.mark.parametrize(
    ("data", "position", "share"),
    [
        (b"x" * 600, 0, 0),
        (b"x" * 512 + bytes(88), 0, 88),
        (bytes(12) + b"x" * 500, 500, 12),
        (bytes(12) + b"x" * 500, 0, 0),
        (b"x" * 10 + bytes(1014), 0, 512),
        (b"", 0, 0),
    ],
)
def test_the_longest_share_of_zeros(data: bytes, position: int, share: int) -> None:
    assert zero_share(data, position) == share


def test_the_advice_of_a_damaged_log_is_a_whole_command() -> None:
    bad = BadBatch("/var/lib/b/my-topic-12/00000000000000000000.log", 3, is_torn=False, reason="r")
    assert str(bad.as_corrupt_log()).endswith("run: barnabas topic repair my-topic --data-dir /var/lib/b")
