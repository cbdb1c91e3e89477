"""What the daemon of Spark's Python workers adds to Spark's own."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.spark.worker_daemon import acknowledging, allowing_hangups

ROOT = Path(__file__).parents[2]


def test_what_is_loaded_beforehand_is_not_collected_after_each_task() -> None:
    code = "from barnabas.spark.worker_daemon import preload; preload(); import gc; print(len(gc.get_objects()))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert int(done.stdout) < 1000


def test_the_daemons_of_planning_in_tests_load_nothing_that_only_tasks_use() -> None:
    code = (
        "import importlib, sys; from tests.spark.quick_daemon import OF_PLANNING; "
        "[importlib.import_module(name) for name in OF_PLANNING]; print({'numba', 'pandas'} & sys.modules.keys())"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert done.stdout == "set()\n"


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            yield accepted, client


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="needs Linux")
def test_what_a_worker_is_told_is_acknowledged_at_once(connection: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = connection

    def is_quick() -> int:
        return ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)

    for _ in range(10):  # one who answers is taken for one whose acknowledgements can wait for the answers
        theirs.sendall(b"?")
        ours.sendall(ours.recv(1))
        theirs.recv(1)
    assert not is_quick()

    assert acknowledging(lambda *_: is_quick())(ours, True) == 1


def test_a_worker_on_a_unix_socket_is_left_as_it_is() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert acknowledging(lambda *_: 7)(ours, True) == 7


@pytest.mark.parametrize("hangup", [BrokenPipeError, ConnectionResetError])
def test_a_worker_that_spark_hangs_up_on_just_ends(
    connection: tuple[socket.socket, socket.socket], hangup: type[Exception]
) -> None:
    def work(*_: object) -> int:
        raise hangup

    assert allowing_hangups(work)(connection[0], True) != 0


def test_any_other_failure_of_a_worker_is_reported(connection: tuple[socket.socket, socket.socket]) -> None:
    def work(*_: object) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        allowing_hangups(work)(connection[0], True)
