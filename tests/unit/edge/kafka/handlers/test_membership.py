"""BrokerRegistration, BrokerHeartbeat, AllocateProducerIds and UnregisterBroker, as bytes; and who sends them."""

import asyncio
from typing import Any, cast
from uuid import UUID

import msgspec
import pytest

from barnabas.core.errors import (
    BarnabasError,
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    NotController,
    RequestTimedOut,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from barnabas.core.metadata.brokers import Heartbeat, HeartbeatReply, Registration
from barnabas.core.metadata.isr import IsrChange
from barnabas.core.metadata.records import Endpoint
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import FORWARDED, On, served_on
from barnabas.edge.kafka.remote_controller import RemoteController
from barnabas.runtime.controller_link import ControllerLink
from barnabas.services.broker import Broker
from barnabas.services.features import SUPPORTED_FEATURES
from barnabas.wire.apis import (
    ALLOCATE_PRODUCER_IDS,
    APIS,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    UNREGISTER_BROKER,
)
from barnabas.wire.frame import RequestHeader
from barnabas.wire.reading import read_struct
from barnabas.wire.reading_values import Body
from barnabas.wire.requests import read_request, write_request
from barnabas.wire.responses import write_response
from barnabas.wire.schemas import response_schema
from tests.support.served import HANDLERS, versions_of
from tests.unit.edge.kafka.support import NODE_ID, ask, new_session, run, through_bytes

OTHER = 5
NOT_CONTROLLER, INVALID_REQUEST, UNSUPPORTED_VERSION = 41, 42, 35
STALE_EPOCH, DUPLICATE, NOT_REGISTERED, INCONSISTENT_CLUSTER = 77, 101, 102, 104
LISTENERS = [
    {"name": "PLAINTEXT", "host": "h", "port": 9092, "security_protocol": 0},
    {"name": "OUTSIDE", "host": "o", "port": 65535, "security_protocol": 0},
]
FEATURES = [
    {"name": name, "min_supported_version": lowest, "max_supported_version": highest}
    for name, (lowest, highest) in SUPPORTED_FEATURES.items()
]


def request(broker: Broker, **fields: Any) -> dict[str, Any]:
    return {
        "broker_id": OTHER,
        "cluster_id": broker.image.cluster_id,
        "incarnation_id": UUID(int=1),
        "listeners": LISTENERS,
        "features": FEATURES,
        "rack": "r",
        "log_dirs": (UUID(int=2),),
        **fields,
    }


async def register(broker: Broker, version: int = 4, **fields: Any) -> tuple[int, int]:
    answer = await ask(broker, BROKER_REGISTRATION, version, **request(broker, **fields))
    return answer.error_code.value, answer.broker_epoch


async def beat(broker: Broker, epoch: int, *, node_id: int = OTHER, version: int = 1, **wants: Any) -> Any:
    fields = {"broker_id": node_id, "broker_epoch": epoch, "current_metadata_offset": epoch, **wants}
    return await ask(broker, BROKER_HEARTBEAT, version, **fields)


def test_they_are_served_to_nodes_alone_and_unregistering_to_everybody() -> None:
    for api in (BROKER_REGISTRATION, BROKER_HEARTBEAT, ALLOCATE_PRODUCER_IDS):
        assert api.key in served_on(On.CONTROLLERS)
        assert api.key not in served_on(On.CLIENTS)
    assert UNREGISTER_BROKER.key in FORWARDED


@pytest.mark.parametrize("version", versions_of(BROKER_REGISTRATION))
def test_a_broker_registers_with_all_its_listeners_and_is_let_in_by_a_heartbeat(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        code, epoch = await register(broker, version)
        assert code == 0
        node = broker.image.nodes[OTHER]
        assert (node.epoch, node.is_fenced, node.rack, node.incarnation) == (epoch, True, "r", UUID(int=1))
        assert node.endpoints == (Endpoint("PLAINTEXT", "h", 9092), Endpoint("OUTSIDE", "o", 65535))
        assert node.directory_id == (UUID(int=2) if version >= 2 else None)

        answer = await beat(broker, epoch)

        assert (answer.error_code.value, answer.is_caught_up, answer.is_fenced) == (0, True, False)
        assert broker.image.is_active(OTHER)

    run(scenario)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "another"}, INCONSISTENT_CLUSTER),
        ({"cluster_id": ""}, INCONSISTENT_CLUSTER),
        ({"is_migrating_zk_broker": True}, INVALID_REQUEST),
        ({"incarnation_id": None}, INVALID_REQUEST),
        ({"broker_id": -1}, INVALID_REQUEST),
        ({"listeners": []}, INVALID_REQUEST),
        ({"listeners": [LISTENERS[0], LISTENERS[0]]}, INVALID_REQUEST),
        ({"listeners": [{**LISTENERS[0], "port": 0}]}, INVALID_REQUEST),
        ({"listeners": [{**LISTENERS[0], "host": ""}]}, INVALID_REQUEST),
        ({"log_dirs": ()}, INVALID_REQUEST),
        ({"log_dirs": (UUID(int=1), UUID(int=2))}, INVALID_REQUEST),
        ({"log_dirs": (None,)}, INVALID_REQUEST),
        ({"features": FEATURES[1:]}, UNSUPPORTED_VERSION),
        ({"broker_id": NODE_ID}, DUPLICATE),
    ],
)
def test_a_registration_that_cannot_be_is_refused_and_changes_nothing(fields: dict[str, Any], code: int) -> None:
    async def scenario(broker: Broker) -> None:
        before = broker.metadata.applied_offset
        assert await register(broker, **fields) == (code, -1)
        assert broker.metadata.applied_offset == before

    run(scenario)


@pytest.mark.parametrize("version", versions_of(BROKER_HEARTBEAT))
def test_heartbeats_of_others_are_refused(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        _, epoch = await register(broker)
        assert (await beat(broker, epoch + 1, version=version)).error_code.value == STALE_EPOCH
        assert (await beat(broker, epoch, node_id=9, version=version)).error_code.value == NOT_REGISTERED
        assert (await beat(broker, epoch, version=version, want_fence=True)).is_fenced

    run(scenario)


def test_a_broker_whose_directory_is_offline_is_fenced() -> None:
    async def scenario(broker: Broker) -> None:
        _, epoch = await register(broker)
        await beat(broker, epoch)
        assert (await beat(broker, epoch, offline_log_dirs=(UUID(int=2),))).is_fenced
        assert broker.image.nodes[OTHER].is_fenced

    run(scenario)


def test_a_broker_leaves_when_all_active_brokers_have_heard_of_it() -> None:
    async def scenario(broker: Broker) -> None:
        _, epoch = await register(broker)
        await beat(broker, epoch)
        assert not (await beat(broker, epoch, want_shut_down=True)).should_shut_down
        assert (await beat(broker, epoch, want_shut_down=True)).should_shut_down  # the only other one is here

    run(scenario)


def test_blocks_of_producer_ids_are_for_registered_brokers() -> None:
    async def scenario(broker: Broker) -> None:
        _, epoch = await register(broker)

        async def allocate(node_id: int, epoch: int) -> tuple[int, int, int]:
            answer = await ask(broker, ALLOCATE_PRODUCER_IDS, 0, broker_id=node_id, broker_epoch=epoch)
            return answer.error_code.value, answer.producer_id_start, answer.producer_id_len

        first = await broker.producer_ids.take()
        assert await allocate(OTHER, epoch) == (0, first + 1000, 1000)
        assert await allocate(OTHER, epoch) == (0, first + 2000, 1000)
        assert await allocate(OTHER, epoch - 1) == (STALE_EPOCH, 0, 0)
        assert await allocate(9, epoch) == (NOT_REGISTERED, 0, 0)

    run(scenario)


def test_a_broker_is_unregistered_when_its_session_is_over() -> None:
    async def scenario(broker: Broker) -> None:
        await register(broker)
        running = await ask(broker, UNREGISTER_BROKER, 0, broker_id=OTHER)
        await asyncio.sleep(broker.config.quorum.broker_session_timeout_ms / 1000)
        gone = await ask(broker, UNREGISTER_BROKER, 0, broker_id=OTHER)
        own = await ask(broker, UNREGISTER_BROKER, 0, broker_id=NODE_ID)

        assert [each.error_code.value for each in (running, gone, own)] == [INVALID_REQUEST, 0, INVALID_REQUEST]
        assert OTHER not in broker.image.nodes

    run(scenario, is_virtual=True)


def test_a_node_that_is_no_controller_says_so() -> None:
    async def scenario(broker: Broker) -> None:
        broker.controller = None
        assert await register(broker) == (NOT_CONTROLLER, -1)
        assert (await beat(broker, 1)).error_code.value == NOT_CONTROLLER
        for api in (ALLOCATE_PRODUCER_IDS, UNREGISTER_BROKER):
            assert (await ask(broker, api, 0, broker_id=NODE_ID)).error_code.value == NOT_CONTROLLER

    run(scenario)


# The other side: what a broker on another node sends


class BytesLink:
    """`ControllerLink` to a broker without a network: in the newest version, as bytes."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def ask(self, api_key: int, values: Any, **_: object) -> Any:
        api = APIS[api_key]
        version = versions_of(api)[-1]
        answer = await HANDLERS[api_key](
            self._broker, through_bytes(api, version, values), Asked(version, new_session("CONTROLLER"))
        )
        data = bytes(write_response(api_key, version, answer))
        return read_struct(response_schema(api_key, version), Body(data, max_elements=100))[0]


def remote(broker: Broker) -> RemoteController:
    return RemoteController(cast("ControllerLink", BytesLink(broker)), timeout_s=1)


def registration(broker: Broker, **fields: Any) -> Registration:
    given: dict[str, Any] = {
        "node_id": OTHER,
        "incarnation": UUID(int=1),
        "directory_id": UUID(int=2),
        "endpoints": (Endpoint("PLAINTEXT", "h", 9092),),
        "cluster_id": broker.image.cluster_id,
        "rack": "r",
        "features": tuple(sorted((name, *levels) for name, levels in SUPPORTED_FEATURES.items())),
        **fields,
    }
    return Registration(**given)


def test_what_a_broker_says_arrives_and_so_do_the_replies() -> None:
    async def scenario(broker: Broker) -> None:
        there = remote(broker)
        epoch = await there.register(registration(broker, previous_epoch=3))
        node = broker.image.nodes[OTHER]
        assert (node.epoch, node.rack, node.directory_id) == (epoch, "r", UUID(int=2))
        assert {name: (lowest, highest) for name, lowest, highest in node.features} == SUPPORTED_FEATURES

        beat = Heartbeat(node_id=OTHER, epoch=epoch, metadata_offset=epoch)
        assert await there.heartbeat(beat) == HeartbeatReply(
            True,
            is_fenced=False,
            should_shut_down=False,
            lease_ms=broker.config.quorum.broker_session_timeout_ms,
            decided_offset=broker.metadata.end_offset,
        )
        assert len(await there.allocate_producer_ids(OTHER, epoch)) == 1000

    run(scenario)


def test_that_a_leader_resigns_arrives() -> None:
    """In a field of our own, which kio does not write: as bytes from our writer to our reader."""
    sent: list[Any] = []

    class Recorded:
        async def ask(self, api_key: int, values: Any, **_: object) -> Any:
            data = bytes(write_request(api_key, 3, values))
            sent.append(read_request(RequestHeader(APIS[api_key], 3, 1, None, 0), data, len(data)))
            raise NotController("recorded")

    async def scenario() -> None:
        change = IsrChange(UUID(int=1), 0, 4, 6, ((1, -1),))
        there = RemoteController(cast("ControllerLink", Recorded()), timeout_s=1)
        for resigns in (False, True):
            with pytest.raises(NotController):
                await there.alter_partitions(
                    1, broker_epoch=2, changes=[msgspec.structs.replace(change, resigns=resigns)]
                )

    asyncio.run(scenario())

    assert [each.topics[0].partitions[0].resigns for each in sent] == [0, 1]


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"cluster_id": "another"}, InconsistentClusterId),
        ({"features": ()}, UnsupportedVersion),
        ({"node_id": NODE_ID}, DuplicateBrokerRegistration),
    ],
)
def test_a_refused_registration_is_explained(fields: dict[str, Any], refusal: type[BarnabasError]) -> None:
    async def scenario(broker: Broker) -> None:
        with pytest.raises(refusal, match=r"node\.id|another cluster|upgrade this node"):
            await remote(broker).register(registration(broker, **fields))

    run(scenario)


def test_refusals_keep_their_kind_and_unknown_ones_pass() -> None:
    async def scenario(broker: Broker) -> None:
        there = remote(broker)
        epoch = await there.register(registration(broker))
        with pytest.raises(StaleBrokerEpoch):
            await there.allocate_producer_ids(OTHER, epoch + 1)
        with pytest.raises(BrokerIdNotRegistered):
            await there.heartbeat(Heartbeat(node_id=9, epoch=epoch, metadata_offset=0))

        class Odd(BytesLink):
            async def ask(self, api_key: int, values: Any, **_: object) -> Any:
                answer = await super().ask(api_key, values)
                return type("Answer", (), {"error_code": 74, "answer": answer})()

        with pytest.raises(RequestTimedOut, match="74"):
            await RemoteController(cast("ControllerLink", Odd(broker)), timeout_s=1).allocate_producer_ids(OTHER, 1)

    run(scenario)


def test_registrations_that_come_at_once_get_the_offsets_at_which_they_are_written() -> None:
    async def scenario(broker: Broker) -> None:
        first = broker.metadata.end_offset
        ids = range(OTHER, OTHER + 10)

        replies = await asyncio.gather(*(register(broker, broker_id=node_id) for node_id in ids))

        assert replies == [(0, first + number) for number in range(len(ids))]
        assert [broker.image.nodes[node_id].epoch for node_id in ids] == [epoch for _, epoch in replies]

    run(scenario)
