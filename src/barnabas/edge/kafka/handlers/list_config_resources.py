"""ListConfigResources, versions 0 and 1: what has settings. Version 0 knows client metrics only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import ClusterAuthorizationFailed
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.settings.resources import BROKER_LOGGER_RESOURCE
from barnabas.wire.apis import LIST_CONFIG_RESOURCES
from barnabas.wire.errors import UnservedVersion

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import list_config_resources as message

_TYPES: Final = (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE, BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE)


@serves(LIST_CONFIG_RESOURCES, 0, 1)
async def handle(
    broker: Broker, request: message.ListConfigResourcesRequest, asked: Asked
) -> message.ListConfigResourcesResponse:
    """See the module."""
    if not broker.access.allows(asked.session, Operation.DESCRIBE_CONFIGS, CLUSTER):
        return {"error_code": ClusterAuthorizationFailed.kafka_code}
    known = _TYPES if asked.version >= 1 else (CLIENT_METRICS_RESOURCE,)
    wanted = request.resource_types or known
    if any(kind not in known for kind in wanted):
        return {"error_code": UnservedVersion.kafka_code}
    resources: list[message.ConfigResource] = [
        {"resource_name": name, "resource_type": kind}
        for kind in known
        if kind in wanted
        async for name in in_turns(list(_names(broker.image, kind)))
    ]
    return {"error_code": 0, "config_resources": resources}


def _names(image: Image, kind: int) -> Iterator[str]:
    if kind == TOPIC_RESOURCE:
        yield from image.topics
    elif kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        yield from (str(node) for node in image.nodes)
    else:
        yield from (name for resource_type, name in image.configs if resource_type == kind)
