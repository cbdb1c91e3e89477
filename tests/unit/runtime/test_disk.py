"""What only a real disk can show; what it shares with the simulated one is in test_disk_contract.py."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from barnabas.runtime.disk import OsDisk
from barnabas.storage.disk import Disk, File


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file")


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The kernel cuts writes at `size` and refuses those beyond: a short write without a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError as error:
        return error.errno != errno.EBADF
    return True


def test_the_operating_system_disk_is_a_disk(path: str) -> None:
    disk: Disk = OsDisk()
    file: File = disk.open(path, create=True)
    assert file.path == path


def test_a_file_closes_with_its_last_reference(path: str) -> None:
    file = OsDisk().open(path, create=True)
    reader = file
    descriptor = file.fileno()
    del file
    assert is_open(descriptor)
    del reader
    assert not is_open(descriptor)


def test_closing_twice_does_not_close_a_descriptor_given_out_since(path: str) -> None:
    disk = OsDisk()
    file = disk.open(path, create=True)
    file.close()
    other = disk.open(path)
    file.close()
    del file
    assert is_open(other.fileno())


def test_a_closed_file_refuses_to_read_and_write(path: str) -> None:
    file = OsDisk().open(path, create=True)
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(0, 1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write(0, b"x")


def test_a_child_process_inherits_no_file(path: str) -> None:
    file = OsDisk().open(path, create=True)
    script = f"import os; os.fstat({file.fileno()})"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, close_fds=False)
    assert b"Bad file descriptor" in child.stderr


def test_a_short_write_is_carried_on_until_the_system_says_why(path: str) -> None:
    file = OsDisk().open(path, create=True)
    with largest_file(1000), pytest.raises(OSError, match="File too large"):
        file.write(0, b"x" * 4096)
    assert file.size() == 1000


def test_a_write_beyond_what_one_call_carries_is_whole(path: str) -> None:
    file = OsDisk().open(path, create=True)
    file._write_on(0, memoryview(b"abcdef"), 2)
    assert file.read(0, 6) == b"\0\0cdef"


def test_a_read_beyond_what_one_call_carries_is_whole(path: str) -> None:
    file = OsDisk().open(path, create=True)
    file.write(0, b"abcdef")
    assert file._read_on(0, 6, b"ab") == b"abcdef"
    assert file._read_on(0, 9, b"ab") == b"abcdef"


def test_threads_read_and_write_one_file_at_a_time(path: str) -> None:
    file = OsDisk().open(path, create=True)

    def write_and_read(block: int) -> bool:
        data = bytes([block]) * 4096
        for round_ in range(20):
            position = (block * 20 + round_) * 4096
            file.write(position, data)
            if file.read(position, 4096) != data:
                return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(write_and_read, range(32)))


def test_errors_of_the_system_pass_through(tmp_path: Path) -> None:
    disk = OsDisk()
    with pytest.raises(FileNotFoundError):
        disk.sync_dir(str(tmp_path / "missing"))
    file = disk.open(str(tmp_path / "file"), create=True)
    with pytest.raises(OSError, match="Invalid argument"):
        file.truncate(-1)


def test_syncing_directories_leaks_no_descriptor(tmp_path: Path) -> None:
    probe = os.open(tmp_path, os.O_RDONLY)
    os.close(probe)
    for _ in range(10):
        OsDisk().sync_dir(str(tmp_path))
    again = os.open(tmp_path, os.O_RDONLY)
    os.close(again)
    assert again == probe


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """All descriptors that this process may have are in use, but for some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = os.open(os.devnull, os.O_RDONLY)
    taken = [highest]
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 20, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(count):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


@pytest.mark.parametrize("count", [0, 1])
def test_directories_are_listed_and_synced_when_all_descriptors_are_used_up(tmp_path: Path, count: int) -> None:
    disk = OsDisk()
    disk.open(str(tmp_path / "file"), create=True)
    with descriptors_left(count):
        for _ in range(2):  # what was set aside for this is there again
            assert disk.list_dir(str(tmp_path)) == ["file"]
            disk.sync_dir(str(tmp_path))
