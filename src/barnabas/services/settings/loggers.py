"""The loggers of this process: their levels, and setting them while the node runs.

Listed are the broker's own, ``barnabas`` and those below it, and the root of all, which Kafka calls ``root``. Levels
have the names that Kafka gives them. As in Kafka they are not stored: a restart resets them.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.core.errors import InvalidConfig, InvalidRequest
from barnabas.runtime.log_lines import get_logger
from barnabas.services.settings import AlterOperation, ConfigSource, DescribedSetting, SettingChange, SettingType

log = get_logger("barnabas.settings")

ROOT: Final = "root"
OWN: Final = "barnabas"
TRACE: Final = 5
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
"""The levels by their names, the most severe first."""


def describe_loggers() -> list[DescribedSetting]:
    """Every logger with its effective level, its own or that of the nearest parent that has one."""
    found = {name: logging.getLogger(name) for name in (OWN, *_names_below())}
    found[ROOT] = logging.getLogger()
    return [_described(name, found[name]) for name in sorted(found)]


def _names_below() -> list[str]:
    known = logging.root.manager.loggerDict.items()
    return [name for name, each in known if name.startswith(f"{OWN}.") and isinstance(each, logging.Logger)]


def _described(name: str, logger: logging.Logger) -> DescribedSetting:
    return DescribedSetting(
        name=name,
        value=_level_name(logger.getEffectiveLevel()),
        source=ConfigSource.DYNAMIC_BROKER_LOGGER,
        is_sensitive=False,
        is_read_only=False,
        synonyms=[],
        type=SettingType.UNKNOWN,
        doc=None,
    )


def _level_name(level: int) -> str:
    return next((name for name, number in LEVELS.items() if level >= number), "TRACE")


def set_levels(levels: Mapping[str, str]) -> None:
    """Set the levels that a node starts with."""
    for name, level in levels.items():
        logging.getLogger(None if name == ROOT else name).setLevel(LEVELS[level])


def alter_loggers(changes: Sequence[SettingChange], *, validate_only: bool) -> None:
    """Set levels, or reset a logger to its parent's; nothing is changed if one of the changes is invalid."""
    known = {each.name for each in describe_loggers()}
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise InvalidRequest("a logger is given more than once")
    for change in changes:
        _check(change, known)
    if validate_only:
        return
    for change in changes:
        logger = logging.getLogger(None if change.name == ROOT else change.name)
        is_set = change.operation is AlterOperation.SET
        logger.setLevel(LEVELS[change.value or ""] if is_set else logging.NOTSET)
        log.warning("the level of the logger %s is %s now", change.name, _level_name(logger.getEffectiveLevel()))


def _check(change: SettingChange, known: set[str]) -> None:
    name = change.name
    if change.operation not in (AlterOperation.SET, AlterOperation.DELETE):
        raise InvalidRequest(f"{change.operation.name} is not allowed for a logger: its level is set or deleted")
    if change.operation is AlterOperation.SET and change.value is None:
        raise InvalidRequest(f"the level of {name} cannot be null; delete it to use that of its parent")
    if name not in known:
        raise InvalidConfig(f"Logger {name} does not exist!")
    if change.operation is AlterOperation.SET and change.value not in LEVELS:
        raise InvalidConfig(f"the level of {name} cannot be {change.value!r}; allowed: {', '.join(LEVELS)}")
    if change.operation is AlterOperation.DELETE and name == ROOT:
        raise InvalidRequest(f"the level of the {ROOT} logger cannot be deleted: it has no parent")
