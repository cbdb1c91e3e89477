"""What a topic's settings come to, and how they are altered."""

import pytest

from barnabas.core.errors import BarnabasError, InvalidConfig, InvalidRequest
from barnabas.services.settings import (
    AlterOperation,
    DeliverySemantics,
    SettingChange,
    alter_broker,
    alter_incrementally,
    alter_topic,
    check_broker_settings,
    check_topic_settings,
    overlaid,
    replace_topic,
    resolve_topic,
)
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.storage.config import CleanupPolicy, FlushPolicy

SET, DELETE, APPEND, SUBTRACT = AlterOperation


def test_a_topic_has_what_it_says_over_what_the_broker_says() -> None:
    broker = BrokerConfig.from_properties(
        {"log.retention.hours": "1", "log.segment.bytes": "2097152", "min.insync.replicas": "2"}
    )
    config = resolve_topic({"retention.ms": "5", "compression.type": "lz4"}, broker)
    assert config.log.retention_ms == 5
    assert config.log.segment_bytes == 2097152
    assert (config.min_insync_replicas, config.compression_type) == (2, "lz4")


def test_every_part_of_a_topic_can_be_set() -> None:
    config = resolve_topic(
        {
            "delivery.semantics": " exactly-once",
            "flush.policy": "os",
            "unclean.leader.election.enable": "true",
            "message.timestamp.before.max.ms": "1",
            "message.timestamp.after.max.ms": "2",
            "compression.gzip.level": "9",
            "compression.lz4.level": "10",
            "compression.zstd.level": "11",
            "cleanup.policy": "compact,delete",
        },
        BrokerConfig(),
    )
    assert config.delivery_semantics is DeliverySemantics.EXACTLY_ONCE
    assert config.log.flush_policy is FlushPolicy.OS
    assert config.unclean_leader_election
    assert (config.timestamp_before_max_ms, config.timestamp_after_max_ms) == (1, 2)
    levels = (config.compression_gzip_level, config.compression_lz4_level, config.compression_zstd_level)
    assert levels == (9, 10, 11)
    assert config.log.cleanup_policy == (CleanupPolicy.COMPACT, CleanupPolicy.DELETE)


def test_an_empty_cleanup_policy_keeps_everything() -> None:
    log = resolve_topic({"cleanup.policy": ""}, BrokerConfig()).log
    assert (log.is_deleted, log.is_compacted) == (False, False)


def test_any_negative_size_of_retention_is_no_limit() -> None:
    assert resolve_topic({"retention.bytes": "-5"}, BrokerConfig()).log.retention_bytes == -1


def test_small_segments_are_had_by_the_name_kafka_has_for_tests() -> None:
    assert resolve_topic({"internal.segment.bytes": "1024"}, BrokerConfig()).log.segment_bytes == 1024


def test_the_semantics_of_a_broker_hold_for_its_topics() -> None:
    broker = BrokerConfig.from_properties({"log.delivery.semantics": "at-least-once"})
    assert resolve_topic({}, broker).delivery_semantics is DeliverySemantics.AT_LEAST_ONCE
    assert resolve_topic({}, BrokerConfig()).delivery_semantics is None


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"retention.mss": "1"}, "unknown topic setting 'retention.mss'; did you mean retention.ms"),
        ({"log.retention.ms": "1"}, "unknown topic setting"),
        ({"": "1"}, "unknown topic setting"),
        ({"retention.ms": None}, "cannot be null: retention.ms"),
        ({"retention.ms": "x"}, "retention.ms cannot be 'x'"),
        ({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}, "must not be below min.compaction.lag.ms"),
        ({"segment.bytes": str(2**31)}, "segment.bytes cannot be"),
    ],
)
def test_what_a_topic_may_not_have_is_refused(overrides: dict[str, str | None], problem: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        check_topic_settings(overrides)
    assert problem in str(refusal.value)


def test_a_topic_may_not_contradict_what_its_broker_sets() -> None:
    broker = BrokerConfig.from_properties({"log.cleaner.max.compaction.lag.ms": "10"})
    assert check_topic_settings({"min.compaction.lag.ms": "20"}) == {"min.compaction.lag.ms": "20"}
    with pytest.raises(InvalidConfig, match="must not be below"):
        check_topic_settings({"min.compaction.lag.ms": "20"}, broker)


def test_single_changes_say_what_changed() -> None:
    current = {"retention.ms": "5", "segment.ms": "6", "cleanup.policy": "compact"}
    changes = [
        SettingChange("retention.ms", SET, "5"),
        SettingChange("flush.ms", SET, "1"),
        SettingChange("segment.ms", DELETE),
        SettingChange("max.message.bytes", DELETE),
        SettingChange("cleanup.policy", APPEND, "delete,compact"),
    ]
    changed = alter_topic(current, changes)
    assert changed == {"flush.ms": "1", "segment.ms": None, "cleanup.policy": "compact,delete"}
    assert overlaid(current, changed) == {"retention.ms": "5", "flush.ms": "1", "cleanup.policy": "compact,delete"}


def test_a_list_that_is_not_set_is_appended_to_from_its_default() -> None:
    assert alter_topic({}, [SettingChange("cleanup.policy", APPEND, "compact")]) == {"cleanup.policy": "delete,compact"}
    assert alter_topic({}, [SettingChange("cleanup.policy", SUBTRACT, "delete")]) == {"cleanup.policy": ""}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (SettingChange("retention.ms", APPEND, "1"), InvalidConfig),
        (SettingChange("no.such", SUBTRACT, "1"), InvalidConfig),
        (SettingChange("no.such", SET, "1"), InvalidConfig),
        (SettingChange("retention.ms", SET, "x"), InvalidConfig),
        (SettingChange("cleanup.policy", APPEND, "shred"), InvalidConfig),
        (SettingChange("retention.ms", SET), InvalidRequest),
        (SettingChange("cleanup.policy", APPEND), InvalidRequest),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(change: SettingChange, error: type[BarnabasError]) -> None:
    with pytest.raises(error):
        alter_topic({}, [change])


def test_two_changes_of_one_setting_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        alter_incrementally({}, [SettingChange("retention.ms", SET, "1"), SettingChange("retention.ms", DELETE)])


def test_a_setting_that_no_longer_exists_can_be_deleted() -> None:
    assert alter_topic({"no.such": "1"}, [SettingChange("no.such", DELETE)]) == {"no.such": None}


def test_replacing_all_overrides_drops_those_not_named() -> None:
    assert replace_topic({"retention.ms": "1", "segment.ms": "2"}, {"retention.ms": "1", "flush.ms": "3"}) == {
        "flush.ms": "3",
        "segment.ms": None,
    }
    with pytest.raises(InvalidRequest, match=r"null: retention\.ms"):
        replace_topic({}, {"retention.ms": None})
    with pytest.raises(InvalidConfig, match="unknown"):
        replace_topic({}, {"no.such": "1"})


def test_of_a_running_broker_only_what_a_part_of_it_follows_can_be_altered() -> None:
    assert alter_broker({}, [SettingChange("log.retention.ms", SET, "5")]) == {"log.retention.ms": "5"}
    assert alter_broker({}, [SettingChange("max.connections", SET, "5")]) == {"max.connections": "5"}
    for name, problem in [
        ("num.partitions", r"Cannot update these configs dynamically: \[num\.partitions\]"),
        ("log.retention.hours", r"dynamically: \[log\.retention\.hours\]"),
        ("retention.ms", "did you mean log.retention.ms"),
    ]:
        with pytest.raises(InvalidConfig, match=problem):
            check_broker_settings({name: "5"})
    with pytest.raises(InvalidConfig, match=r"log\.retention\.ms cannot be 'x'"):
        check_broker_settings({"log.retention.ms": "x"})
    with pytest.raises(InvalidConfig, match=r"max\.connections cannot be '0'"):
        check_broker_settings({"max.connections": "0"})


def test_what_is_altered_for_a_running_broker_holds_for_its_topics() -> None:
    broker = BrokerConfig.from_properties({"log.retention.hours": "1", "log.segment.bytes": "2097152"})
    altered = broker.with_dynamic({"log.retention.ms": "5"})
    assert resolve_topic({}, altered).log.retention_ms == 5
    assert resolve_topic({}, altered).log.segment_bytes == 2097152
