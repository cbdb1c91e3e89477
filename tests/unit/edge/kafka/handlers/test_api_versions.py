"""ApiVersions."""

import struct
from typing import Any

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader

from barnabas.core.metadata.cluster import set_feature
from barnabas.edge.kafka.handlers.api_versions import answer_unknown_version
from barnabas.edge.kafka.registry import On, served_on
from barnabas.services.broker import Broker
from barnabas.wire.apis import API_VERSIONS
from barnabas.wire.frame import RequestHeader
from tests.unit.edge.kafka.support import ask, run

SOFTWARE = {"client_software_name": "apache-kafka-java", "client_software_version": "4.3.0"}


def test_everything_that_is_served_is_listed_and_produce_from_0() -> None:
    async def scenario(broker: Broker) -> None:
        answer = await ask(broker, API_VERSIONS, 4, **SOFTWARE)
        listed = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert list(listed) == sorted(served_on(On.CLIENTS))
        assert listed[0] == (0, 13)
        assert listed[1] == (4, 18)

    run(scenario)


def test_the_features_of_the_image_are_the_finalized_ones() -> None:
    async def scenario(broker: Broker) -> None:
        await broker.metadata.commit(lambda image: set_feature(image, "metadata.version", 25))
        answer = await ask(broker, API_VERSIONS, 3, **SOFTWARE)
        levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        assert levels == {
            "eligible.leader.replicas.version": 1,
            "group.version": 1,
            "kraft.version": 1,
            "metadata.version": 25,
            "share.version": 2,
            "transaction.version": 2,
        }
        assert answer.finalized_features_epoch == broker.metadata.applied_offset - 1

    run(scenario)


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "a\n", "ä"])
def test_a_software_name_that_cannot_be_is_refused_from_version_3_on(name: str) -> None:
    async def scenario(broker: Broker) -> None:
        answer = await ask(broker, API_VERSIONS, 3, client_software_name=name, client_software_version="1")
        assert answer.error_code.value == 42
        assert (await ask(broker, API_VERSIONS, 2)).error_code.value == 0

    run(scenario)


def test_an_unknown_version_is_answered_in_version_0_with_the_whole_list() -> None:
    data = b"".join(answer_unknown_version(RequestHeader(API_VERSIONS, 99, 77, None, 0), On.CLIENTS))
    length, correlation_id = struct.unpack_from(">ii", data)
    assert (length, correlation_id) == (len(data) - 4, 77)
    schema: Any = load_response_schema(18, 0)
    answer, size = entity_reader(schema)(data[8:], 0)
    assert size == len(data) - 8
    assert answer.error_code.value == 35
    assert len(answer.api_keys) == len(served_on(On.CLIENTS))
