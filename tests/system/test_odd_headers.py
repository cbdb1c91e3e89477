"""Headers whose names are not UTF-8: a broker takes them, as Kafka does, and whatever of ours reads them goes on."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from barnabas.client.message import Message
from barnabas.core.records.batch import Codec
from barnabas.core.records.record import Record, encode_batch
from barnabas.testing.embedded import EmbeddedBroker
from tests.system.running import Client, produce

HEADERS = (("a\udcff", b"1"), ("plain", b"2"), ("a\udcff", None))


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker with a topic whose second and third record have such headers."""
    with EmbeddedBroker() as broker:
        broker.bus.create_topic("t", config={"cleanup.policy": "compact"})
        records = [Record(0, 0, b"k0", b"before")]
        records += [Record(number, 0, b"k%d" % number, b"v", HEADERS) for number in (1, 2)]
        with Client(int(broker.bootstrap.rpartition(":")[2])) as client:
            assert produce(client, "t", bytes(encode_batch(records, codec=Codec.GZIP))).error_code.value == 0
            assert produce(client, "t", bytes(encode_batch([Record(0, 0, b"k3", b"after")]))).error_code.value == 0
        yield broker


def check(found: list[Message]) -> None:
    assert [message.headers for message in found] == [(), HEADERS, HEADERS, ()]
    assert [message.offset for message in found] == [0, 1, 2, 3]


def test_the_bus_reads_them(broker: EmbeddedBroker) -> None:
    check(list(broker.bus.consume("t", max_records=4)))
    check(list(broker.bus.merge("t")))
    for _ in range(10):  # the interpreter treats a call that it knows well differently
        check([broker.bus.get("t", 0, offset) for offset in range(4)])


def test_a_group_reads_them(broker: EmbeddedBroker) -> None:
    check(list(broker.bus.consume("t", group="g", max_records=4)))


def test_they_are_read_as_arrow(broker: EmbeddedBroker) -> None:
    pytest.importorskip("pyarrow")
    rows = broker.bus.read_arrow("t").read_all().to_pylist()
    assert [header["key"] for header in rows[1]["headers"]] == ["a\ufffd", "plain", "a\ufffd"]


def test_the_command_shows_them(broker: EmbeddedBroker) -> None:
    def consume(format_: str) -> list[bytes]:
        command = [sys.executable, "-m", "barnabas.cli.main", "consume", "t", "--from-beginning", "--max", "4"]
        command += ["--bootstrap", broker.bootstrap, "--format", format_]
        ended = subprocess.run(command, capture_output=True, timeout=60, check=True)
        return ended.stdout.splitlines()

    assert consume("%h\\n") == [b"", b"a\xff=1,plain=2,a\xff=", b"a\xff=1,plain=2,a\xff=", b""]
    assert json.loads(consume("json")[1])["headers"] == [
        {"name_base64": "Yf8=", "value": "1"},
        {"name": "plain", "value": "2"},
        {"name_base64": "Yf8=", "value": None},
    ]
