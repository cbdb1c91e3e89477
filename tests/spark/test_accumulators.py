"""Spark's connection to the accumulators of Python ends now and then, which is nothing to report. All else is."""

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")

from pyspark.accumulators import AccumulatorTCPServer, UpdateRequestHandler

from barnabas.spark.local_session import allow_hangups

TOKEN = "token"


@pytest.fixture
def accumulators() -> Iterator[AccumulatorTCPServer]:
    server = AccumulatorTCPServer(("127.0.0.1", 0), UpdateRequestHandler, TOKEN)
    allow_hangups(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()


def report(server: AccumulatorTCPServer, token: str) -> bytes:
    """Say who we are and that nothing was counted, hear the answer, and hang up."""
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30) as connection:
        connection.sendall(token.encode() + struct.pack("!i", 0))
        return connection.recv(1)


def test_hangups_are_not_reported_and_others_are_heard_afterwards(
    accumulators: AccumulatorTCPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [report(accumulators, TOKEN) for _ in range(3)] == [b"\x01"] * 3
    accumulators.shutdown()

    assert capsys.readouterr().err == ""


def test_whatever_else_goes_wrong_is_reported(
    accumulators: AccumulatorTCPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(accumulators, "wrong") == b""
    accumulators.shutdown()

    assert "The value of the provided token" in capsys.readouterr().err
