"""IncrementalAlterConfigs, versions 0 and 1: change single settings of a topic, a group or a broker.

Differs from Kafka: see `alter_configs`; levels of loggers cannot be set.
"""

from typing import Any

from barnabas.core.errors import InvalidRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.altering import alter_each
from barnabas.services.broker import Broker
from barnabas.services.configs import ConfigResource, Decide, decide_changes
from barnabas.services.settings import Change, Operation
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""

    def decider(resource: Any) -> Decide:
        changes = [_change(config) for config in resource.configs]
        target = ConfigResource(resource.resource_type, resource.resource_name)
        return lambda image: decide_changes(image, broker.config, target, changes)

    return await alter_each(broker, request, decider)


def _change(config: Any) -> Change:
    try:
        operation = Operation(config.config_operation)
    except ValueError:
        raise InvalidRequest(f"operation {config.config_operation} does not exist") from None
    return Change(config.name, operation, config.value)
