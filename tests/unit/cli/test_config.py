"""`barnabas config`, on settings in memory."""

import json
from collections.abc import Iterable, Mapping

import pytest

from barnabas.client.config_admin import ConfigInfo, ConfigKind
from tests.unit.cli.conftest import Barnabas
from tests.unit.cli.fake_bus import FakeBus

Captured = pytest.CaptureFixture[str]


class FakeConfigs:
    def __init__(self) -> None:
        self.by_resource: dict[tuple[ConfigKind, str], dict[str, str]] = {}

    def describe(self, kind: ConfigKind, name: str, *, names: Iterable[str] | None) -> list[ConfigInfo]:
        found = self.by_resource.get((kind, name), {})
        infos = [info(each, value, source=kind.name.lower()) for each, value in found.items()]
        infos += [info("retention.ms", "604800000", source="default"), info("ssl.key.password", None, is_secret=True)]
        wanted = None if names is None else set(names)
        return [each for each in infos if wanted is None or each.name in wanted]

    def alter(
        self, kind: ConfigKind, name: str, *, set_: Mapping[str, str], unset: Iterable[str], dry_run: bool
    ) -> None:
        if dry_run:
            return
        settings = self.by_resource.setdefault((kind, name), {})
        settings.update(set_)
        for each in unset:
            settings.pop(each, None)


def info(name: str, value: str | None, *, source: str = "file", is_secret: bool = False) -> ConfigInfo:
    return ConfigInfo(name, value, source, is_read_only=is_secret, is_secret=is_secret, documentation=None)


@pytest.fixture
def configs(bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> FakeConfigs:
    found = FakeConfigs()
    monkeypatch.setattr(bus, "configs", found)
    return found


def test_settings_are_altered_and_shown(barnabas: Barnabas, configs: FakeConfigs, capsys: Captured) -> None:
    assert barnabas("config", "alter", "--topic", "orders", "cleanup.policy=compact", "segment.ms=10") == 0
    assert capsys.readouterr().out.splitlines() == [
        "topic orders: cleanup.policy is compact, segment.ms is 10: done",
    ]
    assert barnabas("config", "alter", "--topic", "orders", "--unset", "segment.ms") == 0
    assert barnabas("config", "alter", "--topic", "orders", "segment.ms=20", "--dry-run") == 0
    assert "would be accepted" in capsys.readouterr().out
    assert configs.by_resource == {(ConfigKind.TOPIC, "orders"): {"cleanup.policy": "compact"}}
    assert barnabas("config", "describe", "--topic", "orders") == 0
    assert capsys.readouterr().out.splitlines() == [
        "setting\tvalue\tfrom\tread-only",
        "cleanup.policy\tcompact\ttopic\tno",
        "ssl.key.password\t(secret)\tfile\tyes",
    ]


def test_defaults_are_shown_when_asked_for(barnabas: Barnabas, configs: FakeConfigs, capsys: Captured) -> None:
    assert barnabas("config", "describe", "--all-brokers", "--all", "--json") == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == ["retention.ms", "ssl.key.password"]
    assert barnabas("config", "describe", "--group", "g", "retention.ms") == 0
    assert "604800000\tdefault" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("describe",), "give one of --topic"),
        (("describe", "--topic", "t", "--broker", "1"), "give one of --topic"),
        (("alter", "--topic", "t"), "give SETTING=VALUE"),
        (("alter", "--topic", "t", "a=1", "--unset", "a"), "set and unset at once"),
        (("alter", "--topic", "t", "nonsense"), "SETTING=VALUE"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(
    barnabas: Barnabas, configs: FakeConfigs, capsys: Captured, arguments: tuple[str, ...], says: str
) -> None:
    assert barnabas("config", *arguments) == 2
    assert says in capsys.readouterr().err
    assert not configs.by_resource
