"""The reference page of all settings, docs/configuration.md, written from the catalogue."""

from collections.abc import Iterable
from typing import Final

from barnabas.services.settings.broker_config import BROKER_SETTINGS
from barnabas.services.settings.broker_names import ALIASES
from barnabas.services.settings.catalogue.group_settings import GROUP_SETTINGS
from barnabas.services.settings.catalogue.not_ours import known_names
from barnabas.services.settings.catalogue.setting import BrokerName, Setting
from barnabas.services.settings.catalogue.topic_settings import TOPIC_SETTINGS

_HEAD: Final = """\
# Configuration

<!-- Written by `make docs` from the code. Do not edit this page: edit src/barnabas/services/settings. -->

Names, types and defaults are Kafka's, except where the text says "Barnabas only" and for `flush.policy`: an
acknowledged write is on disk here. A broker's setting can be given, the first of these counting most,

1. with a flag: `barnabas serve --set log.retention.ms=3600000`;
2. in the environment: `BARNABAS_LOG_RETENTION_MS=3600000`, the name in capitals with underscores for dots;
3. in a file: TOML (`log.retention.ms = 3600000`, or tables, in a file ending in `.toml`), or a Java properties file
   such as Kafka's `server.properties` (any other ending).

An unknown name is refused. A topic's settings are given when the topic is created, and can be altered at any time.
Where a topic does not set one, the broker's setting named beside it applies; of several, the first that is set.
"""

_GROUPS: Final = """\
For consumer groups (KIP-848), altered while they are used, or before. Values must lie within the bounds that the broker
sets (`group.consumer.min.session.timeout.ms` and so on). Where a group does not set one, the broker's own applies.
"""

_TAIL: Final = """\
## Names of Kafka without a meaning here

Accepted and ignored, so that Kafka's own files can be used; the log names those it finds. Where one promises
protection (quotas, policies, tiered storage) only the value that asks for none
is ignored, and `delegation.token.*` and what is not supported of `ssl.*` and `sasl.*` are refused. `zookeeper.*` and
`confluent.*` are ignored. Settings of TLS and SASL can be set for one listener: `listener.name.<listener>.<setting>`,
and for one mechanism of it: `listener.name.<listener>.<mechanism>.<setting>`, in lower case.
"""


def render_reference() -> str:
    """The page, as Markdown."""
    names = ", ".join(f"`{name}`" for name in known_names())
    topic_rows = (_topic_row(setting) for setting in TOPIC_SETTINGS.values())
    group_rows = (_group_row(setting) for setting in GROUP_SETTINGS.values())
    broker_rows = (_broker_row(setting) for setting in BROKER_SETTINGS.values())
    return "\n".join(
        [
            _HEAD,
            "## Settings of a topic\n",
            _table(("setting", "default", "allowed", "set by the broker as", "meaning"), topic_rows),
            "\n## Settings of a group\n",
            _GROUPS,
            _table(("setting", "allowed", "set by the broker as", "meaning"), group_rows),
            "\n## Settings of a broker\n",
            _table(("setting", "default", "allowed", "meaning"), broker_rows),
            "",
            _TAIL,
            f"{names}\n",
        ]
    )


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _topic_row(setting: Setting) -> tuple[str, ...]:
    names = ", ".join(_broker_name(name) for name in setting.broker_names)
    return (f"`{setting.name}`", _default(setting), setting.allowed, names, setting.doc)


def _group_row(setting: Setting) -> tuple[str, ...]:
    names = ", ".join(_broker_name(name) for name in setting.broker_names)
    return (f"`{setting.name}`", setting.allowed, names, setting.doc)


def _broker_row(setting: Setting) -> tuple[str, ...]:
    doc = setting.doc if setting.has_effect else f"{setting.doc} No effect yet."
    doc = doc if setting.is_read_only else f"{doc} Can be altered on a running broker."
    older = f" ({ALIASES[setting.name]})" if setting.name in ALIASES else ""
    return (f"`{setting.name}`{older}", _default(setting), setting.allowed, doc)


def _broker_name(name: BrokerName) -> str:
    return f"`{name.name}`"


def _default(setting: Setting) -> str:
    if setting.default is None:
        return "unset"
    return f"`{setting.default}`" if setting.default else "empty"
