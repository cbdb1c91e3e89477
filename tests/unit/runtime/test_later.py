"""Modules that are loaded when something of them is first used."""

import sys

import pytest

from barnabas.runtime.later import Later

NAME = "colorsys"  # of the standard library; nothing here uses it


@pytest.fixture(autouse=True)
def not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, NAME, raising=False)


def test_a_module_is_loaded_when_something_of_it_is_used() -> None:
    module = Later(NAME)
    assert NAME not in sys.modules

    assert module.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
    assert NAME in sys.modules
    assert module.rgb_to_hsv is sys.modules[NAME].rgb_to_hsv


def test_what_a_module_does_not_have_is_refused() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = Later(NAME).no_such_thing


def test_a_module_that_does_not_exist_is_refused_when_it_is_used() -> None:
    module = Later("barnabas.no_such_module")

    with pytest.raises(ModuleNotFoundError):
        _ = module.anything
