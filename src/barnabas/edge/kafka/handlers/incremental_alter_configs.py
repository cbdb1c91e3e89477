"""IncrementalAlterConfigs, versions 0 and 1: change single settings of a topic, a group or a broker, or loggers of it.

Differs from Kafka: see `alter_configs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.errors import InvalidRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.altering import alter_each
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.services.settings import AlterOperation, SettingChange
from barnabas.services.settings.loggers import alter_loggers
from barnabas.services.settings.resources import (
    BROKER_LOGGER_RESOURCE,
    ConfigResource,
    Decide,
    check_own_node,
    decide_changes,
)
from barnabas.wire.apis import INCREMENTAL_ALTER_CONFIGS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import incremental_alter_configs as message


@serves(INCREMENTAL_ALTER_CONFIGS, 0, 1, on=On.ALL, is_forwarded=True)
async def handle(
    broker: Broker, request: message.IncrementalAlterConfigsRequest, asked: Asked
) -> message.IncrementalAlterConfigsResponse:
    """See the module."""

    def decider(resource: message.AlterConfigsResource) -> Decide | None:
        changes = [_change(config) for config in resource.configs]
        if resource.resource_type == BROKER_LOGGER_RESOURCE:
            check_own_node(resource.resource_name, broker.config)
            alter_loggers(changes, validate_only=request.validate_only)
            return None
        target = ConfigResource(resource.resource_type, resource.resource_name)
        is_forwarded = asked.session.is_forwarded
        return lambda image: decide_changes(image, broker.config, target, changes, is_forwarded=is_forwarded)

    return await alter_each(broker, asked.session, request.resources, decider, validate_only=request.validate_only)


def _change(config: message.AlterableConfig) -> SettingChange:
    try:
        operation = AlterOperation(config.config_operation)
    except ValueError:
        raise InvalidRequest(f"operation {config.config_operation} does not exist") from None
    return SettingChange(config.name, operation, config.value)
