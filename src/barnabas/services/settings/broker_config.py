"""The broker's own settings, under Kafka's names, checked when made. A field's Kafka name has dots for underscores.

`BrokerConfig` holds values. It reads no file, flag or environment: `barnabas.config.load` does, and passes names and
texts (`BrokerConfig.from_properties`). The broker's default of a topic setting, as in ``log.retention.ms``, is in
`topic_defaults` under the topic's name for it. A default is defined where the value is used, if there is such a place,
and referred to here.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Self

import msgspec

from barnabas.runtime.connection_limits import ConnectionLimits
from barnabas.runtime.maintenance import MaintenanceConfig
from barnabas.runtime.metadata_log import MetadataLogConfig
from barnabas.services.settings.broker_checks import check_together
from barnabas.services.settings.broker_names import is_ignored_name, known_names_of, text_of
from barnabas.services.settings.catalogue.access_settings import AccessSettings
from barnabas.services.settings.catalogue.field import About, settings_of
from barnabas.services.settings.catalogue.group_settings import GroupSettings
from barnabas.services.settings.catalogue.grpc_settings import GrpcSettings
from barnabas.services.settings.catalogue.http_settings import HttpSettings
from barnabas.services.settings.catalogue.limit_settings import LimitSettings
from barnabas.services.settings.catalogue.listener import (
    PLAINTEXT,
    SASL_PLAINTEXT,
    SASL_SSL,
    SSL,
    Listener,
    parse_listeners,
    protocols_of,
)
from barnabas.services.settings.catalogue.logging_settings import LoggingSettings
from barnabas.services.settings.catalogue.quorum_settings import QuorumSettings
from barnabas.services.settings.catalogue.quota_settings import QuotaSettings
from barnabas.services.settings.catalogue.replica_settings import ReplicaSettings
from barnabas.services.settings.catalogue.security_settings import SecuritySettings
from barnabas.services.settings.catalogue.setting import (
    Secret,
    Setting,
    SettingType,
    unknown_setting,
    value_text,
)
from barnabas.services.settings.catalogue.share_settings import ShareSettings
from barnabas.services.settings.catalogue.topic_defaults import topic_defaults_of
from barnabas.services.settings.catalogue.topic_settings import TOPIC_SETTINGS
from barnabas.services.settings.catalogue.transaction_settings import TransactionSettings
from barnabas.services.settings.catalogue.unused_settings import UnusedSettings
from barnabas.services.settings.listener_settings import (
    LISTENER_PREFIX,
    check_listeners_exist,
    inter_broker_listener,
    is_secret,
    listener_settings,
    security_of,
)

BOOLEAN, INT, LIST, LONG, STRING = (
    SettingType.BOOLEAN,
    SettingType.INT,
    SettingType.LIST,
    SettingType.LONG,
    SettingType.STRING,
)
MIB: Final = 1024 * 1024
LIMITS: Final = ConnectionLimits()
MAINTENANCE: Final = MaintenanceConfig()


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one broker. Those of a service are a separate struct."""

    node_id: Annotated[
        int,
        About(
            INT,
            "The id of this node in its cluster, also known as broker.id. Cannot be changed on existing data.",
            at_least=0,
        ),
    ] = 1
    broker_rack: Annotated[
        str | None,
        About(STRING, "The rack or zone of this node. The replicas of a partition are spread over racks."),
    ] = None
    cluster_id: Annotated[
        str | None,
        About(
            STRING, "The id of the cluster. Unset: generated at the first start. Cannot be changed on existing data."
        ),
    ] = None
    listeners: Annotated[
        tuple[Listener, ...],
        About(
            LIST,
            "The addresses to listen on, as NAME://host:port. Without a host: every address. Port 0: any free port.",
        ),
    ] = (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    advertised_listeners: Annotated[
        tuple[Listener, ...],
        About(
            LIST,
            "The addresses that clients are told to connect to, by listener name. Unset: those listened on. It must "
            "be set for a listener without a host, which is on every address of the machine.",
        ),
    ] = ()
    log_dirs: Annotated[
        tuple[str, ...],
        About(LIST, "The directories that hold the data. Unset: one named barnabas in the user's data directory."),
    ] = ()

    num_partitions: Annotated[
        int, About(INT, "The number of partitions of a new topic, unless the request says another.", at_least=1)
    ] = 1
    default_replication_factor: Annotated[
        int,
        About(
            INT,
            "The replication factor of a new topic, unless the request says another.",
            at_least=1,
            at_most=2**15 - 1,
        ),
    ] = 1
    auto_create_topics_enable: Annotated[
        bool, About(BOOLEAN, "Whether a topic that does not exist is created when a client asks for it.")
    ] = True
    max_auto_created_topics_per_request: Annotated[
        int,
        About(
            INT,
            "Barnabas only. The most topics that one request creates by asking for topics that do not exist; the "
            "others are created when the client asks again, as clients do.",
            at_least=1,
        ),
    ] = 100
    max_new_partitions_per_request: Annotated[
        int,
        About(
            INT,
            "Barnabas only. The most partitions that one request may create; a request for more is refused as a whole. "
            "Kafka has this limit, too, but no setting for it.",
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
            "add partitions to them, or set a cleanup.policy other than compact. Their contents are lost then.",
        ),
    ] = False

    socket_request_max_bytes: Annotated[int, About(INT, "The largest request that is accepted.", at_least=1)] = (
        LIMITS.max_frame_bytes
    )
    socket_send_buffer_bytes: Annotated[
        int,
        About(
            INT,
            "The size of the send buffer of each connection. -1, the default here: the operating system chooses it "
            "as the client reads.",
            at_least=-1,
        ),
    ] = LIMITS.send_buffer_bytes
    socket_receive_buffer_bytes: Annotated[
        int,
        About(
            INT,
            "The size of the receive buffer of each connection. -1, the default here: the operating system chooses it "
            "as the client sends.",
            at_least=-1,
        ),
    ] = LIMITS.receive_buffer_bytes
    connection_max_bytes_in_flight: Annotated[
        int,
        About(
            LONG,
            "Barnabas only. Nothing more is read from a connection while its requests in progress hold more "
            "than this. One request, however large, is always accepted.",
            at_least=1,
        ),
    ] = LIMITS.max_in_flight_bytes
    queued_max_request_bytes: Annotated[
        int,
        About(
            LONG,
            "Nothing more is read from any connection while all requests in progress hold more than this.",
            at_least=1,
        ),
    ] = LIMITS.max_queued_bytes
    request_receive_timeout_ms: Annotated[
        int,
        About(
            INT,
            "Barnabas only. A connection whose request has not arrived completely after this long is closed, unless it "
            "arrives at 16 KiB a second or faster. While others wait for the memory it takes, it has one second.",
            at_least=1,
        ),
    ] = _ms(LIMITS.max_frame_s)
    queued_max_response_bytes: Annotated[
        int,
        About(
            LONG,
            "Barnabas only. The memory for responses that clients have not read, over all connections. When it is used "
            "up, responses are sent in small pieces. -1: an eighth of the machine's memory, at most 512 MiB.",
            at_least=-1,
        ),
    ] = -1
    response_send_timeout_ms: Annotated[
        int,
        About(
            INT,
            "Barnabas only. A connection that reads nothing of its response for this long is closed; after a tenth of "
            "that time while queued.max.response.bytes is used up.",
            at_least=1,
        ),
    ] = _ms(LIMITS.max_unread_s)
    max_connections: Annotated[
        int,
        About(
            INT,
            "The most connections; any more are closed at once. Lowered, with a line in the log, where the process "
            "may not open that many files.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = LIMITS.max_connections
    max_connections_per_ip: Annotated[
        int, About(INT, "The most connections from one IP address.", at_least=0, is_dynamic=True)
    ] = LIMITS.max_connections_per_ip
    max_connections_per_ip_overrides: Annotated[
        tuple[str, ...],
        About(
            LIST,
            "Other values of max.connections.per.ip for single addresses, as in 10.0.0.7:200,10.0.0.8:5.",
            is_dynamic=True,
        ),
    ] = ()
    connections_max_idle_ms: Annotated[
        int, About(LONG, "A connection that is idle for this long is closed.", at_least=1)
    ] = _ms(LIMITS.max_idle_s)
    request_timeout_ms: Annotated[
        int, About(INT, "How long this broker waits for a response of another before it retries.", at_least=1)
    ] = 30_000
    fetch_max_bytes: Annotated[int, About(INT, "The most bytes of records in one fetch response.", at_least=1024)] = (
        55 * MIB
    )
    max_incremental_fetch_session_cache_slots: Annotated[
        int,
        About(
            INT,
            "The most incremental fetch sessions that are kept; a client without one sends full requests.",
            at_least=0,
        ),
    ] = 1000
    num_io_threads: Annotated[
        int, About(INT, "Threads that read from the disk.", at_least=1, at_most=1024, is_dynamic=True)
    ] = 4

    log_dir_reserve_bytes: Annotated[
        int,
        About(
            LONG,
            "Barnabas only. While less than this is free in the data directory, clients' records are refused with an "
            "error that clients retry; what the broker writes for itself is not. 0: fill it to the last byte.",
            at_least=0,
        ),
    ] = 64 * MIB
    log_retention_check_interval_ms: Annotated[
        int, About(LONG, "How often the logs are checked for segments to delete.", at_least=1)
    ] = MAINTENANCE.retention_check_interval_ms
    log_cleaner_enable: Annotated[bool, About(BOOLEAN, "Whether topics with the policy compact are compacted.")] = (
        MAINTENANCE.cleaner_enable
    )
    log_cleaner_backoff_ms: Annotated[
        int, About(LONG, "How long compaction pauses when there is nothing to compact.", at_least=0, is_dynamic=True)
    ] = MAINTENANCE.cleaner_backoff_ms
    log_scrub_bytes_per_second: Annotated[
        int,
        About(
            LONG,
            "Barnabas only. How fast the logs are read through in the background, to find damage before a consumer "
            "does; each record batch counts for 1 kB more than it has. 0: not at all.",
            at_least=0,
            is_dynamic=True,
        ),
    ] = MAINTENANCE.scrub_bytes_per_second
    log_scrub_interval_ms: Annotated[
        int,
        About(
            LONG,
            "Barnabas only. The logs are read through in the background once in this time, or as fast as they may be.",
            at_least=60_000,
            is_dynamic=True,
        ),
    ] = MAINTENANCE.scrub_interval_ms
    log_flush_offset_checkpoint_interval_ms: Annotated[
        int,
        About(INT, "How often the recovery points are written: the offsets from which recovery starts.", at_least=1),
    ] = MAINTENANCE.checkpoint_interval_ms
    metadata_log_max_record_bytes_between_snapshots: Annotated[
        int, About(LONG, "Bytes of metadata log after which a snapshot is taken.", at_least=1)
    ] = MetadataLogConfig().max_record_bytes_between_snapshots
    producer_id_expiration_ms: Annotated[
        int,
        About(
            INT,
            "How long the state of an idempotent producer is kept after its last batch.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = MAINTENANCE.producer_id_expiration_ms

    access: AccessSettings = AccessSettings()
    groups: GroupSettings = GroupSettings()
    grpc: GrpcSettings = GrpcSettings()
    http: HttpSettings = HttpSettings()
    limits: LimitSettings = LimitSettings()
    logging: LoggingSettings = LoggingSettings()
    quorum: QuorumSettings = QuorumSettings()
    quotas: QuotaSettings = QuotaSettings()
    replicas: ReplicaSettings = ReplicaSettings()
    security: SecuritySettings = SecuritySettings()
    shares: ShareSettings = ShareSettings()
    transactions: TransactionSettings = TransactionSettings()
    unused: UnusedSettings = UnusedSettings()

    topic_defaults: dict[str, str] = msgspec.field(default_factory=dict)
    """Values of topic settings, by the topic's names, where they differ from the catalogue's default."""
    protocols: dict[str, str] = msgspec.field(default_factory=dict)
    """The security protocol of each listener that is not PLAINTEXT."""
    of_listeners: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    """Settings of single listeners, as given, by their names in lower case."""
    given: dict[str, str] = msgspec.field(default_factory=dict)
    """The names and texts this was made from, as given. Empty if it was not made from any."""
    ignored: tuple[str, ...] = ()
    """The given names that are ignored."""

    def __post_init__(self) -> None:
        for name, setting in BROKER_SETTINGS.items():
            text = value_text(self.value_of(name))
            if text is not None:
                setting.parse(text)
        check_together(self)
        for listener in self.listeners:
            self.security_of(listener.name)
        for name, text in self.topic_defaults.items():
            if name not in TOPIC_SETTINGS:
                raise unknown_setting(name, TOPIC_SETTINGS, what="topic")
            TOPIC_SETTINGS[name].parse(text)

    def value_of(self, name: str) -> object:
        """The value of the broker setting of this name."""
        part, field = _PLACES[name]
        return getattr(self if part is None else getattr(self, part), field)

    @property
    def message_max_bytes(self) -> int:
        """The largest batch of a topic that does not set it."""
        text = self.topic_defaults.get("max.message.bytes") or TOPIC_SETTINGS["max.message.bytes"].default
        assert text is not None
        return int(text)

    def advertised(self, name: str) -> Listener | None:
        """The advertised listener of this name, if it was set."""
        return next((listener for listener in self.advertised_listeners if listener.name == name), None)

    @property
    def client_listeners(self) -> tuple[Listener, ...]:
        """The listeners for clients and brokers."""
        return tuple(listener for listener in self.listeners if not self.is_for_controllers(listener.name))

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners for controllers, the one that other nodes are told of first."""
        by_name = {listener.name: listener for listener in self.listeners}
        names = (name.upper() for name in self.quorum.controller_listener_names)
        return tuple(by_name[name] for name in names if name in by_name)

    def is_for_controllers(self, name: str) -> bool:
        """Whether the listener of this name is for controllers."""
        return name in [each.upper() for each in self.quorum.controller_listener_names]

    def protocol_of(self, listener: str) -> str:
        """The security protocol of a listener."""
        return self.protocols.get(listener, PLAINTEXT)

    def asks_clients(self, listener: str) -> bool:
        """Whether all clients of a listener have to say who they are."""
        protocol = self.protocol_of(listener)
        if protocol == SSL:
            return self.security_of(listener).ssl_client_auth == "required"
        return protocol in (SASL_PLAINTEXT, SASL_SSL)

    def security_of(self, listener: str, mechanism: str | None = None) -> SecuritySettings:
        """The security settings of a listener, for a mechanism of SASL: its own over those of all."""
        return security_of(self.security, self.of_listeners.get(listener.lower(), {}), mechanism)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """The configuration from these names and texts; an unknown or invalid one is refused (`InvalidSetting`)."""
        of_listeners = listener_settings(properties)
        ignored = [
            name
            for name, text in properties.items()
            if not name.startswith(LISTENER_PREFIX)
            and is_ignored_name(name, text, BROKER_SETTINGS)
            and name not in _CONSULTED
        ]
        ignored += [name for name in properties if name in BROKER_SETTINGS and not BROKER_SETTINGS[name].has_effect]
        values: dict[str, object] = {}
        for name, setting in BROKER_SETTINGS.items():
            text = text_of(setting, properties)
            if text is not None:
                values[name] = parse_listeners(name, text) if name in _LISTENERS else setting.parse(text)
        protocols = protocols_of(values, properties)
        check_listeners_exist(of_listeners, protocols)
        inter_broker = inter_broker_listener(properties, protocols)
        if inter_broker is not None:
            values.setdefault("inter.broker.listener.name", inter_broker)
        return cls(
            **_fields_of(values, _DEFAULTS),
            topic_defaults=topic_defaults_of(properties),
            protocols={name: protocol for name, protocol in protocols.items() if protocol != PLAINTEXT},
            of_listeners=of_listeners,
            given={name: Secret(text) if is_secret(name) else text for name, text in properties.items()},
            ignored=tuple(sorted(ignored)),
        )

    def with_dynamic(self, dynamic: Mapping[str, str]) -> Self:
        """This configuration with dynamic settings on top; an invalid value is refused.

        Names that are not dynamic, or have no effect, are ignored.
        """
        values: dict[str, object] = {
            name: BROKER_SETTINGS[name].parse(text)
            for name, text in dynamic.items()
            if name in BROKER_SETTINGS and not BROKER_SETTINGS[name].is_read_only
        }
        defaults = {**self.topic_defaults, **topic_defaults_of(dynamic)}
        return msgspec.structs.replace(self, topic_defaults=defaults, **_fields_of(values, self))


_PARTS: Final[Mapping[str, Mapping[str, Setting]]] = {
    "access": settings_of(AccessSettings),
    "groups": settings_of(GroupSettings),
    "grpc": settings_of(GrpcSettings),
    "http": settings_of(HttpSettings),
    "limits": settings_of(LimitSettings),
    "logging": settings_of(LoggingSettings),
    "quorum": settings_of(QuorumSettings),
    "quotas": settings_of(QuotaSettings),
    "replicas": settings_of(ReplicaSettings),
    "security": settings_of(SecuritySettings),
    "shares": settings_of(ShareSettings),
    "transactions": settings_of(TransactionSettings),
    "unused": settings_of(UnusedSettings),
}
_PART_OF: Final[Mapping[str, str]] = {name: part for part, settings in _PARTS.items() for name in settings}

BROKER_SETTINGS: Final[Mapping[str, Setting]] = {
    setting.name: setting
    for setting in sorted(
        (setting for part in (settings_of(BrokerConfig), *_PARTS.values()) for setting in part.values()),
        key=lambda setting: setting.name,
    )
}
"""The settings that are fields of `BrokerConfig` and of its parts, by name."""

_PLACES: Final[Mapping[str, tuple[str | None, str]]] = {
    name: (_PART_OF.get(name), name.replace(".", "_")) for name in BROKER_SETTINGS
}
"""The part of a `BrokerConfig` that a setting is a field of, and the name of that field."""

_CONSULTED: Final = ("listener.security.protocol.map", "security.inter.broker.protocol")
"""Read together with the listeners, but not settings themselves."""
_LISTENERS: Final = ("listeners", "advertised.listeners")


def _field(name: str) -> str:
    return name.replace(".", "_")


def _fields_of(values: Mapping[str, object], base: BrokerConfig) -> dict[str, Any]:
    """Values by the names of their settings as fields of a `BrokerConfig`; its parts are those of `base` otherwise."""
    fields: dict[str, Any] = {_field(name): value for name, value in values.items() if name not in _PART_OF}
    for part in _PARTS:
        of_part = {_field(name): value for name, value in values.items() if _PART_OF.get(name) == part}
        fields[part] = msgspec.structs.replace(getattr(base, part), **of_part)
    return fields


def known_broker_names() -> list[str]:
    """Every exact name that a broker's configuration may hold, in order."""
    return known_names_of(BROKER_SETTINGS)


_DEFAULTS: Final = BrokerConfig()
