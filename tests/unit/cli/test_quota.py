"""`barnabas quota`, on quotas in memory."""

import json
from collections.abc import Mapping, Sequence

import pytest

from barnabas.client.quota_admin import QuotaInfo
from tests.unit.cli.conftest import Barnabas
from tests.unit.cli.fake_bus import FakeBus

Captured = pytest.CaptureFixture[str]
Key = tuple[tuple[str, str | None], ...]


class FakeQuotas:
    def __init__(self) -> None:
        self.by_entity: dict[Key, dict[str, float]] = {}

    def find(self, entity: Mapping[str, str | None]) -> list[QuotaInfo]:
        wanted = entity.items()
        return [QuotaInfo(dict(key), dict(each)) for key, each in self.by_entity.items() if wanted <= dict(key).items()]

    def set(self, entity: Mapping[str, str | None], quotas: Mapping[str, float]) -> None:
        self.by_entity.setdefault(tuple(entity.items()), {}).update(quotas)

    def remove(self, entity: Mapping[str, str | None], names: Sequence[str]) -> list[str]:
        return sorted(self.by_entity.pop(tuple(entity.items()), {}))


@pytest.fixture
def quotas(bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> FakeQuotas:
    found = FakeQuotas()
    monkeypatch.setattr(type(bus), "quotas", found, raising=False)
    return found


def test_quotas_are_set_listed_and_removed(barnabas: Barnabas, quotas: FakeQuotas, capsys: Captured) -> None:
    whom = ("--user", "alice", "--default", "client-id")
    assert barnabas("quota", "set", "producer_byte_rate=1048576", "request_percentage=12.5", *whom) == 0
    assert capsys.readouterr().out.splitlines() == [
        "user alice, every other client-id: producer_byte_rate is 1048576, request_percentage is 12.5"
    ]
    assert barnabas("quota", "list") == 0
    assert capsys.readouterr().out.splitlines() == [
        "user\tclient-id\tip\tquota\tvalue",
        "alice\t(default)\t-\tproducer_byte_rate\t1048576",
        "alice\t(default)\t-\trequest_percentage\t12.5",
    ]
    assert barnabas("quota", "list", "--json", "--user", "alice") == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "entity": {"user": "alice", "client-id": None},
            "quotas": {"producer_byte_rate": 1048576.0, "request_percentage": 12.5},
        }
    ]
    assert barnabas("quota", "remove", *whom) == 0
    assert "removed producer_byte_rate, request_percentage" in capsys.readouterr().out
    assert barnabas("quota", "remove", *whom) == 0
    assert "had no such quotas" in capsys.readouterr().out
    assert quotas.by_entity == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", "producer_byte_rate=1"),
        ("set", "producer_byte_rate", "--user", "a"),
        ("set", "producer_byte_rate=much", "--user", "a"),
        ("set", "producer_byte_rate=1", "--user", "a", "--default", "user"),
        ("set", "producer_byte_rate=1", "--default", "host"),
        ("remove",),
    ],
)
def test_a_wrong_usage_is_refused(barnabas: Barnabas, quotas: FakeQuotas, arguments: tuple[str, ...]) -> None:
    assert barnabas("quota", *arguments) == 2
    assert quotas.by_entity == {}
