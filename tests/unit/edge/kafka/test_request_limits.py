"""What is one decision however large it is has a limit: more is refused, and nothing is done."""

from typing import Any

import pytest

from barnabas.edge.kafka.answering import MAX_REQUEST_BYTES
from barnabas.services.broker import Broker
from barnabas.wire.apis import APIS, FETCH, METADATA, Api
from barnabas.wire.errors import MalformedRequest
from tests.support.served import versions_of
from tests.unit.edge.kafka.calling import Caller
from tests.unit.edge.kafka.support import run

INVALID_REQUEST = 42
MEMBER_ID_REQUIRED = 79


def leave(count: int) -> dict[str, Any]:
    return {"group_id": "g", "members": [{"member_id": f"m-{number}"} for number in range(count)]}


def join(count: int) -> dict[str, Any]:
    protocols = [{"name": f"p-{number}", "metadata": b""} for number in range(count)]
    timeouts = {"session_timeout": 30_000, "rebalance_timeout": 30_000}
    return {"group_id": "g", "protocol_type": "consumer", "protocols": protocols, **timeouts}


def heartbeat(count: int) -> dict[str, Any]:
    names = [f"t-{number}" for number in range(count)]
    member = {"member_id": "m", "rebalance_timeout": 30_000, "topic_partitions": []}
    return {"group_id": "consumers", "subscribed_topic_names": names, **member}


@pytest.mark.parametrize(
    ("key", "version", "values", "code"),
    [
        (13, 5, leave(10_000), 0),
        (13, 5, leave(10_001), INVALID_REQUEST),
        (11, 9, join(1000), MEMBER_ID_REQUIRED),
        (11, 9, join(1001), INVALID_REQUEST),
        (68, 1, heartbeat(10_000), 0),
        (68, 1, heartbeat(10_001), INVALID_REQUEST),
    ],
    ids=["members", "too many members", "protocols", "too many protocols", "topics", "too many topics"],
)
def test_as_much_as_is_allowed_is_taken_and_no_more(key: int, version: int, values: dict[str, Any], code: int) -> None:
    async def scenario(broker: Broker) -> None:
        response = await Caller(broker).request(APIS[key], version, **values).read()

        assert response.error_code.value == code

    run(scenario)


@pytest.mark.parametrize("api", [FETCH, METADATA], ids=lambda api: api.name)
def test_a_request_without_records_has_a_limit_of_its_own(api: Api) -> None:
    async def scenario(broker: Broker) -> None:
        head = api.key.to_bytes(2, "big") + versions_of(api)[-1].to_bytes(2, "big") + bytes(7)
        with pytest.raises(MalformedRequest, match="the maximum is 33554432"):
            Caller(broker).send(head + bytes(MAX_REQUEST_BYTES))

    run(scenario)
