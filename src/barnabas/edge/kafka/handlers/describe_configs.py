"""DescribeConfigs, versions 1 to 4: the settings of topics, of groups and of this broker, and its loggers.

Differs from Kafka: client metrics are described as having no settings, as none are served, and groups as having those
of consumer groups only; an unknown type of resource is refused alone, not with its whole request.
"""

from typing import Any

from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.services.broker import Broker
from barnabas.services.configs import ConfigResource, describe
from barnabas.services.settings import DescribedSetting
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    with_docs = getattr(request, "include_documentation", False)
    results = [
        {
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
            **_described(broker, resource, with_synonyms=request.include_synonyms, with_docs=with_docs),
        }
        for resource in request.resources
    ]
    return {"throttle_time": 0, "results": results}


def _described(broker: Broker, resource: Any, *, with_synonyms: bool, with_docs: bool) -> Values:
    try:
        found = describe(broker.image, broker.config, ConfigResource(resource.resource_type, resource.resource_name))
    except BarnabasError as error:
        return {"configs": (), **refused(error)}
    asked_for = resource.configuration_keys  # none, like null, is all
    configs = [
        _config(setting, with_synonyms=with_synonyms, with_docs=with_docs)
        for setting in found
        if not asked_for or setting.name in asked_for
    ]
    return {"configs": configs, **DONE}


def _config(setting: DescribedSetting, *, with_synonyms: bool, with_docs: bool) -> Values:
    synonyms = setting.synonyms if with_synonyms else ()
    return {
        "name": setting.name,
        "value": setting.value,
        "read_only": setting.is_read_only,
        "config_source": setting.source,
        "is_sensitive": setting.is_sensitive,
        "synonyms": [{"name": each.name, "value": each.value, "source": each.source} for each in synonyms],
        "config_type": setting.type,
        "documentation": setting.doc if with_docs else None,
    }
