"""Loggers, as DescribeConfigs and IncrementalAlterConfigs know them (`kafka-configs --entity-type broker-loggers`)."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.services.broker import Broker
from barnabas.wire.apis import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, LIST_CONFIG_RESOURCES
from tests.unit.edge.kafka.support import ask, run

LOGGER = 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
NAME = "barnabas.connections"


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Levels are the process's: they are put back after each test."""
    loggers = [logging.getLogger(name) for name in (None, "barnabas", NAME)]
    before = [logger.level for logger in loggers]
    for logger, level in zip(loggers, (logging.WARNING, logging.NOTSET, logging.NOTSET), strict=True):
        logger.setLevel(level)
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


async def described(broker: Broker, *names: str) -> dict[str, Any]:
    wanted = {"resource_type": LOGGER, "resource_name": "1", "configuration_keys": names or None}
    (result,) = (await ask(broker, DESCRIBE_CONFIGS, 4, resources=[wanted], include_synonyms=True)).results
    assert result.error_code.value == 0
    return {each.name: each for each in result.configs}


async def alter(broker: Broker, *changes: tuple[str, str | None, int], node: str = "1", **more: Any) -> int:
    configs = [{"name": name, "value": value, "config_operation": operation} for name, value, operation in changes]
    resource = {"resource_type": LOGGER, "resource_name": node, "configs": configs}
    (answer,) = (await ask(broker, INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], **more)).responses
    assert (answer.error_message is None) is (answer.error_code.value == 0)
    return int(answer.error_code.value)


def test_the_brokers_loggers_are_listed_with_the_level_they_go_by() -> None:
    async def scenario(broker: Broker) -> None:
        logging.getLogger("somebody.elses")
        found = await described(broker)
        assert {"root", "barnabas", NAME, "barnabas.node"} <= set(found)
        assert all(name == "root" or name.split(".")[0] == "barnabas" for name in found)
        own = found[NAME]
        assert (own.value, own.config_source, own.read_only, own.is_sensitive) == ("WARN", 6, False, False)
        assert (own.synonyms, own.config_type, own.documentation) == ((), 0, None)
        assert set(await described(broker, "root")) == {"root"}

    run(scenario)


@pytest.mark.parametrize(
    ("name", "level"), [("FATAL", 50), ("ERROR", 40), ("WARN", 30), ("INFO", 20), ("DEBUG", 10), ("TRACE", 5)]
)
def test_a_level_is_set_and_reset_to_that_of_the_logger_above(name: str, level: int) -> None:
    async def scenario(broker: Broker) -> None:
        assert await alter(broker, (NAME, name, SET)) == 0
        assert logging.getLogger(NAME).level == level
        assert (await described(broker))[NAME].value == name
        assert await alter(broker, (NAME, None, DELETE), ("barnabas", "ERROR", SET)) == 0
        assert (await described(broker))[NAME].value == "ERROR"
        assert await alter(broker, ("barnabas", None, DELETE), ("root", name, SET)) == 0
        assert (await described(broker))[NAME].value == name

    run(scenario)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("barnabas.no.such", "INFO", SET), 40),
        (("somebody.elses", "INFO", SET), 40),
        (("barnabas.no.such", None, DELETE), 40),
        ((NAME, "LOUD", SET), 40),
        ((NAME, "info", SET), 40),
        ((NAME, None, SET), 42),
        ((NAME, "INFO", APPEND), 42),
        ((NAME, "INFO", SUBTRACT), 42),
        ((NAME, "INFO", 9), 42),
        (("root", None, DELETE), 42),
    ],
)
def test_a_change_that_cannot_be_made_changes_nothing(change: tuple[str, str | None, int], code: int) -> None:
    async def scenario(broker: Broker) -> None:
        assert await alter(broker, ("barnabas", "DEBUG", SET), change) == code
        assert logging.getLogger("barnabas").level == logging.NOTSET

    run(scenario)


def test_one_logger_twice_another_broker_and_a_trial_change_nothing() -> None:
    async def scenario(broker: Broker) -> None:
        assert await alter(broker, (NAME, "DEBUG", SET), (NAME, "INFO", SET)) == 42
        assert await alter(broker, (NAME, "DEBUG", SET), node="2") == 42
        assert await alter(broker, (NAME, "DEBUG", SET), node="") == 42
        assert await alter(broker, (NAME, "DEBUG", SET), validate_only=True) == 0
        assert logging.getLogger(NAME).level == logging.NOTSET

    run(scenario)


def test_all_of_them_cannot_be_replaced_as_in_kafka() -> None:
    async def scenario(broker: Broker) -> None:
        configs = [{"name": NAME, "value": "DEBUG"}]
        resource = {"resource_type": LOGGER, "resource_name": "1", "configs": configs}
        (answer,) = (await ask(broker, ALTER_CONFIGS, 2, resources=[resource])).responses
        assert answer.error_code.value == 42

    run(scenario)


def test_they_are_a_resource_that_has_settings() -> None:
    async def scenario(broker: Broker) -> None:
        answer = await ask(broker, LIST_CONFIG_RESOURCES, 1, resource_types=(LOGGER,))
        assert [(each.resource_type, each.resource_name) for each in answer.config_resources] == [(LOGGER, "1")]

    run(scenario)
