import pytest

from barnabas.core.errors import InvalidConfig
from barnabas.core.groups.settings import ClassicConfig, ConsumerConfig, OffsetsConfig
from barnabas.services.group_coordinators import GroupConfig
from barnabas.services.settings.broker_config import BrokerConfig


def test_groups_are_as_the_broker_is_told() -> None:
    config = GroupConfig.of(
        BrokerConfig.from_properties(
            {
                "group.min.session.timeout.ms": "100",
                "group.max.session.timeout.ms": "200",
                "group.initial.rebalance.delay.ms": "5",
                "group.max.size": "6",
                "group.consumer.heartbeat.interval.ms": "7",
                "group.consumer.session.timeout.ms": "8",
                "group.consumer.max.size": "9",
                "group.consumer.assignors": "range",
                "group.consumer.migration.policy": "upgrade",
                "offset.metadata.max.bytes": "10",
                "offsets.retention.minutes": "11",
                "offsets.retention.check.interval.ms": "12",
                "offsets.topic.num.partitions": "13",
                "offsets.topic.replication.factor": "2",
                "offsets.topic.segment.bytes": "2000000",
            }
        ).groups
    )
    classic, consumer = config.classic, config.consumer
    assert (classic.min_session_timeout_ms, classic.max_session_timeout_ms) == (100, 200)
    assert (classic.initial_rebalance_delay_ms, classic.max_size, consumer.classic_max_size) == (5, 6, 6)
    assert (consumer.heartbeat_interval_ms, consumer.session_timeout_ms, consumer.max_size) == (7, 8, 9)
    assert (consumer.assignors, consumer.upgrades, consumer.downgrades) == (("range",), True, False)
    assert (config.offsets.metadata_max_chars, config.offsets.retention_ms) == (10, 660_000)
    assert config.retention_check_interval_ms == 12
    new = config.new_topic()
    assert (new.partition_count, new.replication_factor) == (13, 2)
    assert new.configs["cleanup.policy"] == "compact"
    assert new.configs["segment.bytes"] == "2000000"


def test_the_defaults_are_those_of_the_groups() -> None:
    config = GroupConfig.of(BrokerConfig().groups)
    assert (config.classic, config.consumer, config.offsets) == (ClassicConfig(), ConsumerConfig(), OffsetsConfig())


@pytest.mark.parametrize(
    "settings",
    [
        {"group.max.session.timeout.ms": "10"},
        {"group.consumer.session.timeout.ms": "5000"},
        {"group.consumer.assignors": "sticky"},
        {"group.consumer.migration.policy": "sideways"},
        {"group.max.size": "0"},
        {"group.consumer.min.session.timeout.ms": "60001"},
        {"group.consumer.max.heartbeat.interval.ms": "4999"},
        {"group.consumer.max.assignment.interval.ms": "1", "group.consumer.min.assignment.interval.ms": "2"},
        {"offsets.retention.minutes": "0"},
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig):
        BrokerConfig.from_properties(settings)


def test_a_group_goes_by_its_own_settings_as_far_as_the_broker_allows() -> None:
    config = GroupConfig.of(BrokerConfig.from_properties({"group.consumer.max.session.timeout.ms": "50000"}).groups)
    assert config.consumer_of({}) is config.consumer
    own = config.consumer_of(
        {
            "consumer.session.timeout.ms": "55000",
            "consumer.heartbeat.interval.ms": "6000",
            "consumer.assignor.offload.enable": "false",
        }
    )
    assert (own.session_timeout_ms, own.heartbeat_interval_ms, own.assignment_interval_ms) == (50_000, 6_000, 1_000)


def test_a_segment_size_that_no_topic_may_have_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidConfig, match=r"offsets\.topic\.segment\.bytes"):
        BrokerConfig.from_properties({"offsets.topic.segment.bytes": "1000000"})
