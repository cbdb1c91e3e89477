"""Settings under Kafka's names: read, defaulted, refused."""

import pytest

from barnabas.core.errors import InvalidConfig
from barnabas.core.records.batch import TimestampType
from barnabas.storage.config import DAY_MS, FOREVER, CleanupPolicy, FlushPolicy, LogConfig


def test_the_defaults_are_those_of_kafka_but_for_the_flush_policy() -> None:
    config = LogConfig()
    assert config.segment_bytes == 1024**3
    assert (config.segment_ms, config.retention_ms, config.retention_bytes) == (7 * DAY_MS, 7 * DAY_MS, -1)
    assert (config.index_interval_bytes, config.max_message_bytes) == (4096, 1048588)
    assert (config.is_deleted, config.is_compacted) == (True, False)
    assert config.timestamp_type is TimestampType.CREATE_TIME
    assert (config.flush_messages, config.flush_ms) == (FOREVER, FOREVER)
    assert config.flush_policy is FlushPolicy.FSYNC


def test_settings_are_read_from_their_kafka_names() -> None:
    config = LogConfig.from_properties(
        {
            "segment.bytes": " 2048 ",
            "cleanup.policy": "compact, delete",
            "message.timestamp.type": "LogAppendTime",
            "min.cleanable.dirty.ratio": "0.1",
            "flush.policy": "os",
            "retention.ms": "-1",
        }
    )
    assert config.segment_bytes == 2048
    assert config.cleanup_policy == (CleanupPolicy.COMPACT, CleanupPolicy.DELETE)
    assert (config.is_compacted, config.is_deleted) == (True, True)
    assert config.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert config.min_cleanable_dirty_ratio == 0.1
    assert config.flush_policy is FlushPolicy.OS
    assert config.retention_ms == -1


def test_every_setting_can_be_given_by_the_name_it_is_listed_under() -> None:
    for name in LogConfig.names():
        assert "_" not in name
        default = getattr(LogConfig(), name.replace(".", "_"))
        if isinstance(default, int | float | str):
            assert LogConfig.from_properties({name: str(default)}) == LogConfig()


@pytest.mark.parametrize("name", ["segment.byte", "segment_bytes", "", "__class__"])
def test_an_unknown_setting_is_refused_and_the_known_ones_named(name: str) -> None:
    with pytest.raises(InvalidConfig, match=r"unknown setting .*; known: segment\.bytes"):
        LogConfig.from_properties({name: "1"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("segment.bytes", "many"),
        ("segment.bytes", "1.5"),
        ("segment.bytes", ""),
        ("cleanup.policy", "shred"),
        ("flush.policy", "never"),
        ("min.cleanable.dirty.ratio", "half"),
    ],
)
def test_a_text_that_is_no_value_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{name} cannot be {text!r}"):
        LogConfig.from_properties({name: text})


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("segment.bytes", "1023", "at least 1024"),
        ("segment.bytes", str(2**31), "below 2 GiB"),
        ("segment.ms", "0", "at least 1"),
        ("retention.ms", "-2", "at least -1"),
        ("index.interval.bytes", "-1", "at least 0"),
        ("min.cleanable.dirty.ratio", "1.1", "between 0 and 1"),
        ("min.cleanable.dirty.ratio", "nan", "between 0 and 1"),
        ("message.timestamp.type", "Sometimes", "CreateTime or LogAppendTime"),
        ("cleanup.policy", " , ", "delete, compact or both"),
    ],
)
def test_a_value_out_of_range_is_refused(name: str, text: str, problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem):
        LogConfig.from_properties({name: text})


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="must not be below"):
        LogConfig(min_compaction_lag_ms=10, max_compaction_lag_ms=9)
