"""What a command says of a cluster that does not answer."""

import threading
from pathlib import Path

import pytest

from barnabas.cli import connection, output
from barnabas.client.errors import Unreachable
from tests.unit.cli.conftest import Barnabas
from tests.unit.cli.fake_bus import FakeBus

NO_CONTROLLER = "the cluster has no active controller"


@pytest.mark.parametrize("command", ["group", "txn"])
def test_a_list_that_nobody_answers_says_what_is_wrong_with_the_cluster(
    command: str,
    barnabas: Barnabas,
    bus: FakeBus,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(**_: object) -> None:
        raise Unreachable("cannot list: Timed out; is a broker running at that address?")

    asked: list[float] = []

    def open_bus(_bootstrap: str, timeout_s: float) -> FakeBus:
        asked.append(timeout_s)
        return bus

    monkeypatch.setattr(bus, "groups", fail, raising=False)
    monkeypatch.setattr(bus, "transactions", fail, raising=False)
    monkeypatch.setattr(connection, "open_bus", open_bus)
    monkeypatch.setattr(connection, "why_slow", lambda _: NO_CONTROLLER)

    assert barnabas(command, "list") == 1

    assert capsys.readouterr().err == f"barnabas: cannot list: Timed out; {NO_CONTROLLER}\n"
    assert asked == [10.0]


def test_a_producer_that_waits_says_what_is_wrong_with_the_cluster(
    barnabas: Barnabas,
    bus: FakeBus,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    said = threading.Event()
    lines: list[str] = []

    def say(line: str, *, error: bool = False) -> None:
        lines.append(line)
        if "waiting" in line:
            said.set()

    monkeypatch.setattr(output, "SLOW_S", 0.0)
    monkeypatch.setattr(output, "say", say)
    monkeypatch.setattr(connection, "why_slow", lambda _: NO_CONTROLLER)
    monkeypatch.setattr(bus, "flush", lambda: said.wait(30))
    bus.create_topic("orders")
    (tmp_path / "lines").write_text("one\n")

    assert barnabas("produce", "orders", str(tmp_path / "lines")) == 0

    assert lines[0] == f"barnabas: waiting for the broker to acknowledge records of orders; {NO_CONTROLLER}"
