"""The generation of a data directory grows at each start, durably, and comes back with a copy."""

import pytest

from barnabas.storage.data_dir import DataDir
from barnabas.storage.generation import Generation, begin_generation
from barnabas.testing.disk import SimulatedDisk

PATH = "/data/directory-generation"


def test_each_start_begins_a_later_generation_by_the_clock_or_without_it() -> None:
    disk = SimulatedDisk(1)
    assert begin_generation(DataDir(disk, "/data"), now_ms=1000) == Generation(0, 1000)
    assert begin_generation(DataDir(disk, "/data"), now_ms=5000) == Generation(1000, 5000)
    assert begin_generation(DataDir(disk, "/data"), now_ms=10) == Generation(5000, 5001)


def test_a_generation_that_has_begun_survives_a_crash() -> None:
    disk = SimulatedDisk(1)
    begin_generation(DataDir(disk, "/data"), now_ms=1000)
    disk.crash()
    assert begin_generation(DataDir(disk, "/data"), now_ms=2000).previous == 1000


def test_a_copy_has_the_generation_of_when_it_was_made() -> None:
    disk = SimulatedDisk(1)
    begin_generation(DataDir(disk, "/data"), now_ms=1000)
    copied = disk.open(PATH).read(0, 100)
    registered = begin_generation(DataDir(disk, "/data"), now_ms=2000).current
    file = disk.open(PATH)
    file.truncate(0)
    file.write(0, copied)
    assert begin_generation(DataDir(disk, "/data"), now_ms=3000).previous < registered


@pytest.mark.parametrize("damaged", [b"", b"12x\n", b"9" * 40])
def test_a_damaged_file_counts_as_an_older_copy(damaged: bytes) -> None:
    disk = SimulatedDisk(1)
    begin_generation(DataDir(disk, "/data"), now_ms=1000)
    file = disk.open(PATH)
    file.truncate(0)
    file.write(0, damaged)
    assert begin_generation(DataDir(disk, "/data"), now_ms=2000) == Generation(0, 2000)
