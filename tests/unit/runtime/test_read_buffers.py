"""Memory for large reads is used again, and never while somebody still has what was read into it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from barnabas.runtime.disk import OsDisk
from barnabas.runtime.read_buffers import LARGEST_READ, MOST_BUFFERS, SMALLEST_READ, ReadBuffers

MIB = 1024 * 1024


def fill(buffer: bytearray | memoryview, byte: int) -> None:
    memoryview(buffer)[:] = bytes([byte]) * len(buffer)


def is_filled(buffer: bytearray | memoryview, byte: int) -> bool:
    return bytes(buffer) == bytes([byte]) * len(buffer)


def memory_of(buffer: bytearray | memoryview) -> int:
    """Which memory it is a view of."""
    assert isinstance(buffer, memoryview)
    return id(buffer.obj)


def test_a_large_read_uses_the_memory_of_the_one_before() -> None:
    buffers = ReadBuffers()
    first = buffers.take(MIB)
    memory = memory_of(first)
    del first
    assert memory_of(buffers.take(MIB)) == memory
    assert memory_of(buffers.take(MIB // 2)) == memory


def test_what_somebody_still_has_is_not_read_into() -> None:
    buffers = ReadBuffers()
    taken = [buffers.take(MIB) for _ in range(MOST_BUFFERS + 3)]
    for number, each in enumerate(taken):
        fill(each, number)
    assert all(is_filled(each, number) for number, each in enumerate(taken))


def test_a_part_of_what_was_read_is_enough_to_keep_it() -> None:
    buffers = ReadBuffers()
    kept = memoryview(buffers.take(MIB))[10:20]
    fill(kept, 1)
    for _ in range(MOST_BUFFERS + 1):
        fill(buffers.take(MIB), 2)
    assert is_filled(kept, 1)


def test_no_more_is_kept_than_a_few_buffers_however_many_are_held() -> None:
    buffers = ReadBuffers()
    held = [buffers.take(MIB) for _ in range(10)]
    assert sum(isinstance(each, memoryview) for each in held) == MOST_BUFFERS  # the others are their readers' own


def test_a_buffer_that_was_let_go_is_used_although_another_is_held() -> None:
    buffers = ReadBuffers()
    held, first = buffers.take(MIB), buffers.take(MIB)
    memory = memory_of(first)
    del first
    assert memory_of(buffers.take(MIB)) == memory
    assert memory_of(held) != memory


@pytest.mark.parametrize("size", [0, 1, SMALLEST_READ - 1, LARGEST_READ + 1])
def test_small_and_very_large_reads_have_their_own_memory(size: int) -> None:
    buffer = ReadBuffers().take(size)
    assert isinstance(buffer, bytearray)
    assert len(buffer) == size


def test_a_larger_read_gets_a_larger_buffer_which_is_kept_instead() -> None:
    buffers = ReadBuffers()
    assert [len(buffers.take(size)) for size in (SMALLEST_READ, LARGEST_READ, MIB)] == [
        SMALLEST_READ,
        LARGEST_READ,
        MIB,
    ]
    larger = buffers.take(LARGEST_READ)
    memory = memory_of(larger)
    del larger
    assert memory_of(buffers.take(SMALLEST_READ)) == memory


def test_threads_never_share_a_buffer() -> None:
    buffers = ReadBuffers()

    def use(byte: int) -> bool:
        for _ in range(200):
            buffer = buffers.take(SMALLEST_READ)
            fill(buffer, byte)
            if not is_filled(buffer, byte):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(4)))


def test_reads_of_a_file_use_the_same_memory_and_keep_what_is_held(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "file"), create=True)
    file.write(0, b"a" * MIB + b"b" * MIB)
    first = file.read_nowait(0, MIB)
    if first is None:
        pytest.skip("this file system cannot say what is in memory")
    second = file.read_nowait(MIB, MIB)
    assert second is not None
    assert (bytes(first), bytes(second)) == (b"a" * MIB, b"b" * MIB)
    assert isinstance(first, memoryview)
    memory = memory_of(first)
    del first
    third = file.read_nowait(MIB, MIB)
    assert isinstance(third, memoryview)
    assert memory_of(third) == memory
    assert bytes(third) == b"b" * MIB
