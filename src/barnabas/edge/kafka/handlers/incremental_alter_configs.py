"""IncrementalAlterConfigs, versions 0 and 1: change single settings of a topic, a group or a broker, or loggers of it.

Differs from Kafka: see `alter_configs`.
"""

from typing import Any

from barnabas.core.errors import InvalidRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.altering import alter_each
from barnabas.services.broker import Broker
from barnabas.services.configs import BROKER_LOGGER_RESOURCE, ConfigResource, Decide, check_own_node, decide_changes
from barnabas.services.loggers import alter_loggers
from barnabas.services.settings import Change, Operation
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""

    def decider(resource: Any) -> Decide | None:
        changes = [_change(config) for config in resource.configs]
        if resource.resource_type == BROKER_LOGGER_RESOURCE:
            check_own_node(resource.resource_name, broker.config)
            alter_loggers(changes, validate_only=request.validate_only)
            return None
        target = ConfigResource(resource.resource_type, resource.resource_name)
        return lambda image: decide_changes(image, broker.config, target, changes)

    return await alter_each(broker, request, decider)


def _change(config: Any) -> Change:
    try:
        operation = Operation(config.config_operation)
    except ValueError:
        raise InvalidRequest(f"operation {config.config_operation} does not exist") from None
    return Change(config.name, operation, config.value)
