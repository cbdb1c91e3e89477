"""CreatePartitions."""

from typing import Any

import pytest

from barnabas.services.broker import Broker
from barnabas.wire.apis import CREATE_PARTITIONS
from tests.unit.edge.kafka.support import ask, create, run


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_topic_grows_unless_that_is_only_to_be_seen(validate_only: bool) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", 2)
        request = {"topics": [{"name": "a", "count": 5}], "validate_only": validate_only}
        (answer,) = (await ask(broker, CREATE_PARTITIONS, 3, **request)).results
        assert (answer.name, answer.error_code.value, answer.error_message) == ("a", 0, None)
        assert len(broker.served.get("a").partitions) == (2 if validate_only else 5)

    run(scenario)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ({"name": "not-there", "count": 5}, 3),
        ({"name": "a", "count": 2}, 37),
        ({"name": "a", "count": 1}, 37),
        ({"name": "a", "count": 3, "assignments": [{"broker_ids": (9,)}]}, 39),
        ({"name": "a", "count": 4, "assignments": [{"broker_ids": (1,)}]}, 39),
    ],
)
def test_what_cannot_grow_so_is_refused(topic: dict[str, Any], code: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", 2)
        await create(broker, "b", 2)
        refused, fine = (await ask(broker, CREATE_PARTITIONS, 0, topics=[topic, {"name": "b", "count": 3}])).results
        assert (refused.error_code.value, fine.error_code.value) == (code, 0)

    run(scenario)


def test_assignments_are_for_the_new_partitions_and_names_come_once() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", 2)
        grown = {"name": "a", "count": 3, "assignments": [{"broker_ids": (1,)}]}
        twice = {"name": "b", "count": 3}
        answers = (await ask(broker, CREATE_PARTITIONS, 1, topics=[grown, twice, twice])).results
        assert [(each.name, each.error_code.value) for each in answers] == [("a", 0), ("b", 42)]

    run(scenario)
