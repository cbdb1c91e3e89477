"""Every setting of a topic: those of Kafka 4, with its defaults, and three of our own.

A default is defined in the struct that is used, `TopicConfig` or the `LogConfig` in it; here are the names, types,
limits and meaning, and the names of the broker's defaults.
"""

from collections.abc import Mapping
from typing import Final

from barnabas.services.settings.catalogue.setting import BrokerName, Setting, SettingType
from barnabas.services.settings.topic_config import default_text

BOOLEAN, DOUBLE, INT, LIST, LONG, STRING = (
    SettingType.BOOLEAN,
    SettingType.DOUBLE,
    SettingType.INT,
    SettingType.LIST,
    SettingType.LONG,
    SettingType.STRING,
)
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
_THROTTLED: Final = r"\*|([0-9]{1,10}:[0-9]{1,10}(\s*,\s*[0-9]{1,10}:[0-9]{1,10})*)?"
_THROTTLED_SAYS: Final = "* or a list of partition:broker"


def _same(name: str) -> tuple[BrokerName, ...]:
    return (BrokerName(name),)


_SEGMENTS: Final = (
    Setting(
        name="segment.bytes",
        kind=INT,
        default=default_text("segment.bytes"),
        at_least=1024 * 1024,
        broker_names=_same("log.segment.bytes"),
        doc="The largest size of a segment, the file that retention and compaction work on.",
    ),
    Setting(
        name="internal.segment.bytes",
        kind=INT,
        at_least=1024,
        is_internal=True,
        doc="For tests: a segment size below the smallest that segment.bytes allows.",
    ),
    Setting(
        name="segment.ms",
        kind=LONG,
        default=default_text("segment.ms"),
        at_least=1,
        broker_names=(BrokerName("log.roll.ms"), BrokerName("log.roll.hours", HOUR_MS)),
        doc="A segment is closed when a record arrives that is this much later than its first, full or not.",
    ),
    Setting(
        name="segment.jitter.ms",
        kind=LONG,
        default="0",
        at_least=0,
        has_effect=False,
        broker_names=(BrokerName("log.roll.jitter.ms"), BrokerName("log.roll.jitter.hours", HOUR_MS)),
        doc="In Kafka, spreads the closing of segments in time. No effect: closing a segment costs little here.",
    ),
    Setting(
        name="segment.index.bytes",
        kind=INT,
        default=str(10 * 1024 * 1024),
        at_least=4,
        has_effect=False,
        broker_names=_same("log.index.size.max.bytes"),
        doc="In Kafka, the size an index is preallocated to. No effect: indexes grow as they need.",
    ),
    Setting(
        name="index.interval.bytes",
        kind=INT,
        default=default_text("index.interval.bytes"),
        at_least=0,
        broker_names=_same("log.index.interval.bytes"),
        doc="Bytes of log between two entries of an index. Less finds records faster and makes indexes larger.",
    ),
    Setting(
        name="preallocate",
        kind=BOOLEAN,
        default="false",
        has_effect=False,
        broker_names=_same("log.preallocate"),
        doc="In Kafka, whether a segment takes its full size on disk at once. No effect: segments grow as written.",
    ),
)

_RETENTION: Final = (
    Setting(
        name="cleanup.policy",
        kind=LIST,
        default=default_text("cleanup.policy"),
        choices=("compact", "delete"),
        broker_names=_same("log.cleanup.policy"),
        doc="What happens to old records: delete them by age and size, compact them to the last of each key, or both. "
        "Empty keeps everything.",
    ),
    Setting(
        name="retention.ms",
        kind=LONG,
        default=default_text("retention.ms"),
        at_least=-1,
        broker_names=(
            BrokerName("log.retention.ms"),
            BrokerName("log.retention.minutes", MINUTE_MS),
            BrokerName("log.retention.hours", HOUR_MS),
        ),
        doc="With the policy delete: segments whose newest record is older are deleted. -1 keeps them.",
    ),
    Setting(
        name="retention.bytes",
        kind=LONG,
        default=default_text("retention.bytes"),
        broker_names=_same("log.retention.bytes"),
        doc="With the policy delete: a partition's oldest segments are deleted while it is larger. -1 is no limit.",
    ),
    Setting(
        name="delete.retention.ms",
        kind=LONG,
        default=default_text("delete.retention.ms"),
        at_least=0,
        broker_names=_same("log.cleaner.delete.retention.ms"),
        doc="How long a compacted topic keeps tombstones, so that consumers reading from the start see deletions.",
    ),
    Setting(
        name="min.cleanable.dirty.ratio",
        kind=DOUBLE,
        default=default_text("min.cleanable.dirty.ratio"),
        at_least=0,
        at_most=1,
        broker_names=_same("log.cleaner.min.cleanable.ratio"),
        doc="Compaction starts when at least this part of a log has not been compacted.",
    ),
    Setting(
        name="min.compaction.lag.ms",
        kind=LONG,
        default=default_text("min.compaction.lag.ms"),
        at_least=0,
        broker_names=_same("log.cleaner.min.compaction.lag.ms"),
        doc="Records younger than this are not compacted.",
    ),
    Setting(
        name="max.compaction.lag.ms",
        kind=LONG,
        default=default_text("max.compaction.lag.ms"),
        at_least=1,
        broker_names=_same("log.cleaner.max.compaction.lag.ms"),
        doc="A log with an uncompacted record older than this is compacted whatever the ratio.",
    ),
    Setting(
        name="file.delete.delay.ms",
        kind=LONG,
        default="60000",
        at_least=0,
        has_effect=False,
        broker_names=_same("log.segment.delete.delay.ms"),
        doc="In Kafka, how long a deleted file stays on disk. No effect: files are deleted at once.",
    ),
    Setting(
        name="local.retention.ms",
        kind=LONG,
        default="-2",
        at_least=-2,
        has_effect=False,
        broker_names=_same("log.local.retention.ms"),
        doc="How long a tiered topic's segments stay on local disk; -2: retention.ms. No effect: there is no tier yet.",
    ),
    Setting(
        name="local.retention.bytes",
        kind=LONG,
        default="-2",
        at_least=-2,
        has_effect=False,
        broker_names=_same("log.local.retention.bytes"),
        doc="How much of a tiered topic stays on local disk; -2: retention.bytes. No effect: there is no tier yet.",
    ),
    Setting(
        name="remote.storage.enable",
        kind=BOOLEAN,
        default="false",
        choices=("false",),
        has_effect=False,
        doc="Whether old segments move to remote storage. Only false is allowed: there is no tier yet.",
    ),
    Setting(
        name="remote.log.copy.disable",
        kind=BOOLEAN,
        default="false",
        has_effect=False,
        doc="Whether a tiered topic stops copying to remote storage. No effect: there is no tier yet.",
    ),
    Setting(
        name="remote.log.delete.on.disable",
        kind=BOOLEAN,
        default="false",
        has_effect=False,
        doc="Whether remote data is deleted when tiering is turned off. No effect: there is no tier yet.",
    ),
)

_WRITES: Final = (
    Setting(
        name="max.message.bytes",
        kind=INT,
        default=default_text("max.message.bytes"),
        at_least=0,
        broker_names=(BrokerName("message.max.bytes"),),
        doc="The largest record batch accepted, after compression.",
    ),
    Setting(
        name="compression.type",
        kind=STRING,
        default=default_text("compression.type"),
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        broker_names=_same("compression.type"),
        doc="How batches are stored: as the producer compressed them, which costs nothing, or recompressed.",
    ),
    Setting(
        name="compression.gzip.level",
        kind=INT,
        default=default_text("compression.gzip.level"),
        at_least=1,
        at_most=9,
        also=-1,
        broker_names=_same("compression.gzip.level"),
        doc="With compression.type gzip: the effort. -1 is the library's default.",
    ),
    Setting(
        name="compression.lz4.level",
        kind=INT,
        default=default_text("compression.lz4.level"),
        at_least=1,
        at_most=17,
        broker_names=_same("compression.lz4.level"),
        doc="With compression.type lz4: the effort.",
    ),
    Setting(
        name="compression.zstd.level",
        kind=INT,
        default=default_text("compression.zstd.level"),
        at_least=-131072,
        at_most=22,
        broker_names=_same("compression.zstd.level"),
        doc="With compression.type zstd: the effort.",
    ),
    Setting(
        name="message.timestamp.type",
        kind=STRING,
        default=default_text("message.timestamp.type"),
        choices=("CreateTime", "LogAppendTime"),
        broker_names=_same("log.message.timestamp.type"),
        doc="Which timestamp records get: the producer's (CreateTime) or the broker's (LogAppendTime).",
    ),
    Setting(
        name="message.timestamp.before.max.ms",
        kind=LONG,
        default=default_text("message.timestamp.before.max.ms"),
        at_least=0,
        broker_names=_same("log.message.timestamp.before.max.ms"),
        doc="With CreateTime: records with a timestamp further in the past than this are refused.",
    ),
    Setting(
        name="message.timestamp.after.max.ms",
        kind=LONG,
        default=default_text("message.timestamp.after.max.ms"),
        at_least=0,
        broker_names=_same("log.message.timestamp.after.max.ms"),
        doc="With CreateTime: records with a timestamp further in the future than this are refused.",
    ),
    Setting(
        name="delivery.semantics",
        kind=STRING,
        default=default_text("delivery.semantics"),
        choices=("at-most-once", "at-least-once", "exactly-once"),
        broker_names=_same("log.delivery.semantics"),
        doc="Barnabas only. What producers of the topic are held to: at-most-once, at-least-once (acks=all), or "
        "exactly-once (idempotent or transactional as well). Unset leaves it to each producer, as in Kafka.",
    ),
    Setting(
        name="record.validation",
        kind=STRING,
        default=default_text("record.validation"),
        choices=("full", "auto", "none"),
        broker_names=_same("log.record.validation"),
        doc="Barnabas only. How closely the records of a batch are looked at before they are taken, for one that is "
        "not what its header says stops every consumer that comes to it. full: every field of every record, compressed "
        "or not. auto: the same at native speed where the extra 'arrow' is installed; without it, when many records "
        "come, the length of each and the fields of the first and the last. Of compressed batches it unpacks 8 MiB a "
        "second; what comes beyond that is taken by its header. none: the checksum and the header alone.",
    ),
)

_DURABILITY: Final = (
    Setting(
        name="flush.policy",
        kind=STRING,
        default=default_text("flush.policy"),
        choices=("fsync", "os"),
        broker_names=_same("log.flush.policy"),
        doc="Barnabas only. When a write counts as durable: fsync, once it is on disk; os, once the operating system "
        "has it, which is what Kafka does and loses the last writes if the machine fails.",
    ),
    Setting(
        name="flush.messages",
        kind=LONG,
        default=default_text("flush.messages"),
        at_least=1,
        broker_names=_same("log.flush.interval.messages"),
        doc="With flush.policy os: sync to disk after this many records all the same.",
    ),
    Setting(
        name="flush.ms",
        kind=LONG,
        default=default_text("flush.ms"),
        at_least=0,
        broker_names=(
            BrokerName("log.flush.interval.ms"),
            BrokerName("log.flush.scheduler.interval.ms"),
        ),
        doc="With flush.policy os: sync to disk when a record has waited this long.",
    ),
    Setting(
        name="min.insync.replicas",
        kind=INT,
        default=default_text("min.insync.replicas"),
        at_least=1,
        broker_names=_same("min.insync.replicas"),
        doc="How many replicas must have a write before acks=all is answered, or all if there are not as many. "
        "With fewer in sync it is refused.",
    ),
    Setting(
        name="unclean.leader.election.enable",
        kind=BOOLEAN,
        default=default_text("unclean.leader.election.enable"),
        broker_names=_same("unclean.leader.election.enable"),
        doc="Whether a replica that is not in sync may lead when no other can. True trades acknowledged records for "
        "availability.",
    ),
    Setting(
        name="errors.deadletterqueue.group.enable",
        kind=BOOLEAN,
        default=default_text("errors.deadletterqueue.group.enable"),
        doc="Whether groups may write dead letters to the topic.",
    ),
    Setting(
        name="leader.replication.throttled.replicas",
        kind=LIST,
        default="",
        pattern=_THROTTLED,
        pattern_says=_THROTTLED_SAYS,
        doc="Replicas that are copied at no more than leader.replication.throttled.rate while they are not in sync: "
        "partition:broker, with the leader's broker.",
    ),
    Setting(
        name="follower.replication.throttled.replicas",
        kind=LIST,
        default="",
        pattern=_THROTTLED,
        pattern_says=_THROTTLED_SAYS,
        doc="Replicas that are copied at no more than follower.replication.throttled.rate while they are not in sync: "
        "partition:broker, with the follower's broker.",
    ),
)

TOPIC_SETTINGS: Final[Mapping[str, Setting]] = {
    setting.name: setting
    for setting in sorted(_SEGMENTS + _RETENTION + _WRITES + _DURABILITY, key=lambda setting: setting.name)
}
"""All settings of a topic by name, in the order of their names."""
