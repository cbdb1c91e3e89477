"""Commands run in this process, on a bus in memory."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from barnabas.cli import connection
from barnabas.cli.main import app, run
from tests.unit.cli.fake_bus import FakeBus

Barnabas: TypeAlias = Callable[..., int]


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> FakeBus:
    """A bus that the commands find whatever address they are given."""
    fake = FakeBus()
    monkeypatch.setattr(connection, "open_bus", lambda *_address, **options: fake.note_opened(options))
    monkeypatch.setattr(connection, "why_slow", lambda _address: None)  # there is no cluster to ask
    return fake


@pytest.fixture
def barnabas(bus: FakeBus) -> Barnabas:
    """Runs a command line and gives its exit code."""

    def run_line(*arguments: str) -> int:
        with pytest.raises(SystemExit) as leaving:
            run(app, list(arguments))
        return int(leaving.value.code or 0)

    return run_line
