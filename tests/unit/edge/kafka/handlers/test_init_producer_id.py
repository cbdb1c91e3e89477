"""InitProducerId."""

from typing import Any

import pytest

from barnabas.services.broker import Broker
from barnabas.wire.apis import INIT_PRODUCER_ID
from tests.unit.edge.kafka.support import ask, run


def test_every_idempotent_producer_gets_an_id_of_its_own() -> None:
    async def scenario(broker: Broker) -> None:
        first = await ask(broker, INIT_PRODUCER_ID, 0, transactional_id=None)
        again = {"producer_id": first.producer_id, "producer_epoch": 3}
        second = await ask(broker, INIT_PRODUCER_ID, 5, transactional_id=None, **again)
        assert (first.error_code.value, first.producer_epoch, second.producer_epoch) == (0, 0, 0)
        assert second.producer_id != first.producer_id

    run(scenario)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"transactional_id": ""}, 42),
        ({"transactional_id": None, "producer_id": 5, "producer_epoch": -1}, 42),
        ({"transactional_id": None, "producer_id": -1, "producer_epoch": 0}, 42),
    ],
)
def test_contradictions_are_refused(request_: dict[str, Any], code: int) -> None:
    async def scenario(broker: Broker) -> None:
        answer = await ask(broker, INIT_PRODUCER_ID, 4, **request_)
        assert (answer.error_code.value, answer.producer_id, answer.producer_epoch) == (code, -1, -1)

    run(scenario)


def test_a_disk_that_failed_is_an_answer() -> None:
    async def scenario(broker: Broker) -> None:
        broker.logs.data_dir.health.offline_reason = "the disk is gone"
        answer = await ask(broker, INIT_PRODUCER_ID, 4, transactional_id=None)
        broker.logs.data_dir.health.offline_reason = None
        assert answer.error_code.value == 56

    run(scenario)
