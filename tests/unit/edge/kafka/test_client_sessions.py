"""The session of a connection: what it knows of its client, and the throttle time that it has every answer tell."""

from dataclasses import fields
from typing import Any

import pytest
from kio.index import load_response_schema

from barnabas.services.broker import Broker
from barnabas.services.session import ANONYMOUS, Software
from barnabas.wire.apis import API_VERSIONS, FETCH, HEARTBEAT, INIT_PRODUCER_ID, METADATA, PRODUCE, Api
from tests.support.served import versions_of
from tests.unit.edge.kafka.calling import Caller, batch, frame_of
from tests.unit.edge.kafka.support import create, run

THROTTLE_MS = 1234


def test_a_session_knows_where_its_client_came_from_and_what_it_calls_itself() -> None:
    async def scenario(broker: Broker) -> None:
        caller = Caller(broker)
        session = caller.client.session
        assert (str(session.principal), session.client_id) == ("User:ANONYMOUS", None)
        assert (session.listener, session.peer, session.local) == ("PLAINTEXT", ("127.0.0.1", 1), ("127.0.0.1", 2))
        await caller.send(frame_of(METADATA, 0, bytes(4), client_id=b"first")).read()
        assert session.client_id == "first"
        await caller.send(frame_of(METADATA, 0, bytes(4), client_id=b"second")).read()
        assert session.client_id == "second"
        assert session.principal is ANONYMOUS

    run(scenario)


def test_a_session_knows_the_software_once_the_client_has_said_it() -> None:
    async def scenario(broker: Broker) -> None:
        caller = Caller(broker)
        session = caller.client.session
        await caller.request(API_VERSIONS, 2).read()
        assert session.software == Software("", "")
        bad = caller.request(API_VERSIONS, 3, client_software_name="-", client_software_version="1")
        assert (await bad.read()).error_code.value == 42
        assert session.software == Software("", "")
        await caller.request(API_VERSIONS, 3, client_software_name="lib-x", client_software_version="1.2").read()
        assert session.software == Software("lib-x", "1.2")
        assert Caller(broker).client.session.software == Software("", "")

    run(scenario)


@pytest.mark.parametrize("api", [METADATA, HEARTBEAT, INIT_PRODUCER_ID, API_VERSIONS], ids=lambda api: api.name)
def test_every_version_that_has_the_field_tells_the_throttle_time(api: Api) -> None:
    async def scenario(broker: Broker) -> None:
        caller = Caller(broker)
        software = {"client_software_name": "a", "client_software_version": "1"}
        for version in versions_of(api):
            has_field = "throttle_time" in {each.name for each in fields(load_response_schema(api.key, version))}
            for throttle_ms in (0, THROTTLE_MS):
                caller.client.session.throttle_ms = throttle_ms
                answer = await caller.request(api, version, **software).read()
                if has_field:
                    assert _ms(answer) == throttle_ms
        assert has_field

    run(scenario)


@pytest.mark.parametrize("version", versions_of(PRODUCE))
def test_produce_tells_the_throttle_time(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", partitions=2)
        caller = Caller(broker)
        for throttle_ms in (0, THROTTLE_MS):
            caller.client.session.throttle_ms = throttle_ms
            for acks in (1, -1):
                assert _ms(await caller.produce("a", batch(b"v"), acks=acks, version=version).read()) == throttle_ms
            two = await caller.produce("a", batch(b"v"), batch(b"v"), version=version).read()
            refused = await caller.produce("a", batch(b"v"), partition=7, version=version).read()
            assert (_ms(two), _ms(refused)) == (throttle_ms, throttle_ms)

    run(scenario)


@pytest.mark.parametrize("version", versions_of(FETCH))
def test_fetch_tells_the_throttle_time(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", partitions=300)
        caller = Caller(broker)
        await caller.produced("a", batch(b"v"))
        many = [("a", partition, 0) for partition in range(300)]
        for throttle_ms in (0, THROTTLE_MS):
            caller.client.session.throttle_ms = throttle_ms
            assert _ms(await caller.fetch(("a", 0, 0), version=version).read()) == throttle_ms
            assert _ms(await caller.fetch(*many, version=version).read()) == throttle_ms
            assert _ms(await caller.fetch(("a", 0, 0), version=version, session=(9, 9)).read()) == throttle_ms

    run(scenario)


def _ms(answer: Any) -> int:
    return int(answer.throttle_time.total_seconds() * 1000)
