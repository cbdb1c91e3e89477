"""Small files are replaced whole: a crash leaves the old one or the new one."""

import contextlib

from barnabas.storage.small_file import read_file, replace_file
from barnabas.testing.disk import SimulatedCrash, SimulatedDisk

PATH = "/data/checkpoint"


def test_a_file_that_is_not_there_reads_as_none() -> None:
    assert read_file(SimulatedDisk(), PATH) is None


def test_the_new_bytes_are_read_back_after_a_crash() -> None:
    disk = SimulatedDisk()
    disk.make_dir("/data")
    disk.sync_dir("/")
    replace_file(disk, PATH, b"old and rather long")
    replace_file(disk, PATH, b"new")
    disk.crash()
    assert read_file(disk, PATH) == b"new"


def test_a_crash_at_any_step_leaves_the_old_or_the_new_bytes() -> None:
    seen = set()
    for seed in range(200):
        disk = SimulatedDisk(seed)
        disk.make_dir("/data")
        disk.sync_dir("/")
        replace_file(disk, PATH, b"old")
        disk.crash_after(seed % 7)
        with contextlib.suppress(SimulatedCrash):
            replace_file(disk, PATH, b"new")
        disk.crash()
        seen.add(read_file(disk, PATH))
    assert seen == {b"old", b"new"}
