"""Small files are replaced whole: a crash leaves the old one or the new one."""

import contextlib

from barnabas.storage.small_file import ReplacedFile, read_file, replace_file, replace_together
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


def test_files_that_are_replaced_together_share_the_sync_of_their_directory() -> None:
    disk = SimulatedDisk()
    disk.make_dir("/data")
    disk.sync_dir("/")
    files = [ReplacedFile(disk, f"/data/{name}") for name in "abc"]
    files.append(ReplacedFile(disk, "/data/d", copies=("/data/d.copy",)))
    for file in files:
        file.note_change()
    replace_together([file.begin(lambda: b"new") for file in files])
    assert all(file.is_durable for file in files)
    assert disk.syncs["/data"] == 2  # the copy is durable before its file is replaced
    disk.crash()
    assert {read_file(disk, f"/data/{name}") for name in ("a", "b", "c", "d", "d.copy")} == {b"new"}


def test_a_copy_is_never_older_than_its_file_whatever_is_replaced_with_it() -> None:
    seen = set()
    for seed in range(300):
        disk = SimulatedDisk(seed)
        disk.make_dir("/data")
        disk.sync_dir("/")
        other, file = ReplacedFile(disk, "/data/other"), ReplacedFile(disk, PATH, copies=(PATH + ".copy",))
        for content in (b"old", b"new"):
            other.note_change()
            file.note_change()
            if content == b"new":
                disk.crash_after(seed % 20)
            with contextlib.suppress(SimulatedCrash):
                replace_together([other.begin(lambda: content), file.begin(lambda: content)])  # noqa: B023 - called at once
        disk.crash()
        seen.add((read_file(disk, PATH), read_file(disk, PATH + ".copy")))
    assert seen == {(b"old", b"old"), (b"old", b"new"), (b"new", b"new")}
