"""AlterConfigs, versions 0 to 2: replace all settings of a topic, a group or a broker.

Differs from Kafka: client metrics have no settings here, and groups only those of consumer groups, so others cannot be
altered; a setting of a broker that does not exist is refused with INVALID_CONFIG, where Kafka keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.errors import InvalidRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.altering import alter_each
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.services.settings.resources import ConfigResource, Decide, decide_replacement
from barnabas.wire.apis import ALTER_CONFIGS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import alter_configs as message


@serves(ALTER_CONFIGS, 0, 2, on=On.ALL, is_forwarded=True)
async def handle(broker: Broker, request: message.AlterConfigsRequest, asked: Asked) -> message.AlterConfigsResponse:
    """See the module."""

    def decider(resource: message.AlterConfigsResource) -> Decide:
        wanted = {config.name: config.value for config in resource.configs}
        if len(wanted) != len(resource.configs):
            raise InvalidRequest("a setting is given more than once")
        target = ConfigResource(resource.resource_type, resource.resource_name)
        is_forwarded = asked.session.is_forwarded
        return lambda image: decide_replacement(image, broker.config, target, wanted, is_forwarded=is_forwarded)

    return await alter_each(broker, asked.session, request.resources, decider, validate_only=request.validate_only)
