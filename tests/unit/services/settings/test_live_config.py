"""Settings that are altered while a broker runs: what counts, and who hears of it."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

import pytest

from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import ConfigRecord, TopicRecord
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.live_config import LiveConfig
from barnabas.services.settings.resolution import effective_config
from barnabas.wire.apis import INCREMENTAL_ALTER_CONFIGS
from tests.unit.services.group_world import GroupClient, GroupWorld, run_world

BROKER = 4
START = BrokerConfig.from_properties({"max.connections": "700", "node.id": "1"})


@dataclass
class Now:
    """The image of the moment."""

    image: Image


def altered(image: Image, live: LiveConfig, name: str, key: str, value: str | None) -> None:
    record = ConfigRecord(BROKER, name, key, value)
    image.apply(record)
    live.apply([record])


def test_a_listener_has_the_settings_at_once_and_after_each_change() -> None:
    image = Image()
    live = LiveConfig(START, Now(image))
    heard: list[int] = []
    live.subscribe(lambda config: heard.append(config.max_connections))
    altered(image, live, "", "max.connections", "500")
    altered(image, live, "1", "max.connections", "600")
    altered(image, live, "", "max.connections", "400")  # this broker has its own: nothing changes
    altered(image, live, "2", "max.connections", "300")
    altered(image, live, "1", "max.connections", None)
    altered(image, live, "", "max.connections", None)
    assert heard == [700, 500, 600, 400, 700]
    live.apply([TopicRecord("t", UUID(int=1))])
    assert len(heard) == 5


def test_settings_follow_an_image_that_is_replaced_by_another() -> None:
    now = Now(Image())
    live = LiveConfig(START, now)
    record = ConfigRecord(BROKER, "", "max.connections", "500")
    now.image = Image()
    now.image.apply(record)
    live.apply([record])
    assert live.current.max_connections == 500


def test_what_was_altered_counts_from_the_next_start_on() -> None:
    image = Image()
    image.apply(ConfigRecord(BROKER, "", "max.connections", "500"))
    assert LiveConfig(START, Now(image)).current.max_connections == 500


def test_what_cannot_be_had_any_more_is_passed_over_alone(caplog: pytest.LogCaptureFixture) -> None:
    image = Image()
    for name, value in (("max.connections", "0"), ("log.retention.ms", "soon"), ("num.io.threads", "6")):
        image.apply(ConfigRecord(BROKER, "", name, value))
    live = LiveConfig(START, Now(image))
    assert (live.current.max_connections, live.current.num_io_threads) == (700, 6)
    assert "retention.ms" not in live.current.topic_defaults
    assert len(caplog.records) == 2
    assert effective_config(image, START) == live.current


async def alter(client: GroupClient, name: str, value: str) -> int:
    configs = [{"name": name, "value": value, "config_operation": 0}]
    resource = {"resource_type": BROKER, "resource_name": "", "configs": configs}
    request = {"resources": [resource], "validate_only": False}
    answer = await client.wire.ask(INCREMENTAL_ALTER_CONFIGS, 1, request)
    return int(answer.responses[0].error_code)


def test_a_running_node_takes_fewer_connections_and_then_more() -> None:
    async def scenario(world: GroupWorld) -> None:
        first = await world.connect()
        assert await alter(first, "max.connections", "1") == 0
        second = await world.connect()
        with pytest.raises((OSError, EOFError, asyncio.IncompleteReadError)):
            await alter(second, "max.connections", "5")
        assert await alter(first, "max.connections", "2") == 0
        third = await world.connect()
        assert await alter(third, "log.cleaner.backoff.ms", "100") == 0

    run_world(scenario)
