"""``barnabas serve`` short of what a process needs: descriptors, room, and its data directory itself."""

import asyncio
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from barnabas.client import Bus
from barnabas.core.records.record import Record, encode_batch
from barnabas.node import Node, Ports
from barnabas.services.settings.broker_config import BrokerConfig
from tests.system.running import Client, produce

EX_IOERR = 74
ROOM = 100_000


@contextmanager
def serving(
    directory: Path, errors: Path, *, limit: tuple[int, int, int] = (resource.RLIMIT_CORE, 0, 0), settings: str = ""
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A node whose process has a limit (which, soft, hard), and its address; what it logs goes to a file."""
    program = (
        f"import resource; resource.setrlimit({limit[0]}, {limit[1:]}); from barnabas.cli.main import main; main()"
    )
    options = ["serve", "--data-dir", str(directory), "--listen", "127.0.0.1:0"]
    if settings:
        options += ["--set", settings]
    with (
        errors.open("w") as file,
        subprocess.Popen(
            [sys.executable, "-c", program, *options], stdout=subprocess.PIPE, stderr=file, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().partition("ready on ")[2].split(maxsplit=1)[0]
        finally:
            process.kill()


def test_many_idle_connections_leave_the_logs_their_descriptors(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    limit = (resource.RLIMIT_NOFILE, 64, 192)  # it takes what it may
    with serving(tmp_path / "data", errors, limit=limit) as (process, address), Bus(address) as bus:
        bus.create_topic("t", partitions=50)
        bus.send("t", b"v", partition=0).result(60)
        host, port = address.split(":")
        with ExitStack() as idle:
            for _ in range(300):
                idle.enter_context(socket.create_connection((host, int(port)), timeout=10))
            for partition in range(1, 50):  # none of which has a file yet
                bus.send("t", b"v", partition=partition).result(60)
        assert [bus.get("t", partition, 0).value for partition in range(50)] == [b"v"] * 50
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert "max.connections is lowered from 10000 to 96" in errors.read_text()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux changes the limits of another process")
def test_a_write_that_finds_no_room_is_taken_once_there_is_some_and_nothing_is_lost(tmp_path: Path) -> None:
    """No file may be larger than so many bytes, which is how a disk without room looks to an append."""
    errors = tmp_path / "errors"
    limit = (resource.RLIMIT_FSIZE, ROOM, resource.RLIM_INFINITY)
    with serving(tmp_path / "data", errors, limit=limit) as (process, address), Bus(address) as bus:
        bus.create_topic("t")
        bus.send("t", b"000").result(60)
        sent = [bus.send("t", b"%03d" % number + b"x" * 1000) for number in range(1, 200)]
        wait_until(lambda: "is full" in errors.read_text())
        assert bus.get("t", 0, 0).value == b"000"  # reads go on
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        offsets = [each.result(60).offset for each in sent]
        assert sorted(offsets) == list(range(1, 200))
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    with serving(tmp_path / "data", errors, limit=(resource.RLIMIT_CORE, 0, 0)) as (_, address), Bus(address) as bus:
        found = {(bus.get("t", 0, offset).value or b"")[:3] for offset in range(200)}
        assert found == {b"%03d" % number for number in range(200)}


@contextmanager
def small_disk(path: Path, *, size: str) -> Iterator[Path]:
    """A file system of its own, in memory."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def fill_up(path: Path) -> None:
    """Write until not a byte is free."""
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    with suppress(OSError):
        while True:
            os.write(descriptor, bytes(4096))
    os.close(descriptor)
    assert os.statvfs(path).f_bavail == 0


def test_a_node_that_was_killed_without_a_byte_free_starts_serves_reads_and_writes_once_there_is_room(
    tmp_path: Path,
) -> None:
    errors, reserve = tmp_path / "errors", "log.dir.reserve.bytes=100000"
    with small_disk(tmp_path / "disk", size="6m") as disk:
        with serving(disk / "data", errors, settings=reserve) as (_, address), Bus(address) as bus:
            bus.create_topic("t", partitions=3)
            for number in range(30):
                bus.send("t", b"%d" % number, partition=number % 3).result(60)
            with bus.transaction("mover") as transaction:
                transaction.send("t", b"30", partition=0)
        ballast = disk / "ballast"
        fill_up(ballast)  # the node was killed
        with serving(disk / "data", errors, settings=reserve) as (_, address):
            check_reads_only(address)
        # Once more: of what the first of these could not write, nothing is missing.
        with serving(disk / "data", errors, settings=reserve) as (process, address):
            check_reads_only(address)
            ballast.unlink()
            wait_until(lambda: written(address) == ErrorCode.none)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        assert "is full" in errors.read_text()
        with serving(disk / "data", errors, settings=reserve) as (_, address), Bus(address) as bus:
            values = sorted(record.value or b"" for record in bus.consume("t", max_records=32))
            assert values == sorted([b"taken", *(b"%d" % number for number in range(31))])


def check_reads_only(address: str) -> None:
    with Bus(address) as bus:
        found = sorted(int(record.value or b"") for record in bus.consume("t", max_records=31))
    assert found == list(range(31))
    assert written(address) == ErrorCode.kafka_storage_error


def written(address: str) -> ErrorCode:
    """What a broker answers to one record for partition 0 of t."""
    with Client(int(address.rpartition(":")[2])) as client:
        code: ErrorCode = produce(client, "t", bytes(encode_batch([Record(0, 0, None, b"taken")]))).error_code
        return code


def test_a_node_whose_data_directory_is_gone_ends_with_a_code_that_says_so(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with serving(tmp_path / "data", errors, limit=(resource.RLIMIT_CORE, 0, 0)) as (process, address):
        with Bus(address) as bus:
            bus.send("t", b"v").result(60)
        (tmp_path / "data").rename(tmp_path / "elsewhere")
        assert process.wait(60) == EX_IOERR
    assert "is gone" in errors.read_text()


def wait_until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up_at, "it did not come to that"
        time.sleep(0.05)


def test_a_node_looks_for_room_before_it_takes_a_write(tmp_path: Path) -> None:
    listen, reserve = "PLAINTEXT://127.0.0.1:0", str(2**60)  # more than any disk has
    settings = {"log.dirs": str(tmp_path / "data"), "listeners": listen, "log.dir.reserve.bytes": reserve}
    config = BrokerConfig.from_properties(settings)
    is_full: list[bool] = []

    def on_ready(node: Node) -> None:
        assert node.broker is not None
        is_full.append(node.broker.logs.data_dir.health.is_full)
        node.stop()

    asyncio.run(Node(config, Ports.of_system(config)).run(on_ready))
    assert is_full == [True]
