"""The options of a write, checked when the query is made: the names are those of Spark's Kafka sink, and a few more.

| option | meaning | default |
|---|---|---|
| `kafka.bootstrap.servers`, short `bootstrap` | brokers to ask first, `host:port,...` | required |
| `topic` | where all rows go; wins over a column `topic` | that column |
| `exactlyOnce` | a batch is published whole or not at all, once; `false`: at least once, and a little faster | true |
| `transactionTimeout` | how long a batch may take; readers wait as long for what a crash left open | 15m |
| `transactionPrefix` | begins the names of transactional ids and of the group that keeps the progress | spark-sink- |
| `progressTopic` | an empty topic of 50 partitions that the progress is kept for, made if missing | see below |
| `txnAppId`, `txnVersion` | a batch write of these is published once to a topic, however often it is made | none |
| `kafka.default.api.timeout.ms` | how long an unreachable cluster is tried at first | 15000 |
| `kafka.compression.type`, `kafka.compression.level` | of batches: `none`, `gzip`, `snappy`, `lz4`, `zstd` | none |
| `kafka.batch.size` | the most bytes of a batch, before compression | 1000000 |
| `kafka.delivery.timeout.ms` | how long a batch is tried to be sent | 120000 |
| `kafka.request.timeout.ms` | how long a leader may wait for its followers | 30000 |
| `kafka.security.protocol`, `kafka.sasl.*`, `kafka.ssl.*` | as in librdkafka | plaintext |
| `kafka.*` | other settings of a librdkafka producer are accepted and have no effect | |

`progressTopic` is `barnabas-spark-progress` by default. `txnAppId` and `txnVersion` are for `foreachBatch`, where
Spark itself does not say which write is which: a name for the write, and the batch id.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias

from barnabas.client.settings import Settings, parse_bootstrap
from barnabas.core.errors import InvalidConfig
from barnabas.core.records.batch import Codec
from barnabas.core.records.compression import check_level
from barnabas.spark.source.option_values import OptionText
from barnabas.spark.source.refusals import InvalidOption

Mode: TypeAlias = Literal["batch", "stream"]

_KAFKA: Final = "kafka."
_BOOTSTRAP: Final = "kafka.bootstrap.servers"
_BOOTSTRAP_SHORT: Final = "bootstrap"
_EXACTLY_ONCE: Final = "exactlyOnce"
_TIMEOUT: Final = "transactionTimeout"
_PREFIX: Final = "transactionPrefix"
_PROGRESS: Final = "progressTopic"
_APP_ID: Final = "txnAppId"
_VERSION: Final = "txnVersion"
_BOTH: Final = (_BOOTSTRAP, _BOOTSTRAP_SHORT, "topic", _EXACTLY_ONCE, _TIMEOUT, _PREFIX, _PROGRESS)
_BATCH_ONLY: Final = (_APP_ID, _VERSION)
_SPARKS_OWN: Final = ("checkpointLocation", "queryName")  # Spark hands its own options of a stream on to the sink
_TRANSACTIONAL: Final = (_TIMEOUT, _PREFIX, _PROGRESS, _APP_ID, _VERSION)  # without a meaning at least once
_OURS: Final = ("bootstrap.servers", "client.id", "default.api.timeout.ms")
# Settings that decide whether a record is published once, and what to say instead of them.
_NOT_FOR_USERS: Final = {
    "transactional.id": f"see {_PREFIX!r}",
    "transaction.timeout.ms": f"see {_TIMEOUT!r}",
    "enable.idempotence": "it is always on",
    "partitioner": "keys go where every other client puts them; a column 'partition' says otherwise",
    "acks": "a record is acknowledged by all in-sync replicas",
    "delivery.report.only.error": "it is always on",
    "interceptor.classes": "there are none",
    "key.serializer": "give the columns as they are to be sent",
    "value.serializer": "give the columns as they are to be sent",
}
_CLIENT_ID: Final = "barnabas-spark"
_FIRST_CONTACT_MS: Final = 15_000
_BATCH_BYTES: Final = 1_000_000  # a broker takes 1048588 unless it is told otherwise
_DELIVERY_MS: Final = 120_000
_ACK_MS: Final = 30_000
_TIMEOUT_MS: Final = 15 * 60 * 1000  # what clusters allow unless they are told otherwise
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class IdempotentWrite:
    """A batch write by the name and number that the user gave it."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Batching:
    """How records are put together and sent."""

    batch_bytes: int
    codec: Codec
    level: int | None
    delivery_s: float
    ack_timeout_ms: int


@dataclass(frozen=True, slots=True)
class WriteOptions:
    settings: Settings
    batching: Batching
    topic: str | None
    is_exactly_once: bool
    transaction_timeout_ms: int
    prefix: str
    progress_topic: str
    contact_s: float
    named: IdempotentWrite | None = None
    checkpoint: str | None = None  # of a stream, where the option says so
    is_stream: bool = False

    @property
    def is_tracked(self) -> bool:
        """Whether what was published is written down: a stream, or a batch write that has a name, is run again."""
        return self.is_exactly_once and (self.is_stream or self.named is not None)

    @property
    def is_known_by_rows(self) -> bool:
        """Whether it takes the rows to tell one write from another; the offsets that a stream reads do as well."""
        return self.named is not None and self.checkpoint is None

    @property
    def sink(self) -> str:
        """Where rows go: a topic, or nothing where a column of theirs says."""
        return self.topic or ""


def parse_options(given: Mapping[str, str], mode: Mode) -> WriteOptions:
    """The options of a write; anything that is not understood is refused."""
    _check_names(given, mode)
    text = OptionText(given)
    is_exactly_once = text.flag(_EXACTLY_ONCE, default=True)
    if not is_exactly_once:
        for option in _TRANSACTIONAL:
            if text.text(option) is not None:
                raise InvalidOption(f"option {option!r} is for exactly once, and {_EXACTLY_ONCE!r} is false")
    timeout_ms = text.duration_ms(_TIMEOUT, default_ms=_TIMEOUT_MS)
    if timeout_ms < 1000:
        raise InvalidOption(f"option {_TIMEOUT!r} is {text.text(_TIMEOUT)!r}; it is at least 1s")
    settings = _settings(given, text)
    return WriteOptions(
        settings=settings,
        batching=_batching(settings, timeout_ms),
        topic=_topic(text, "topic"),
        is_exactly_once=is_exactly_once,
        transaction_timeout_ms=timeout_ms,
        prefix=text.text(_PREFIX) or "spark-sink-",
        progress_topic=_topic(text, _PROGRESS) or "barnabas-spark-progress",
        contact_s=text.duration_ms(f"{_KAFKA}default.api.timeout.ms", default_ms=_FIRST_CONTACT_MS) / 1000,
        named=_named(text),
        checkpoint=text.text("checkpointLocation"),
        is_stream=mode == "stream",
    )


def _check_names(given: Mapping[str, str], mode: Mode) -> None:
    for option in _BATCH_ONLY:
        if mode == "stream" and option.lower() in {name.lower() for name in given}:
            raise InvalidOption(f"option {option!r} is for a batch write: a stream has an id and numbers of its own")
    known = {name.lower(): name for name in (*_BOTH, *_BATCH_ONLY, *_SPARKS_OWN)}
    for name in sorted(given):
        lower = name.lower()
        if lower in known or lower.startswith(_KAFKA):
            continue
        nearest = difflib.get_close_matches(lower, known, n=1)
        hint = f"; did you mean {known[nearest[0]]!r}?" if nearest else ""
        raise InvalidOption(f"unknown option {name!r}{hint}")


def _topic(text: OptionText, option: str) -> str | None:
    name = text.text(option)
    if name is not None and (not _TOPIC.fullmatch(name) or name in (".", "..")):
        raise InvalidOption(f"option {option!r} is {name!r}, which is not a valid topic name")
    return name


def _named(text: OptionText) -> IdempotentWrite | None:
    app_id, version = text.text(_APP_ID), text.number(_VERSION, lowest=0)
    if (app_id is None) != (version is None):
        raise InvalidOption(f"options {_APP_ID!r} and {_VERSION!r} go together: give both or none")
    if app_id is None or version is None:
        return None
    if not app_id.strip():
        raise InvalidOption(f"option {_APP_ID!r} is empty; it is a name for what is written")
    return IdempotentWrite(app_id, version)


def _settings(given: Mapping[str, str], text: OptionText) -> Settings:
    option = text.only_one_of((_BOOTSTRAP, _BOOTSTRAP_SHORT))
    if option is None:
        raise InvalidOption(f"option {_BOOTSTRAP!r} is missing; it names the brokers")
    bootstrap = text.text(option) or ""
    try:
        parse_bootstrap(bootstrap)
    except InvalidConfig as error:
        raise InvalidOption(f"option {option!r}: {error}") from None
    config = {}
    for name, value in given.items():
        setting = name[len(_KAFKA) :].lower()
        if not name.lower().startswith(_KAFKA) or setting in _OURS:
            continue
        if setting in _NOT_FOR_USERS:
            raise InvalidOption(f"option {name!r} cannot be set: {_NOT_FOR_USERS[setting]}")
        config[setting] = str(value)
    return Settings(bootstrap, text.text(f"{_KAFKA}client.id") or _CLIENT_ID, config)


def _batching(settings: Settings, transaction_timeout_ms: int) -> Batching:
    """The settings that librdkafka has for it; that it takes them has been checked."""
    settings.producer({}, {})
    config = settings.config
    codec = Codec[config.get("compression.type", config.get("compression.codec", "none")).upper()]
    level = int(config.get("compression.level", "-1"))
    try:
        check_level(codec, None if level < 0 else level)
    except InvalidConfig as error:
        raise InvalidOption(f"option 'kafka.compression.level': {error}") from None
    delivery_ms = int(config.get("delivery.timeout.ms", config.get("message.timeout.ms", _DELIVERY_MS)))
    return Batching(
        batch_bytes=int(config.get("batch.size", _BATCH_BYTES)),
        codec=codec,
        level=None if level < 0 else level,
        delivery_s=min(delivery_ms or transaction_timeout_ms, transaction_timeout_ms) / 1000,
        ack_timeout_ms=int(config.get("request.timeout.ms", _ACK_MS)),
    )


def settings_key(options: WriteOptions) -> Any:
    """All that a write is made from, to keep something for the next one that is made from the same."""
    settings = options.settings
    rest = [getattr(options, each.name) for each in fields(options) if each.name != "settings"]
    return (settings.bootstrap, settings.client_id, *sorted(settings.config.items()), *rest)
