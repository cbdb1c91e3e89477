"""BrokerRegistration, versions 0 to 4: a broker that starts registers with the active controller.

Differs from Kafka: a broker has one data directory; one that was killed and starts again in the same directory need not
wait until its old session is over. A broker that migrates from ZooKeeper is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, InvalidRequest, NotController
from barnabas.core.metadata.brokers import Registration
from barnabas.core.metadata.records import Endpoint
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import BROKER_REGISTRATION

if TYPE_CHECKING:
    from uuid import UUID

    from barnabas.edge.kafka.messages import broker_registration as message

_NO_EPOCH: Final = -1
_DIRECTORIES_FROM: Final = 2  # the version from which on a broker says which directories it has


@serves(BROKER_REGISTRATION, 0, 4, on=On.CONTROLLERS)
async def handle(
    broker: Broker, request: message.BrokerRegistrationRequest, asked: Asked
) -> message.BrokerRegistrationResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.CLUSTER_ACTION, CLUSTER)
        if broker.controller is None:
            raise NotController("this node is not a controller")
        epoch = await broker.controller.register(_registration(request, asked.version))
    except BarnabasError as error:
        return {"error_code": error.kafka_code, "broker_epoch": _NO_EPOCH}
    return {"error_code": 0, "broker_epoch": epoch}


def _registration(request: message.BrokerRegistrationRequest, version: int) -> Registration:
    if request.is_migrating_zk_broker:
        raise InvalidRequest("brokers cannot migrate from ZooKeeper")
    if request.broker_id < 0:
        raise InvalidRequest(f"{request.broker_id} is not the id of a broker")
    if request.incarnation_id is None:
        raise InvalidRequest("a broker that registers must have an incarnation id")
    previous = request.previous_broker_epoch
    return Registration(
        node_id=request.broker_id,
        incarnation=request.incarnation_id,
        directory_id=_directory(request, version),
        endpoints=tuple(_endpoints(request)),
        cluster_id=request.cluster_id,
        previous_epoch=None if previous == _NO_EPOCH else previous,
        rack=request.rack,
        generation=request.generation,
        previous_generation=None if request.previous_generation < 0 else request.previous_generation,
        features=tuple(
            sorted((each.name, each.min_supported_version, each.max_supported_version) for each in request.features)
        ),
    )


def _directory(request: message.BrokerRegistrationRequest, version: int) -> UUID | None:
    if version < _DIRECTORIES_FROM:
        return None
    if len(request.log_dirs) != 1 or request.log_dirs[0] is None:
        raise InvalidRequest(f"a broker has one data directory with an id, not {len(request.log_dirs)}")
    return request.log_dirs[0]


def _endpoints(request: message.BrokerRegistrationRequest) -> list[Endpoint]:
    endpoints = [Endpoint(each.name, each.host, each.port) for each in request.listeners]
    if len({each.listener for each in endpoints}) != len(endpoints):
        raise InvalidRequest("two listeners have one name")
    for each in endpoints:
        if not each.listener or not each.host or not each.port:
            raise InvalidRequest(f"listener '{each.listener}' at '{each.host}:{each.port}' has no name, host or port")
    return endpoints
