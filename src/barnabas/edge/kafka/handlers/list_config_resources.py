"""ListConfigResources, versions 0 and 1: what has settings. Version 0 knows client metrics only."""

from collections.abc import Iterator
from typing import Any, Final

from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.configs import BROKER_LOGGER_RESOURCE
from barnabas.wire.errors import UnsupportedVersion
from barnabas.wire.responses import Values

_TYPES: Final = (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE, BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE)


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    known = _TYPES if asked.version >= 1 else (CLIENT_METRICS_RESOURCE,)
    wanted = getattr(request, "resource_types", ()) or known
    if any(kind not in known for kind in wanted):
        return {"throttle_time": 0, "error_code": UnsupportedVersion.kafka_code}
    resources = [
        {"resource_name": name, "resource_type": kind}
        for kind in known
        if kind in wanted
        async for name in in_turns(list(_names(broker.image, kind)))
    ]
    return {"throttle_time": 0, "error_code": 0, "config_resources": resources}


def _names(image: Image, kind: int) -> Iterator[str]:
    if kind == TOPIC_RESOURCE:
        yield from image.topics
    elif kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        yield from (str(node) for node in image.nodes)
    else:
        yield from (name for resource_type, name in image.configs if resource_type == kind)
