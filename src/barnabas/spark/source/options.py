"""The options of a read, checked when the query is made: the names are those of Spark's Kafka source, and a few more.

| option | meaning | default |
|---|---|---|
| `kafka.bootstrap.servers`, short `bootstrap` | brokers to ask first, `host:port,...` | required |
| `subscribe`, `subscribePattern`, `assign` | topics; a pattern found in names; `{"topic": [0, 1]}` | required |
| `startingOffsets` | `earliest`, `latest` or `{"topic": {"0": 23, "1": -2}}` | earliest; a stream: latest |
| `startingTimestamp` | milliseconds since 1970, for all partitions | |
| `startingOffsetsByTimestamp` | `{"topic": {"0": 1700000000000}}` | |
| `startingOffsetsByTimestampStrategy` | when nothing is that new: `error` or `latest` | error |
| `endingOffsets`, `endingTimestamp`, `endingOffsetsByTimestamp` | where a batch read ends, exclusive | latest |
| `maxOffsetsPerTrigger` (`maxRowsPerTrigger`) | at most so many offsets in a micro-batch | no limit |
| `maxBytesPerTrigger` | at most about so many bytes of log in a micro-batch: `64m` | no limit |
| `minOffsetsPerTrigger`, `maxTriggerDelay` | wait for so many offsets, but no longer than that | no wait; 15m |
| `minPartitions`, `maxRecordsPerPartition` | split large ranges into more tasks | one task for each partition (*) |
| `failOnDataLoss` | whether offsets that are gone stop the query, or are skipped with a warning | true |
| `includeHeaders` | whether there is a column `headers` | false |
| `isolation.level` (`kafka.isolation.level`) | `read_committed` or `read_uncommitted` | read_committed |
| `group` | a stream's progress is committed as this consumer group | none |
| `kafka.security.protocol`, `kafka.sasl.*`, `kafka.ssl.*` | TLS and logins, as in librdkafka | plaintext |
| `kafka.default.api.timeout.ms` | how long an unreachable cluster is tried | 15000 |
| `kafka.client.id` | the client id of the readers | barnabas-spark |

(*) A stream that finds few records in several partitions reads them with one task.

Where Spark's own source lets one option win over another quietly, both together are refused here. Options of its
consumer cache and its retries are accepted and have no effect: there is nothing here they could tune.
"""

import difflib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from barnabas.client.config_file import secured
from barnabas.core.model import TopicPartition
from barnabas.spark.source.conditions import OPTION as CONDITIONS
from barnabas.spark.source.conditions import Conditions, parse_conditions
from barnabas.spark.source.offsets import EARLIEST, LATEST, Offsets, parse_offsets, parse_partitions
from barnabas.spark.source.option_values import OptionText
from barnabas.spark.source.refusals import InvalidOption

if TYPE_CHECKING:
    from barnabas.client.settings import Settings

Mode: TypeAlias = Literal["batch", "stream"]

_log = logging.getLogger("barnabas.spark")

_BOOTSTRAP: Final = "kafka.bootstrap.servers"
_BOOTSTRAP_SHORT: Final = "bootstrap"
_SELECTIONS: Final = ("subscribe", "subscribePattern", "assign")
_STARTS: Final = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
_ENDS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_STREAM_ONLY: Final = (
    "maxOffsetsPerTrigger",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "group",
)
_BOTH: Final = (
    _BOOTSTRAP,
    _BOOTSTRAP_SHORT,
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "isolation.level",
)
# Of Spark's Kafka source: taken, so that its users need not look for them, and without effect.
_WITHOUT_EFFECT: Final = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
_KNOWN: Final = (*_SELECTIONS, *_STARTS, *_ENDS, *_STREAM_ONLY, *_BOTH, *_WITHOUT_EFFECT, CONDITIONS)
_KAFKA: Final = "kafka."
# What Spark's own source refuses too: it decides on these.
_NOT_FOR_USERS: Final = (
    "auto.offset.reset",
    "enable.auto.commit",
    "interceptor.classes",
    "key.deserializer",
    "value.deserializer",
)
_OURS: Final = ("bootstrap.servers", "client.id", "isolation.level", "default.api.timeout.ms", "group.id")
# As `client.settings.parse_bootstrap` reads them, which is not loaded just to look at options.
_HOST_AND_PORT: Final = re.compile(r"\s*(?:\w+://)?(?:\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(?::\d{1,5})?\s*")
_CLIENT_ID: Final = "barnabas-spark"
_ISOLATIONS: Final = ("read_committed", "read_uncommitted")
_FIRST_CONTACT_MS: Final = 15_000
_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Selection:
    """Which partitions are read: those of topics, of all topics in whose name a pattern is found, or just these."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """Where to start or to end: one offset (or EARLIEST, LATEST) or one time for all partitions, or one for each."""

    option: str
    everywhere: int | None = None
    offsets: Offsets = field(default_factory=dict)
    timestamp_ms: int | None = None
    timestamps_ms: Offsets = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a micro-batch takes."""

    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_trigger_delay_ms: int = _TRIGGER_DELAY_MS


@dataclass(frozen=True, slots=True)
class Address:
    """How to reach the cluster."""

    bootstrap: str
    client_id: str
    config: dict[str, str] = field(repr=False)  # passwords are in it

    @property
    def settings(self) -> "Settings":
        # The client is a good part of a second to import, and Spark makes workers that only look at the options.
        from barnabas.client.settings import Settings

        return Settings(self.bootstrap, self.client_id, self.config, is_complete=True)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    address: Address
    selection: Selection
    start: Bound
    end: Bound
    late_start_is_latest: bool
    limits: Limits
    min_partitions: int | None
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    include_headers: bool
    is_committed: bool
    group: str | None
    patience_s: float
    conditions: Conditions = field(default_factory=Conditions)


def parse_options(given: Mapping[str, str], mode: Mode | None) -> ReadOptions:
    """The options of a read; anything that is not understood is refused. `mode` is None while it is not known."""
    _check_names(given)
    text = OptionText(given)
    if mode is not None:
        _check_mode(text, mode)
    selection = _selection(text)
    start = _bound(text, _STARTS, everywhere=LATEST if mode == "stream" else EARLIEST)
    end = _bound(text, _ENDS, everywhere=LATEST)
    _check_bounds(start, end, mode)
    _check_partitions_named(selection, start, end)
    return ReadOptions(
        address=_address(given, text),
        selection=selection,
        start=start,
        end=end,
        late_start_is_latest=text.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), default="error")
        == "latest",
        limits=_limits(text),
        min_partitions=text.number("minPartitions", lowest=1),
        max_records_per_partition=text.number("maxRecordsPerPartition", lowest=1),
        fail_on_data_loss=text.flag("failOnDataLoss", default=True),
        include_headers=text.flag("includeHeaders", default=False),
        is_committed=_is_committed(text),
        group=_group(text),
        patience_s=text.duration_ms(f"{_KAFKA}default.api.timeout.ms", default_ms=_FIRST_CONTACT_MS) / 1000,
        conditions=parse_conditions((text.text(CONDITIONS) or "").splitlines()),
    )


def _check_names(given: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in _KNOWN}
    for name in sorted(given):
        lower = name.lower()
        if lower in known or lower.startswith((_KAFKA, "kafkaconsumer.cache.")):
            continue
        nearest = difflib.get_close_matches(lower, [*known, *(f"{_KAFKA}{each}" for each in _OURS)], n=1)
        hint = f"; did you mean {known.get(nearest[0], nearest[0])!r}?" if nearest else ""
        raise InvalidOption(f"unknown option {name!r}{hint}")


def _check_mode(text: OptionText, mode: Mode) -> None:
    wrong, kind, this = (_STREAM_ONLY, "stream", "batch read") if mode == "batch" else (_ENDS, "batch read", "stream")
    for option in wrong:
        if text.text(option) is not None:
            raise InvalidOption(f"option {option!r} is for a {kind}, and this is a {this}")


def _selection(text: OptionText) -> Selection:
    option = text.only_one_of(_SELECTIONS)
    if option is None:
        raise InvalidOption(
            f"give one of the options that name the topics to read: {', '.join(map(repr, _SELECTIONS))}"
        )
    value = text.text(option) or ""
    if option == "assign":
        return Selection(partitions=parse_partitions(option, value))
    if option == "subscribePattern":
        try:
            re.compile(value)
        except re.error as error:
            raise InvalidOption(f"option {option!r} is {value!r}, which is not a regular expression: {error}") from None
        return Selection(pattern=value)
    topics = tuple(sorted({name.strip() for name in value.split(",") if name.strip()}))
    if not topics:
        raise InvalidOption(f"option {option!r} names no topic; it is a list such as 'orders,payments'")
    return Selection(topics=topics)


def _bound(text: OptionText, names: tuple[str, ...], *, everywhere: int) -> Bound:
    option = text.only_one_of(names)
    if option is None:
        return Bound(names[0], everywhere=everywhere)
    value = (text.text(option) or "").strip()
    if option.endswith("ByTimestamp"):
        return Bound(option, timestamps_ms=parse_offsets(option, value, lowest=0))
    if option.endswith("Timestamp"):
        return Bound(option, timestamp_ms=text.number(option, lowest=0))
    named = {"earliest": EARLIEST, "latest": LATEST}.get(value.lower())
    if named is not None:
        return Bound(option, everywhere=named)
    if not value.startswith("{"):
        example = '{"topic": {"0": 23}}'
        raise InvalidOption(f"option {option!r} is {value!r}; it may be 'earliest', 'latest' or {example}")
    return Bound(option, offsets=parse_offsets(option, value, lowest=EARLIEST))


def _check_bounds(start: Bound, end: Bound, mode: Mode | None) -> None:
    if mode == "batch" and (start.everywhere == LATEST or LATEST in start.offsets.values()):
        raise InvalidOption(f"option {start.option!r}: a batch read cannot start at the latest offset (-1)")
    if end.everywhere == EARLIEST or EARLIEST in end.offsets.values():
        raise InvalidOption(f"option {end.option!r}: a read cannot end at the earliest offset (-2)")
    for key, first in start.offsets.items():
        if 0 <= end.offsets.get(key, LATEST) < first:
            raise InvalidOption(f"{key} is to be read from {first} to {end.offsets[key]}: it ends before it starts")


def _check_partitions_named(selection: Selection, start: Bound, end: Bound) -> None:
    """With `assign`, offsets are of the partitions that are read."""
    if not selection.partitions:
        return
    for bound in (start, end):
        for key in sorted({*bound.offsets, *bound.timestamps_ms}):
            if key not in selection.partitions:
                raise InvalidOption(f"option {bound.option!r} names {key}, which option 'assign' does not")


def _limits(text: OptionText) -> Limits:
    option = text.only_one_of(("maxOffsetsPerTrigger", "maxRowsPerTrigger"))
    limits = Limits(
        max_offsets=None if option is None else text.number(option, lowest=1),
        max_bytes=text.size("maxBytesPerTrigger"),
        min_offsets=text.number("minOffsetsPerTrigger", lowest=1),
        max_trigger_delay_ms=text.duration_ms("maxTriggerDelay", default_ms=_TRIGGER_DELAY_MS),
    )
    if text.text("maxTriggerDelay") is not None and limits.min_offsets is None:
        raise InvalidOption("option 'maxTriggerDelay' says how long 'minOffsetsPerTrigger' may wait; it was not given")
    if limits.min_offsets is not None and limits.max_offsets is not None and limits.min_offsets > limits.max_offsets:
        raise InvalidOption(
            f"option 'minOffsetsPerTrigger' is {limits.min_offsets}, more than {option!r}, {limits.max_offsets}"
        )
    return limits


def _is_committed(text: OptionText) -> bool:
    ours = text.choice("isolation.level", _ISOLATIONS, default=_ISOLATIONS[0])
    theirs = text.choice(f"{_KAFKA}isolation.level", _ISOLATIONS, default=ours)
    if text.text("isolation.level") is not None and ours != theirs:
        raise InvalidOption("options 'isolation.level' and 'kafka.isolation.level' contradict each other")
    return theirs == "read_committed"


def _group(text: OptionText) -> str | None:
    group = text.text("group")
    if group is not None and not group.strip():
        raise InvalidOption("option 'group' is empty; it is the name of a consumer group")
    if group is None and text.text(f"{_KAFKA}group.id") is not None:
        _log.warning("option 'kafka.group.id' has no effect: the source joins no group; 'group' shows progress in one")
    return group


def _address(given: Mapping[str, str], text: OptionText) -> Address:
    option = text.only_one_of((_BOOTSTRAP, _BOOTSTRAP_SHORT))
    if option is None:
        raise InvalidOption(f"option {_BOOTSTRAP!r} is missing; it names the brokers")
    bootstrap = text.text(option) or ""
    if not all(_HOST_AND_PORT.fullmatch(each) for each in bootstrap.split(",")):
        raise InvalidOption(f"option {option!r} is {bootstrap!r}; it is a list such as 'host:9092,other:9092'")
    client_id = text.text(f"{_KAFKA}client.id") or _CLIENT_ID
    config = secured(_client_settings(given))
    if config.get("security.protocol", "plaintext").lower() != "plaintext":
        return Address(bootstrap, client_id, config)
    for setting in sorted(set(config) - {"security.protocol"}):
        _log.warning("option 'kafka.%s' has no effect on a plaintext connection", setting)
    return Address(bootstrap, client_id, {})


def _client_settings(given: Mapping[str, str]) -> dict[str, str]:
    """The settings of the connections, in librdkafka's words; a login that is written in Java's is put into them."""
    config = {}
    for name, value in given.items():
        setting = name[len(_KAFKA) :].lower()
        if not name.lower().startswith(_KAFKA) or setting in _OURS:
            continue
        if setting in _NOT_FOR_USERS:
            raise InvalidOption(f"option {name!r} cannot be set: the reader decides on it")
        config[setting] = str(value)
    jaas = config.pop("sasl.jaas.config", None)
    if jaas is not None:
        config |= _login(jaas)
    return config


def _login(jaas: str) -> dict[str, str]:
    """User and password of Java's way to write them."""
    found = {name: re.search(rf'\b{name}\s*=\s*"((?:[^"\\]|\\.)*)"', jaas) for name in ("username", "password")}
    if not all(found.values()):
        raise InvalidOption(
            "option 'kafka.sasl.jaas.config' has no username and password; "
            "set kafka.sasl.username and kafka.sasl.password instead"
        )
    return {f"sasl.{name}": re.sub(r"\\(.)", r"\1", match[1]) for name, match in found.items() if match}
