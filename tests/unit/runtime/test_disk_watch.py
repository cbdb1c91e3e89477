"""Watching a data directory: room for clients, what the log is told, and a directory that vanishes."""

import asyncio
import errno
import logging

import pytest

from barnabas.core.errors import DataDirLost, StorageExhausted
from barnabas.runtime.disk_watch import ROOM_MS, DiskWatch
from barnabas.runtime.offload import Offload
from barnabas.storage.health import DirectoryHealth
from barnabas.testing.disk import SimulatedDisk
from tests.support.ports import InPlace

RESERVE = 1000


class MovedClock:
    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def elapsed_ms(self) -> int:
        return self.ms


class World:
    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_dir("/data")
        self.disk.make_dir("/data/t-0")
        self.health = DirectoryHealth("/data")
        self.clock = MovedClock()
        offload: Offload = InPlace()
        self.watch = DiskWatch(self.disk, self.health, offload, self.clock, present="/data/t-0", reserve_bytes=RESERVE)

    def look(self, free_bytes: int | None) -> bool:
        """Look once; whether a client may write."""
        self.disk.room = free_bytes
        asyncio.run(self.watch.look())
        return not self.health.is_full


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_clients_are_refused_while_only_the_reserve_is_left(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    assert [world.look(free) for free in (RESERVE, RESERVE - 1, 0, RESERVE, None)] == [True, False, False, True, True]
    (line,) = lines(caplog, logging.ERROR)
    assert "/data is full" in line
    assert "delete something or add space" in line


def test_clients_are_refused_until_what_comes_before_them_is_done() -> None:
    world = World()
    done: list[bool] = []

    async def is_done() -> bool:
        return bool(done)

    world.watch.before_room = is_done
    assert not world.look(RESERVE)
    done.append(True)
    assert world.look(RESERVE)


def test_a_disk_that_was_found_full_is_tried_again_and_the_log_hears_of_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    for _ in range(20):  # a quota: there is room, and yet there is none
        world.health.fail(OSError(errno.EDQUOT, "Disk quota exceeded"))
        with pytest.raises(StorageExhausted):
            world.health.check_room()
        world.clock.ms += 1000
        assert world.look(RESERVE)
    assert len(lines(caplog, logging.ERROR)) == 1
    assert lines(caplog, logging.WARNING) == []
    world.clock.ms += ROOM_MS
    world.look(RESERVE)
    world.look(RESERVE)
    assert lines(caplog, logging.WARNING) == ["/data has space again; clients' writes are accepted"]


def test_going_offline_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    for _ in range(3):
        world.health.fail(OSError(errno.EIO, "Input/output error"))
    (line,) = lines(caplog, logging.ERROR)
    assert "Input/output error" in line
    assert "start the node again" in line


def test_want_of_descriptors_is_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    for _ in range(120):
        world.health.fail(OSError(errno.EMFILE, "Too many open files"))
        world.clock.ms += 1000
    assert len(lines(caplog, logging.ERROR)) == 2


def test_a_directory_that_has_vanished_ends_the_watch() -> None:
    world = World()
    world.disk.remove_dir("/data/t-0")
    with pytest.raises(DataDirLost, match="/data is gone"):
        world.look(None)
