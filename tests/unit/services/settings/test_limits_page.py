"""The page of limits is what the settings say."""

import re
from pathlib import Path

from barnabas.core import errors
from barnabas.core.errors import BarnabasError
from barnabas.services.settings.broker_config import BROKER_SETTINGS
from barnabas.services.settings.catalogue.limit_settings import LimitSettings

PAGE = (Path(__file__).parents[4] / "docs" / "limits.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| [^|]+ \| `([^`]+)` \| (?:`([^`]+)`|unset) \| ([^|]+) \|$", re.MULTILINE)
REFUSAL = re.compile(r"([A-Z_]+) \((\d+)\)")


def test_every_limit_on_the_page_is_a_setting_with_that_default() -> None:
    rows = {name: default or None for name, default, _ in ROW.findall(PAGE)}
    assert len(rows) > 20
    assert {name: BROKER_SETTINGS[name].default for name in rows} == rows
    assert all(BROKER_SETTINGS[name].has_effect for name in rows)


def test_every_limit_of_our_own_is_on_the_page() -> None:
    names = {name.replace("_", ".") for name in LimitSettings.__struct_fields__}
    assert names <= {name for name, _, _ in ROW.findall(PAGE)}


def test_every_refusal_on_the_page_has_its_name_and_code() -> None:
    by_name = {
        re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper(): each.kafka_code
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, BarnabasError)
    }
    refusals = REFUSAL.findall(PAGE)
    assert refusals
    assert [by_name[name] for name, _ in refusals] == [int(code) for _, code in refusals]
