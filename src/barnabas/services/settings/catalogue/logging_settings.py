"""The broker's settings of its own log lines: a part of `BrokerConfig`. Kafka has them in a file of Log4j."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from barnabas.services.settings.catalogue.field import About
from barnabas.services.settings.catalogue.setting import InvalidSetting, SettingType

LIST, STRING = SettingType.LIST, SettingType.STRING
JSON: Final = "json"
LEVEL_NAMES: Final = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")


class LoggingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a node that is a process of its own writes its log."""

    log_format: Annotated[
        str,
        About(
            STRING,
            "Barnabas only. How the lines of the log look: text, or json with one object in a line.",
            choices=("text", JSON),
        ),
    ] = "text"
    log_levels: Annotated[
        tuple[str, ...],
        About(
            LIST,
            "Barnabas only. The levels of parts of the node, as in barnabas.http=DEBUG or root=INFO; of all others "
            "it is WARN. They can be altered while the node runs, as Kafka's tools do it (broker-loggers).",
        ),
    ] = ()


def parse_levels(texts: Sequence[str]) -> dict[str, str]:
    """The level of each logger that is named."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, level = (part.strip() for part in text.partition("="))
        if not equals or level.upper() not in LEVEL_NAMES or not (name == "root" or name.split(".")[0] == "barnabas"):
            raise InvalidSetting(
                "log.levels",
                f"log.levels has {text!r}; allowed: root or a name that begins with barnabas, = and one of "
                f"{', '.join(LEVEL_NAMES)}",
            )
        found[name] = level.upper()
    return found
