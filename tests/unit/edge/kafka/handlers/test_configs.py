"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from typing import Any

import pytest

from barnabas.services.broker import Broker
from barnabas.wire.apis import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, LIST_CONFIG_RESOURCES
from tests.unit.edge.kafka.support import ask, config_of, create, run

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2


def resource(kind: int, name: str, **more: Any) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": None, **more}


def setting(name: str, value: str | None, operation: int = SET) -> dict[str, Any]:
    return {"name": name.replace("_", "."), "value": value, "config_operation": operation}


async def described(broker: Broker, kind: int, name: str, **more: Any) -> dict[str, Any]:
    request = {"resources": [resource(kind, name, **more)], "include_synonyms": True, "include_documentation": True}
    (result,) = (await ask(broker, DESCRIBE_CONFIGS, 4, **request)).results
    assert result.error_code.value == 0, result.error_message
    return {each.name: each for each in result.configs}


async def alter(broker: Broker, kind: int, name: str, *settings: dict[str, Any], **more: Any) -> int:
    request = {"resources": [resource(kind, name, configs=settings)], **more}
    (answer,) = (await ask(broker, INCREMENTAL_ALTER_CONFIGS, 1, **request)).responses
    assert (answer.error_message is None) is (answer.error_code.value == 0)
    return int(answer.error_code.value)


def test_a_topic_is_described_with_where_each_value_comes_from() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", retention_ms="5000")
        found = await described(broker, TOPIC, "a")
        assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("5000", 1)
        assert found["retention.ms"].config_type == 5
        assert found["retention.ms"].synonyms[0].source == 1
        assert found["retention.ms"].documentation
        assert (found["segment.bytes"].value, found["segment.bytes"].config_source) == ("1048576", 4)

    run(scenario, config_of(log_segment_bytes="1048576"))


def test_only_the_asked_for_keys_come_and_nothing_more_than_asked_for() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        wanted = resource(TOPIC, "a", configuration_keys=("retention.ms", "no.such"))
        (result,) = (await ask(broker, DESCRIBE_CONFIGS, 4, resources=[wanted])).results
        (config,) = result.configs
        assert (config.name, config.synonyms, config.documentation) == ("retention.ms", (), None)

    run(scenario)


def test_this_broker_is_described_and_what_was_altered_for_all() -> None:
    async def scenario(broker: Broker) -> None:
        assert await alter(broker, BROKER, "", setting("log.retention.ms", "7000")) == 0
        for_all = await described(broker, BROKER, "")
        assert {name: (each.value, each.config_source) for name, each in for_all.items()} == {
            "log.retention.ms": ("7000", 3),
            "min.insync.replicas": ("1", 3),  # which every cluster has
        }
        own = await described(broker, BROKER, "1")
        assert (own["node.id"].value, own["node.id"].read_only) == ("1", True)
        assert own["log.retention.ms"].value == "7000"

    run(scenario)


def test_what_was_altered_for_this_broker_counts_over_what_was_for_all() -> None:
    async def scenario(broker: Broker) -> None:
        assert await alter(broker, BROKER, "", setting("max.connections", "500")) == 0
        assert await alter(broker, BROKER, "1", setting("max.connections", "600")) == 0
        found = (await described(broker, BROKER, "1"))["max.connections"]
        assert (found.value, found.config_source, found.read_only) == ("600", 2, False)
        assert [(each.value, each.source) for each in found.synonyms] == [
            ("600", 2),
            ("500", 3),
            ("700", 4),
            ("10000", 5),
        ]
        for_all = (await described(broker, BROKER, ""))["max.connections"]
        assert (for_all.name, for_all.value, for_all.config_source, for_all.read_only) == (
            "max.connections",
            "500",
            3,
            False,
        )
        assert broker.live.current.max_connections == 600
        assert await alter(broker, BROKER, "1", setting("max.connections", None, DELETE)) == 0
        assert broker.live.current.max_connections == 500

    run(scenario, config_of(max_connections="700"))


def test_only_what_can_be_altered_is_not_read_only() -> None:
    async def scenario(broker: Broker) -> None:
        found = await described(broker, BROKER, "1")
        alterable = {
            "max.connections.per.ip",
            "max.connections.per.ip.overrides",
            "max.connections",
            "num.io.threads",
            "log.cleaner.backoff.ms",
            "producer.id.expiration.ms",
        }
        alterable |= {
            "leader.replication.throttled.rate",
            "message.max.bytes",
            "min.insync.replicas",
            "log.retention.ms",
            "background.threads",
        }
        fixed = {"listeners", "node.id", "log.dirs", "num.partitions", "log.retention.hours", "log.cleaner.enable"}
        assert all(not found[name].read_only for name in alterable)
        assert all(found[name].read_only for name in fixed)

    run(scenario)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "not-there", 3),
        (TOPIC, "no way", 17),
        (BROKER, "2", 42),
        (BROKER, "one", 42),
        (LOGGER, "", 42),
        (LOGGER, "2", 42),
        (METRICS, "", 42),
        (GROUP, "", 42),
        (99, "x", 42),
    ],
)
def test_a_resource_that_is_not_here_is_refused_alone(kind: int, name: str, code: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        request = {"resources": [resource(kind, name), resource(TOPIC, "a")]}
        refused, fine = (await ask(broker, DESCRIBE_CONFIGS, 1, **request)).results
        assert (refused.error_code.value, refused.configs) == (code, ())
        assert fine.error_code.value == 0

    run(scenario)


def test_what_has_no_settings_here_is_described_as_having_none() -> None:
    async def scenario(broker: Broker) -> None:
        assert await described(broker, METRICS, "m") == {}

    run(scenario)


def test_single_settings_are_set_appended_and_deleted() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", retention_ms="5000")
        changes = (setting("retention.ms", None, DELETE), setting("cleanup.policy", "compact", APPEND))
        assert await alter(broker, TOPIC, "a", *changes) == 0
        assert dict(broker.image.config_of(TOPIC, "a")) == {"cleanup.policy": "delete,compact"}
        assert broker.served.get("a").config.log.is_compacted

    run(scenario)


def test_validating_alters_nothing() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        assert await alter(broker, TOPIC, "a", setting("retention.ms", "1"), validate_only=True) == 0
        assert await alter(broker, TOPIC, "a", setting("retention.ms", "x"), validate_only=True) == 40
        assert not broker.image.config_of(TOPIC, "a")

    run(scenario)


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (TOPIC, "not-there", setting("retention.ms", "1"), 3),
        (TOPIC, "a", setting("no.such", "1"), 40),
        (TOPIC, "a", setting("retention.ms", "soon"), 40),
        (TOPIC, "a", setting("retention.ms", None), 42),
        (TOPIC, "a", setting("retention.ms", "1", 9), 42),
        (TOPIC, "a", setting("retention.ms", "1", APPEND), 40),
        (BROKER, "1", setting("num.partitions", "3"), 42),
        (BROKER, "", setting("listeners", "PLAINTEXT://:1"), 42),
        (BROKER, "", setting("log.retention.ms", "soon"), 42),
        (BROKER, "1", setting("max.connections", "0"), 42),
        (BROKER, "1", setting("max.connections", "1", APPEND), 40),
        (BROKER, "1", setting("num.io.threads", "9"), 42),
        (BROKER, "1", setting("num.io.threads", "1"), 42),
        (BROKER, "1", setting("no.such", "1"), 40),
        (BROKER, "1", setting("no.such", "1", APPEND), 40),
        (BROKER, "2", setting("log.retention.ms", "3"), 42),
        (METRICS, "m", setting("interval.ms", "1000"), 42),
        (GROUP, "", setting("consumer.session.timeout.ms", "50000"), 42),
        (GROUP, "g", setting("streams.session.timeout.ms", "50000"), 40),
        (GROUP, "g", setting("share.session.timeout.ms", "70000"), 40),
        (GROUP, "g", setting("share.auto.offset.reset", "by_duration:x"), 40),
        (GROUP, "g", setting("share.isolation.level", "snapshot"), 40),
        (GROUP, "g", setting("consumer.session.timeout.ms", "soon"), 40),
        (GROUP, "g", setting("consumer.session.timeout.ms", "44999"), 40),
        (GROUP, "g", setting("consumer.session.timeout.ms", "60001"), 40),
        (GROUP, "g", setting("consumer.heartbeat.interval.ms", "4999"), 40),
        (GROUP, "g", setting("consumer.heartbeat.interval.ms", "15001"), 40),
        (GROUP, "g", setting("consumer.assignment.interval.ms", "15001"), 40),
        (GROUP, "g", setting("consumer.session.timeout.ms", None), 42),
        (GROUP, "g", setting("consumer.session.timeout.ms", "50000", APPEND), 40),
        (99, "x", setting("x", "1"), 42),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(kind: int, name: str, change: dict[str, Any], code: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        before = broker.metadata.applied_offset
        assert await alter(broker, kind, name, change) == code
        assert broker.metadata.applied_offset == before

    run(scenario)


def test_a_resource_or_a_setting_that_comes_twice_is_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        await create(broker, "b")
        change = setting("retention.ms", "1")
        twice = resource(TOPIC, "a", configs=[change])
        request = {"resources": [twice, twice, resource(TOPIC, "b", configs=[change, change])]}
        for api, version in ((INCREMENTAL_ALTER_CONFIGS, 0), (ALTER_CONFIGS, 0)):
            answers = (await ask(broker, api, version, **request)).responses
            assert [each.error_code.value for each in answers] == [42, 42, 42]

    run(scenario)


def test_replacing_drops_what_is_left_out() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", retention_ms="5000")
        await alter(broker, BROKER, "", setting("log.retention.ms", "7000"))
        resources = [
            resource(TOPIC, "a", configs=[setting("segment.bytes", "1048576")]),
            resource(
                BROKER, "", configs=[setting("log.segment.bytes", "2097152"), setting("min.insync.replicas", "1")]
            ),
        ]
        answers = (await ask(broker, ALTER_CONFIGS, 2, resources=resources, validate_only=True)).responses
        assert [each.error_code.value for each in answers] == [0, 0]
        assert "retention.ms" in broker.image.config_of(TOPIC, "a")
        await ask(broker, ALTER_CONFIGS, 2, resources=resources)
        assert dict(broker.image.config_of(TOPIC, "a")) == {"segment.bytes": "1048576"}
        for_all = {"log.segment.bytes": "2097152", "min.insync.replicas": "1"}
        assert dict(broker.image.config_of(BROKER, "")) == for_all

    run(scenario)


def test_replacing_refuses_null_and_what_only_a_start_sets() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        resources = [
            resource(TOPIC, "a", configs=[setting("retention.ms", None)]),
            resource(BROKER, "1", configs=[setting("log.retention.ms", None)]),
            resource(BROKER, "", configs=[setting("listeners", "x")]),
        ]
        answers = (await ask(broker, ALTER_CONFIGS, 2, resources=resources)).responses
        assert [each.error_code.value for each in answers] == [42, 42, 42]

    run(scenario)


def test_a_default_reaches_topics_and_is_refused_where_one_cannot_have_it() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", max_compaction_lag_ms="1000")
        assert await alter(broker, BROKER, "", setting("log.cleaner.min.compaction.lag.ms", "5000")) == 40
        assert "log.cleaner.min.compaction.lag.ms" not in broker.image.config_of(BROKER, "")
        assert await alter(broker, BROKER, "1", setting("log.cleaner.min.compaction.lag.ms", "500")) == 0
        assert broker.served.get("a").config.log.min_compaction_lag_ms == 500
        assert await alter(broker, TOPIC, "a", setting("max.compaction.lag.ms", "100")) == 40

    run(scenario)


def test_what_has_settings_is_listed() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        answer = await ask(broker, LIST_CONFIG_RESOURCES, 1)
        assert {(each.resource_type, each.resource_name) for each in answer.config_resources} == {
            (TOPIC, "a"),
            (BROKER, "1"),
            (LOGGER, "1"),
        }
        topics = await ask(broker, LIST_CONFIG_RESOURCES, 1, resource_types=(TOPIC,))
        assert [each.resource_name for each in topics.config_resources] == ["a"]
        assert (await ask(broker, LIST_CONFIG_RESOURCES, 1, resource_types=(3,))).error_code.value == 35
        assert (await ask(broker, LIST_CONFIG_RESOURCES, 0)).config_resources == ()

    run(scenario)


SHARE_DEFAULTS = {
    "errors.deadletterqueue.copy.record.enable": ("false", 5),
    "errors.deadletterqueue.topic.name": ("", 5),
    "share.auto.offset.reset": ("latest", 5),
    "share.delivery.count.limit": ("5", 5),
    "share.heartbeat.interval.ms": ("5000", 5),
    "share.isolation.level": ("read_uncommitted", 5),
    "share.partition.max.record.locks": ("2000", 5),
    "share.record.lock.duration.ms": ("30000", 5),
    "share.renew.acknowledge.enable": ("true", 5),
    "share.partition.max.waiting.records": ("10000", 5),
    "share.retry.backoff.max.ms": ("60000", 5),
    "share.retry.backoff.ms": ("0", 5),
    "share.session.timeout.ms": ("45000", 5),
}


def test_a_group_is_described_with_its_own_settings_over_those_of_the_broker() -> None:
    async def scenario(broker: Broker) -> None:
        assert await alter(broker, GROUP, "g", setting("consumer.session.timeout.ms", "50000")) == 0
        found = await described(broker, GROUP, "g")
        assert {name: (each.value, each.config_source) for name, each in found.items()} == {
            **SHARE_DEFAULTS,
            "consumer.assignment.interval.ms": ("1000", 5),
            "consumer.assignor.offload.enable": ("true", 5),
            "consumer.heartbeat.interval.ms": ("6000", 4),
            "consumer.session.timeout.ms": ("50000", 8),
        }
        assert [(each.name, each.value, each.source) for each in found["consumer.session.timeout.ms"].synonyms] == [
            ("consumer.session.timeout.ms", "50000", 8),
            ("group.consumer.session.timeout.ms", "45000", 5),
        ]
        assert found["consumer.session.timeout.ms"].documentation

    run(scenario, config_of(group_consumer_heartbeat_interval_ms="6000"))


def test_a_group_that_was_never_used_is_described_with_the_settings_of_the_broker() -> None:
    async def scenario(broker: Broker) -> None:
        found = await described(broker, GROUP, "never")
        assert (found["consumer.session.timeout.ms"].value, found["consumer.session.timeout.ms"].config_source) == (
            "45000",
            5,
        )

    run(scenario)


def test_settings_of_a_group_are_altered_replaced_listed_and_dropped() -> None:
    async def scenario(broker: Broker) -> None:
        for name, value in (("consumer.session.timeout.ms", "50000"), ("consumer.heartbeat.interval.ms", "7000")):
            assert await alter(broker, GROUP, "g", setting(name, value)) == 0
        listed = await ask(broker, LIST_CONFIG_RESOURCES, 1, resource_types=(GROUP,))
        assert [(each.resource_type, each.resource_name) for each in listed.config_resources] == [(GROUP, "g")]
        only = [resource(GROUP, "g", configs=[setting("consumer.heartbeat.interval.ms", "8000")])]
        (answer,) = (await ask(broker, ALTER_CONFIGS, 2, resources=only)).responses
        assert answer.error_code.value == 0
        assert dict(broker.image.config_of(GROUP, "g")) == {"consumer.heartbeat.interval.ms": "8000"}
        assert await alter(broker, GROUP, "g", setting("consumer.heartbeat.interval.ms", None, DELETE)) == 0
        assert (await ask(broker, LIST_CONFIG_RESOURCES, 1, resource_types=(GROUP,))).config_resources == ()

    run(scenario)


def test_a_group_cannot_be_told_to_heartbeat_less_often_than_its_sessions_last() -> None:
    async def scenario(broker: Broker) -> None:
        assert await alter(broker, GROUP, "g", setting("consumer.heartbeat.interval.ms", "9000")) == 40
        both = (setting("consumer.heartbeat.interval.ms", "9000"), setting("consumer.session.timeout.ms", "45000"))
        assert await alter(broker, GROUP, "g", *both) == 0
        assert await alter(broker, GROUP, "g", setting("consumer.session.timeout.ms", None, DELETE)) == 40
        null = [resource(GROUP, "g", configs=[setting("consumer.session.timeout.ms", None)])]
        (answer,) = (await ask(broker, ALTER_CONFIGS, 2, resources=null)).responses
        assert answer.error_code.value == 42

    run(scenario, config_of(group_consumer_session_timeout_ms="8000"))
