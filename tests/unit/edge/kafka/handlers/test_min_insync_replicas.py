"""min.insync.replicas: one value for the whole cluster, as in Kafka with eligible leader replicas (KIP-966)."""

from typing import Any

import pytest

from barnabas.core.metadata.cluster import keep_min_insync_replicas
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import ConfigRecord
from barnabas.services.broker import Broker
from barnabas.wire.apis import ALTER_CONFIGS, API_VERSIONS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from tests.unit.edge.kafka.support import ask, config_of, create, run
from tests.unit.services.group_world import GroupWorld, run_world

NAME = "min.insync.replicas"
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
TOPIC_CONFIG, DYNAMIC_DEFAULT, STATIC, DEFAULT = 1, 3, 4, 5


async def described(broker: Broker, kind: int, name: str) -> Any:
    wanted = {"resource_type": kind, "resource_name": name, "configuration_keys": (NAME,)}
    (result,) = (await ask(broker, DESCRIBE_CONFIGS, 4, resources=[wanted], include_synonyms=True)).results
    (config,) = result.configs
    return config


async def alter(
    broker: Broker, kind: int, name: str, value: str | None, operation: int = SET
) -> tuple[int, str | None]:
    configs = [{"name": NAME, "value": value, "config_operation": operation}]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    (answer,) = (await ask(broker, INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])).responses
    return int(answer.error_code.value), answer.error_message


def test_a_topic_has_it_from_the_cluster() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        for kind, name in ((TOPIC, "a"), (BROKER, "1")):
            found = await described(broker, kind, name)
            assert (found.value, found.config_source) == ("1", DYNAMIC_DEFAULT)
            assert [(each.value, each.source) for each in found.synonyms] == [("1", DYNAMIC_DEFAULT), ("1", DEFAULT)]
        assert await alter(broker, TOPIC, "a", "2") == (0, None)
        assert (await described(broker, TOPIC, "a")).config_source == TOPIC_CONFIG

    run(scenario)


def test_what_the_first_start_says_is_the_value_of_the_cluster() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        found = await described(broker, TOPIC, "a")
        assert [(each.value, each.source) for each in found.synonyms] == [
            ("2", DYNAMIC_DEFAULT),
            ("2", STATIC),
            ("1", DEFAULT),
        ]
        assert broker.served.get("a").config.min_insync_replicas == 2

    run(scenario, config_of(min_insync_replicas="2"))


def test_it_is_altered_for_all_brokers_and_not_for_one_nor_removed() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        assert await alter(broker, BROKER, "", "2") == (0, None)
        assert broker.served.get("a").config.min_insync_replicas == 2
        code, message = await alter(broker, BROKER, "1", "3")
        assert (code, NAME in (message or "")) == (40, True)
        code, message = await alter(broker, BROKER, "", None, DELETE)
        assert (code, NAME in (message or "")) == (40, True)
        resource = {"resource_type": BROKER, "resource_name": "", "configs": ()}
        (answer,) = (await ask(broker, ALTER_CONFIGS, 2, resources=[resource])).responses
        assert answer.error_code.value == 40  # replacing all would remove it
        assert broker.image.config_of(BROKER, "")[NAME] == "2"

    run(scenario)


def test_the_feature_that_this_belongs_to_is_in_use() -> None:
    async def scenario(broker: Broker) -> None:
        request = {"client_software_name": "test", "client_software_version": "1"}
        answer = await ask(broker, API_VERSIONS, 4, **request)
        levels = {each.name: each.max_version_level for each in answer.finalized_features}
        assert levels["eligible.leader.replicas.version"] == 1

    run(scenario)


def test_another_start_does_not_change_it_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: GroupWorld) -> None:
        await world.restart(how="stop", min_insync_replicas="2")
        assert world._node is not None
        assert world._node.broker is not None
        assert world._node.broker.live.current.topic_defaults[NAME] == "1"
        assert "min.insync.replicas=2 is not used" in caplog.text

    run_world(scenario)


def test_what_single_brokers_had_of_it_is_removed_when_the_cluster_gets_one() -> None:
    image = Image()
    image.apply(ConfigRecord(BROKER, "1", NAME, "3"))
    image.apply(ConfigRecord(BROKER, "1", "max.connections", "5"))
    decision = keep_min_insync_replicas(image, "2")
    for record in decision.records:
        image.apply(record)
    assert (decision.reply, image.config_of(BROKER, "")[NAME]) == ("2", "2")
    assert dict(image.config_of(BROKER, "1")) == {"max.connections": "5"}
    assert keep_min_insync_replicas(image, "7") == ([], "2")
