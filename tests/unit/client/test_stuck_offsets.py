"""Offsets of a transaction that librdkafka never stops sending: the block ends, and the next has another producer."""

import threading
import time
from typing import Any

import pytest

from barnabas.client import transactions
from barnabas.client.errors import TransactionAborted, Unreachable
from barnabas.client.processing import may_pass
from barnabas.client.settings import Settings
from barnabas.client.transactions import TransactionalProducers


class FakeHandle:
    """A producer of librdkafka whose group has lost its coordinator."""

    def __init__(self, is_coordinator_back: threading.Event) -> None:
        self._is_back = is_coordinator_back
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_arguments: self.calls.append(name)

    def poll(self, seconds: float) -> None:
        time.sleep(seconds)

    def send_offsets_to_transaction(self, *_arguments: object) -> None:
        self._is_back.wait()
        self.calls.append("send_offsets_to_transaction")


class FakeReader:
    def __init__(self) -> None:
        self.rewound = 0

    def uncommitted(self) -> tuple[list[Any], Any]:
        return [object()], object()

    def note_committed(self) -> None:
        self.rewound = -1

    def rewind(self, *, ask: bool = False) -> None:
        assert not ask, "it is certain that nothing was committed"
        self.rewound += 1


def test_a_transaction_whose_offsets_are_not_taken_is_given_up_and_its_producer_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transactions, "_STUCK_S", 0.01)
    is_back, reader, made = threading.Event(), FakeReader(), list[FakeHandle]()

    def make(*_settings: object) -> FakeHandle:
        made.append(FakeHandle(is_back))
        return made[-1]

    monkeypatch.setattr(Settings, "producer", make)
    producers = TransactionalProducers(Settings("nowhere:1"), lambda _topic: 0, timeout_s=0.01)

    with pytest.raises(TransactionAborted) as refusal, producers.open("id") as transaction:
        transaction.commit_offsets(reader)

    assert isinstance(refusal.value.__cause__, Unreachable)
    assert may_pass(refusal.value)
    assert reader.rewound == 1
    assert made[0].calls == ["init_transactions", "begin_transaction"]

    is_back.set()
    with producers.open("id") as transaction:
        transaction.commit_offsets(reader)
    assert made[1].calls[-2:] == ["send_offsets_to_transaction", "commit_transaction"]
    producers.close()
