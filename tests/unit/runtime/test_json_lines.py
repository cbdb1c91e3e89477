"""Lines of the log as JSON, and levels of parts of a node."""

import json
import logging
import sys

import pytest

from barnabas.runtime.log_lines import JsonLines
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.setting import InvalidSetting
from barnabas.services.settings.loggers import set_levels

EVIL = 'x"}\n{"level": "CRITICAL", "message": "forged"}\u2028\x1b[31m'


def _record(message: str) -> logging.LogRecord:
    return logging.LogRecord("barnabas.http", logging.WARNING, "file", 1, "closing %s", (message,), None)


def test_a_client_cannot_end_a_line_of_json() -> None:
    text = JsonLines().format(_record(EVIL))
    assert len(text.splitlines()) == 1
    found = json.loads(text)
    assert (found["message"], found["level"], found["logger"]) == (f"closing {EVIL}", "WARNING", "barnabas.http")


def test_an_exception_is_a_field_of_its_line() -> None:
    record = _record("it")
    try:
        raise ValueError(EVIL)
    except ValueError:
        record.exc_info = sys.exc_info()
    text = JsonLines().format(record)
    assert len(text.splitlines()) == 1
    assert "ValueError" in json.loads(text)["exception"]


def test_levels_are_set_for_parts_of_the_node() -> None:
    config = BrokerConfig.from_properties({"log.levels": "barnabas.test_part=DEBUG", "log.format": "json"})
    assert config.logging.log_format == "json"
    set_levels({"barnabas.test_part": "DEBUG"})
    assert logging.getLogger("barnabas.test_part").level == logging.DEBUG
    logging.getLogger("barnabas.test_part").setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.levels", "barnabas.http"),
        ("log.levels", "barnabas=LOUD"),
        ("log.levels", "uvicorn=INFO"),
        ("log.format", "xml"),
    ],
)
def test_what_is_no_level_or_format_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidSetting):
        BrokerConfig.from_properties({name: value})
