"""The broker's own settings, under Kafka's names, checked when made. A field's Kafka name has dots for underscores.

`BrokerConfig` holds values. It reads no file, flag or environment: `barnabas.config.load` does, and hands over names
and texts (`BrokerConfig.from_properties`). What a broker sets as the default of a topic setting, as in
``log.retention.ms``, is in `topic_defaults` under the topic's name for it.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Self

import msgspec

from barnabas.services.catalogue.field import About, settings_of
from barnabas.services.catalogue.listener import Listener, parse_listeners, security_protocols
from barnabas.services.catalogue.not_ours import is_ignored, is_refused, known_names
from barnabas.services.catalogue.setting import (
    BrokerName,
    InvalidSetting,
    Setting,
    SettingType,
    split_list,
    unknown_setting,
    value_text,
)
from barnabas.services.catalogue.topic_settings import TOPIC_DEFAULT_SETTINGS, TOPIC_SETTINGS
from barnabas.services.group_settings import check_group_settings
from barnabas.services.unused_settings import UnusedSettings

BOOLEAN, INT, LIST, LONG, STRING = (
    SettingType.BOOLEAN,
    SettingType.INT,
    SettingType.LIST,
    SettingType.LONG,
    SettingType.STRING,
)
MIB: Final = 1024 * 1024
_UNSPECIFIED_HOSTS: Final = ("0.0.0.0", "::")


class BrokerConfig(UnusedSettings, frozen=True, kw_only=True):
    """The settings of one broker."""

    node_id: Annotated[
        int,
        About(
            INT,
            "The number of this node in its cluster. Also known as broker.id. Cannot change on existing data.",
            at_least=0,
        ),
    ] = 1
    broker_rack: Annotated[
        str | None,
        About(STRING, "Where this node stands, a rack or a zone: replicas of a partition are spread over them."),
    ] = None
    cluster_id: Annotated[
        str | None,
        About(STRING, "The cluster this node belongs to. Unset: made up once. Cannot change on existing data."),
    ] = None
    listeners: Annotated[
        tuple[Listener, ...],
        About(LIST, "The addresses to listen on, as NAME://host:port. No host is every address, port 0 any free port."),
    ] = (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    advertised_listeners: Annotated[
        tuple[Listener, ...],
        About(LIST, "The addresses that clients are told to connect to, by listener name. Unset: those listened on."),
    ] = ()
    log_dirs: Annotated[
        tuple[str, ...],
        About(LIST, "The directories that hold the data. Unset: one named barnabas in the user's data directory."),
    ] = ()

    num_partitions: Annotated[int, About(INT, "Partitions of a topic that does not say how many.", at_least=1)] = 1
    default_replication_factor: Annotated[
        int, About(INT, "Replicas of a topic that does not say how many.", at_least=1, at_most=2**15 - 1)
    ] = 1
    auto_create_topics_enable: Annotated[
        bool, About(BOOLEAN, "Whether a topic is created when a client asks for it.")
    ] = True
    max_auto_created_topics_per_request: Annotated[
        int,
        About(
            INT,
            "Barnabas only. How many topics that do not exist one request may have created by asking for them; the "
            "others are created when the client asks again, as clients do.",
            at_least=1,
        ),
    ] = 100
    max_new_partitions_per_request: Annotated[
        int,
        About(
            INT,
            "Barnabas only. How many partitions one request may create; one for more is refused as a whole. Kafka has "
            "this limit, too, and no setting for it.",
            at_least=1,
            at_most=100_000,
        ),
    ] = 10_000
    delete_topic_enable: Annotated[bool, About(BOOLEAN, "Whether topics can be deleted.")] = True
    internal_topics_alter_enable: Annotated[
        bool,
        About(
            BOOLEAN,
            "Barnabas only. Whether clients may delete the topics in which the broker keeps groups and transactions, "
            "give them more partitions, or a cleanup.policy other than compact. What is in them is lost then.",
        ),
    ] = False

    socket_request_max_bytes: Annotated[int, About(INT, "The largest request that is read.", at_least=1)] = 100 * MIB
    connection_max_bytes_in_flight: Annotated[
        int,
        About(
            LONG,
            "Barnabas only. A connection is read no further while its requests in work hold more than this; "
            "one request, however large, is always let through.",
            at_least=1,
        ),
    ] = 64 * MIB
    queued_max_request_bytes: Annotated[
        int, About(LONG, "No connection is read further while all requests in work hold more than this.", at_least=1)
    ] = 512 * MIB
    request_receive_timeout_ms: Annotated[
        int,
        About(
            INT,
            "Barnabas only. A request that has not come whole after this long is given up with its connection, unless "
            "it comes at 16 KiB a second or faster. While others wait for the room that it takes it has one second.",
            at_least=1,
        ),
    ] = 30_000
    queued_max_response_bytes: Annotated[
        int,
        About(
            LONG,
            "Barnabas only. The memory for answers that clients have not read, over all connections. When it is used "
            "up answers are sent in small pieces. -1: an eighth of the memory there is, at most 512 MiB.",
            at_least=-1,
        ),
    ] = -1
    response_send_timeout_ms: Annotated[
        int,
        About(
            INT,
            "Barnabas only. A connection that takes nothing of its answer for this long is closed; after a tenth of "
            "it, while queued.max.response.bytes is used up.",
            at_least=1,
        ),
    ] = 120_000
    max_connections: Annotated[
        int,
        About(
            INT,
            "How many clients may be connected; one more is closed at once. Fewer, with a line in the log, where the "
            "process may not open so many files.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = 10_000
    max_connections_per_ip: Annotated[
        int, About(INT, "How many of them may come from one address.", at_least=0, is_dynamic=True)
    ] = 2**31 - 1
    max_connections_per_ip_overrides: Annotated[
        tuple[str, ...],
        About(
            LIST,
            "Addresses that max.connections.per.ip is another number for, as in 10.0.0.7:200,10.0.0.8:5.",
            is_dynamic=True,
        ),
    ] = ()
    connections_max_idle_ms: Annotated[
        int, About(LONG, "A connection that is silent this long is closed.", at_least=1)
    ] = 600_000
    request_timeout_ms: Annotated[
        int, About(INT, "How long this broker waits for another to answer before it tries again.", at_least=1)
    ] = 30_000
    fetch_max_bytes: Annotated[
        int, About(INT, "The most bytes of records in one answer to a fetch.", at_least=1024)
    ] = 55 * MIB
    max_incremental_fetch_session_cache_slots: Annotated[
        int, About(INT, "How many fetch sessions are kept; a client without one sends full requests.", at_least=0)
    ] = 1000
    num_io_threads: Annotated[
        int, About(INT, "Threads that read from the disk.", at_least=1, at_most=1024, is_dynamic=True)
    ] = 4

    log_dir_reserve_bytes: Annotated[
        int,
        About(
            LONG,
            "Barnabas only. Clients' records are refused, with an error that they retry, while less than this is free "
            "in the data directory; what the broker writes for itself is not. 0 to fill it to the last byte.",
            at_least=0,
        ),
    ] = 64 * MIB
    log_retention_check_interval_ms: Annotated[
        int, About(LONG, "How often the logs are looked over for segments to delete.", at_least=1)
    ] = 300_000
    log_cleaner_enable: Annotated[bool, About(BOOLEAN, "Whether topics with the policy compact are compacted.")] = True
    log_cleaner_backoff_ms: Annotated[
        int, About(LONG, "How long compaction rests when there is nothing to compact.", at_least=0, is_dynamic=True)
    ] = 15_000
    log_scrub_bytes_per_second: Annotated[
        int,
        About(
            LONG,
            "Barnabas only. How fast the logs are read through in the background, to find damage before a consumer "
            "does; 0: not at all.",
            at_least=0,
            is_dynamic=True,
        ),
    ] = 4 * MIB
    log_scrub_interval_ms: Annotated[
        int,
        About(
            LONG,
            "Barnabas only. The logs are read through in the background once in this time, or as fast as they may be.",
            at_least=60_000,
            is_dynamic=True,
        ),
    ] = 86_400_000
    log_flush_offset_checkpoint_interval_ms: Annotated[
        int,
        About(INT, "How often it is noted up to where the logs are on disk; recovery starts from there.", at_least=1),
    ] = 60_000
    metadata_log_max_record_bytes_between_snapshots: Annotated[
        int, About(LONG, "Bytes of the metadata log after which a snapshot is taken of it.", at_least=1)
    ] = 20 * MIB
    producer_id_expiration_ms: Annotated[
        int, About(INT, "How long a silent idempotent producer is remembered.", at_least=1, is_dynamic=True)
    ] = 86_400_000

    topic_defaults: dict[str, str] = msgspec.field(default_factory=dict)
    """Values of topic settings, by the topic's names, where they differ from the catalogue's default."""
    given: dict[str, str] = msgspec.field(default_factory=dict)
    """The names and texts this was made from, as they were given. Empty if it was not made from any."""
    ignored: tuple[str, ...] = ()
    """The given names that mean nothing here."""

    def __post_init__(self) -> None:
        for name, setting in BROKER_SETTINGS.items():
            text = value_text(getattr(self, name.replace(".", "_")))
            if text is not None:
                setting.parse(text)
        _check_together(self)
        check_group_settings(self)
        for name, text in self.topic_defaults.items():
            if name not in TOPIC_SETTINGS:
                raise unknown_setting(name, TOPIC_SETTINGS, what="topic")
            TOPIC_SETTINGS[name].parse(text)

    @property
    def message_max_bytes(self) -> int:
        """The largest batch that a topic takes which does not say."""
        text = self.topic_defaults.get("max.message.bytes") or TOPIC_SETTINGS["max.message.bytes"].default
        assert text is not None
        return int(text)

    def advertised(self, name: str) -> Listener | None:
        """What clients of the listener of this name are told to connect to, if it was set."""
        return next((listener for listener in self.advertised_listeners if listener.name == name), None)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """The configuration that these names and texts say; an unknown or bad one is refused (`InvalidSetting`)."""
        ignored = [name for name, text in properties.items() if _check_name(name, text) and name not in _CONSULTED]
        ignored += [name for name in properties if name in BROKER_SETTINGS and not BROKER_SETTINGS[name].has_effect]
        fields: dict[str, Any] = {}
        for name, setting in BROKER_SETTINGS.items():
            text = _text_of(name, properties)
            if text is not None:
                fields[name.replace(".", "_")] = _PARSERS.get(name, setting.parse)(text)
        left_out = _without_controllers(fields, properties)
        return cls(
            **fields,
            topic_defaults=topic_defaults_of(properties),
            given=dict(properties),
            ignored=tuple(sorted(ignored + left_out)),
        )

    def with_dynamic(self, dynamic: Mapping[str, str]) -> Self:
        """This, with what was altered while running laid over what it started with; a bad value is refused.

        Names that cannot be altered, or that mean nothing, are passed over.
        """
        fields = {
            name.replace(".", "_"): BROKER_SETTINGS[name].parse(text)
            for name, text in dynamic.items()
            if name in BROKER_SETTINGS and not BROKER_SETTINGS[name].is_read_only
        }
        defaults = {**self.topic_defaults, **topic_defaults_of(dynamic)}
        return msgspec.structs.replace(self, topic_defaults=defaults, **fields)


BROKER_SETTINGS: Final[Mapping[str, Setting]] = settings_of(BrokerConfig)
"""The broker's settings that are fields of `BrokerConfig`, by name."""

ALIASES: Final[Mapping[str, str]] = {"node.id": "broker.id", "log.dirs": "log.dir"}
"""Older names, each by the one that is used if both are given."""

_NAMES_OF_ONE: Final = (
    *ALIASES.items(),
    *(tuple(name.name for name in setting.broker_names) for setting in TOPIC_SETTINGS.values()),
)
_RIVALS: Final[Mapping[str, tuple[str, ...]]] = {name: names for names in _NAMES_OF_ONE for name in names}

_CONSULTED: Final = ("controller.listener.names", "listener.security.protocol.map")
"""Read together with the listeners, but no settings of their own."""

_PARSERS: Final = {
    "listeners": lambda text: parse_listeners("listeners", text),
    "advertised.listeners": lambda text: parse_listeners("advertised.listeners", text),
}


def known_broker_names() -> list[str]:
    """Every exact name that a broker's configuration may hold, in order."""
    return sorted({*BROKER_SETTINGS, *ALIASES.values(), *TOPIC_DEFAULT_SETTINGS, *known_names()})


def rivals(name: str) -> tuple[str, ...]:
    """All names that set the same thing as this one, itself among them."""
    return _RIVALS.get(name, (name,))


def topic_defaults_of(properties: Mapping[str, str]) -> dict[str, str]:
    """The values of topic settings, by their topic names, that these broker names and texts say."""
    defaults: dict[str, str] = {}
    for setting in TOPIC_SETTINGS.values():
        name = next((name for name in setting.broker_names if name.name in properties), None)
        if name is not None:
            defaults[setting.name] = _topic_text(setting, name, properties[name.name])
    return defaults


def _topic_text(setting: Setting, name: BrokerName, text: str) -> str:
    """A broker's text for the default of a topic setting, in the unit of the topic setting."""
    value = TOPIC_DEFAULT_SETTINGS[name.name].parse(text)
    if isinstance(value, int) and not isinstance(value, bool):
        value = value * name.factor_ms if setting.name != "retention.ms" else _retention_ms(name, value)
    topic_text = value_text(value)
    assert topic_text is not None
    try:
        setting.parse(topic_text)
    except InvalidSetting as refusal:
        raise InvalidSetting(name.name, f"{name.name} cannot be {text!r}: {refusal}") from None
    return topic_text


def _retention_ms(name: BrokerName, value: int) -> int:
    """The retention that a broker's value says: a negative one is forever, and none at all is refused, as in Kafka."""
    if value == 0:
        raise InvalidSetting(name.name, f"{name.name} cannot be 0; allowed: at least 1, or -1 to keep records forever")
    return -1 if value < 0 else value * name.factor_ms


def _check_name(name: str, text: str) -> bool:
    """True if a name is to be ignored, False if it is one of ours."""
    if name in BROKER_SETTINGS or name in TOPIC_DEFAULT_SETTINGS or name in ALIASES.values():
        return False
    if is_ignored(name, text):
        return True
    if is_refused(name):
        raise InvalidSetting(
            name, f"{name} is not supported, and ignoring it would promise what is not done: remove it"
        )
    raise unknown_setting(name, known_broker_names(), what="broker")


def _text_of(name: str, properties: Mapping[str, str]) -> str | None:
    text = properties.get(name)
    older = properties.get(ALIASES.get(name, name))
    if name == "node.id" and text is not None and older is not None and text.strip() != older.strip():
        raise InvalidSetting(
            name, f"node.id is {text} and broker.id is {older}: they are one setting, give one of them"
        )
    text = older if text is None else text
    is_unset = text is None or (not text.strip() and BROKER_SETTINGS[name].kind in (STRING, LIST))
    return None if is_unset else text


def _without_controllers(fields: dict[str, Any], properties: Mapping[str, str]) -> list[str]:
    """Drop the listeners that are for controllers only, refuse any that is not PLAINTEXT. Says what was dropped."""
    controllers = [name.upper() for name in split_list(properties.get("controller.listener.names", ""))]
    protocols = security_protocols(properties.get("listener.security.protocol.map", ""))
    dropped: list[str] = []
    for field in ("listeners", "advertised_listeners"):
        given: tuple[Listener, ...] = fields.get(field, ())
        kept = tuple(listener for listener in given if listener.name not in controllers)
        if kept != given:
            fields[field] = kept
            dropped += [f"{field.replace('_', '.')}={listener}" for listener in given if listener not in kept]
        for listener in kept:
            _check_protocol(field.replace("_", "."), listener, protocols)
    return dropped


def _check_protocol(setting: str, listener: Listener, protocols: Mapping[str, str]) -> None:
    protocol = protocols.get(listener.name)
    if protocol is None:
        raise InvalidSetting(setting, f"listener.security.protocol.map has no entry for the listener {listener.name}")
    if protocol != "PLAINTEXT":
        raise InvalidSetting(setting, f"the listener {listener} asks for {protocol}; only PLAINTEXT is supported")


def per_ip_overrides(config: BrokerConfig) -> dict[str, int]:
    """How many connections may come from addresses that are named."""
    if not config.max_connections_per_ip_overrides:
        return {}
    from ipaddress import ip_address  # noqa: PLC0415 - few name any

    found: dict[str, int] = {}
    for text in config.max_connections_per_ip_overrides:
        address, _, count = text.rpartition(":")
        try:
            found[str(ip_address(address.strip().strip("[]")))] = int(count)
        except ValueError:
            raise InvalidSetting(
                "max.connections.per.ip.overrides",
                f"max.connections.per.ip.overrides has {text!r}; allowed: an address and a number, as in 10.0.0.7:200",
            ) from None
    return found


def _check_together(config: BrokerConfig) -> None:
    if not config.listeners:
        raise InvalidSetting("listeners", "listeners must name at least one address for clients")
    if config.queued_max_request_bytes < config.socket_request_max_bytes:
        raise InvalidSetting(
            "queued.max.request.bytes",
            "queued.max.request.bytes must not be below socket.request.max.bytes, or no such request fits",
        )
    per_ip_overrides(config)
    names = {listener.name for listener in config.listeners}
    for listener in config.advertised_listeners:
        if listener.name not in names:
            raise InvalidSetting(
                "advertised.listeners", f"advertised.listeners has {listener}, which listeners does not"
            )
        if not listener.host or listener.host in _UNSPECIFIED_HOSTS:
            raise InvalidSetting(
                "advertised.listeners", f"advertised.listeners has {listener}, where no client can connect"
            )
