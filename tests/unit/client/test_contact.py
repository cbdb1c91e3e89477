"""The first contact with a cluster: a wrong address is named at once; after it, a broker may be away for a while."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client import contact
from barnabas.client.bus import Bus
from barnabas.client.contact import reach
from barnabas.client.errors import Unreachable
from barnabas.core.errors import BarnabasError
from barnabas.testing.embedded import EmbeddedBroker

VERBS: dict[str, Callable[[Bus], Any]] = {
    "create_topic": lambda bus: bus.create_topic("orders"),
    "delete_topic": lambda bus: bus.delete_topic("orders"),
    "list_topics": lambda bus: bus.list_topics(),
    "describe_topic": lambda bus: bus.describe_topic("orders"),
    "alter_topic": lambda bus: bus.alter_topic("orders", set_={"retention.ms": "1"}),
    "add_partitions": lambda bus: bus.add_partitions("orders", 2),
    "truncate": lambda bus: bus.truncate("orders"),
    "send": lambda bus: bus.send("orders", b"x"),
    "transaction": lambda bus: bus.transaction("id"),
    "process": lambda bus: bus.process("orders", lambda message: message, "copies"),
    "transactions": lambda bus: bus.transactions(),
    "describe_transaction": lambda bus: bus.describe_transaction("id"),
    "hanging_transactions": lambda bus: bus.hanging_transactions(),
    "abort_transaction": lambda bus: bus.abort_transaction("id"),
    "abort_hanging_transaction": lambda bus: bus.abort_hanging_transaction("orders", 0, 0),
    "consume": lambda bus: bus.consume("orders"),
    "consume in a group": lambda bus: bus.consume("^or.*", group="billing"),
    "get": lambda bus: bus.get("orders", 0, 0),
    "merge": lambda bus: bus.merge("orders"),
    "read_arrow": lambda bus: bus.read_arrow("orders"),
    "groups": lambda bus: bus.groups(),
    "describe_group": lambda bus: bus.describe_group("billing"),
    "reset_group": lambda bus: bus.reset_group("billing", to="earliest"),
    "delete_group": lambda bus: bus.delete_group("billing"),
}


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses: bound, so that nobody else takes it, and not listening."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.filterwarnings("ignore::barnabas.client.topics.KeysMove")
def test_every_verb_names_a_wrong_address(verb: str, closed_port: int) -> None:
    bus = Bus(f"127.0.0.1:{closed_port}", connect_timeout=0.05)

    with pytest.raises(Unreachable, match=rf"^cannot reach 127.0.0.1:{closed_port} \(connection refused\): is the "):
        VERBS[verb](bus)
    bus.close(0)


def test_the_default_patience_is_a_few_seconds(closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    monkeypatch.setattr(
        "barnabas.client.contact.reach", lambda _bootstrap, _config, patience_s: given.append(patience_s)
    )

    Bus(f"127.0.0.1:{closed_port}")._contact.make()
    Bus(f"127.0.0.1:{closed_port}", timeout=0.2)._contact.make()

    assert given == [5.0, 0.2]


def test_all_addresses_are_named_and_any_may_answer(closed_port: int, broker: EmbeddedBroker) -> None:
    with pytest.raises(Unreachable, match=rf"127.0.0.1:{closed_port} \(.*\) or \[::1\]:{closed_port} \("):
        reach(f"127.0.0.1:{closed_port},[::1]:{closed_port}")

    reach(f"127.0.0.1:{closed_port},{broker.bootstrap}")


def test_a_name_that_is_unknown_is_said() -> None:
    with pytest.raises(Unreachable, match=r"no-such-host.invalid:9092 \("):
        reach("no-such-host.invalid")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not a Kafka broker"),
        (b"", "it closed the connection: does it require TLS?"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "it closed the connection: does it require TLS?"),
    ],
)
def test_somebody_else_at_the_address_is_told_apart(answer: bytes, words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        answering = threading.Thread(target=_answer, args=(listening, answer))
        answering.start()

        with pytest.raises(Unreachable) as refusal:
            reach(f"127.0.0.1:{listening.getsockname()[1]}")
        answering.join()

    assert words in str(refusal.value)


def _answer(listening: socket.socket, answer: bytes) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.recv(100)
        connection.sendall(answer)


def test_of_tls_it_is_enough_that_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"

        reach(address, {"security.protocol": "SASL_SSL"})


def test_a_broker_that_starts_meanwhile_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    starting = socket.socket()
    starting.bind(("127.0.0.1", 0))
    answering = threading.Thread(target=_answer, args=(starting, struct.pack(">ii", 4, 7)))

    def start(_pause_s: float) -> None:
        starting.listen()
        answering.start()

    # Between the first attempt, which is refused, and the second.
    monkeypatch.setattr(contact, "time", SimpleNamespace(monotonic=time.monotonic, sleep=start))
    with starting:
        reach(f"127.0.0.1:{starting.getsockname()[1]}", patience_s=60)
        answering.join()


def test_what_failed_once_is_tried_again_by_the_next_call(closed_port: int) -> None:
    bus = Bus(f"127.0.0.1:{closed_port}", connect_timeout=0.05)
    for _ in range(2):
        with pytest.raises(Unreachable, match="cannot reach"):
            bus.list_topics()


def test_after_the_first_contact_records_wait_for_a_broker_that_restarts(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=str(tmp_path)) as broker:
        address = broker.bootstrap
        broker.bus.create_topic("orders")
        bus = Bus(address, connect_timeout=0.05)
        bus.send("orders", b"before").result(60)

    sent = bus.send("orders", b"while it is away")
    with pytest.raises(BarnabasError, match="not acknowledged within"):
        sent.result(0.3)  # longer than the patience of the first contact

    with EmbeddedBroker({"listeners": f"PLAINTEXT://{address}"}, data_dir=str(tmp_path)):
        assert sent.result(60).offset == 1
        bus.close()
    assert bus.acknowledged_count == 2
