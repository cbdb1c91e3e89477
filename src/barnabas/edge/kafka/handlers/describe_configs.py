"""DescribeConfigs, versions 1 to 4: the settings of topics, of groups and of this broker, and its loggers.

Differs from Kafka: client metrics are described as having no settings, as none are served, and groups as having those
of consumer groups only; an unknown type of resource is refused alone, not with its whole request; what is asked for
several times is answered once.
"""

from collections.abc import Sequence
from typing import Any

from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.runtime.turns import in_turns, next_turn
from barnabas.services.broker import Broker
from barnabas.services.configs import ConfigResource, describe
from barnabas.services.settings import DescribedSetting
from barnabas.wire.responses import Values

Outcome = Sequence[DescribedSetting] | BarnabasError


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    with_docs = getattr(request, "include_documentation", False)
    found: dict[ConfigResource, Outcome] = {}
    results: dict[tuple[ConfigResource, frozenset[str]], Values] = {}
    async for resource in in_turns(request.resources):
        target = ConfigResource(resource.resource_type, resource.resource_name)
        asked_for = frozenset(resource.configuration_keys or ())  # none, like null, is all
        if (target, asked_for) in results:
            continue
        if target not in found:
            found[target] = _find(broker, target)
            await next_turn()  # that alone takes up to a millisecond
        results[target, asked_for] = {
            "resource_type": target.type,
            "resource_name": target.name,
            **_described(found[target], asked_for, with_synonyms=request.include_synonyms, with_docs=with_docs),
        }
    return {"throttle_time": 0, "results": list(results.values())}


def _find(broker: Broker, target: ConfigResource) -> Outcome:
    try:
        return describe(broker.image, broker.config, target)
    except BarnabasError as error:
        return error


def _described(found: Outcome, asked_for: frozenset[str], *, with_synonyms: bool, with_docs: bool) -> Values:
    if isinstance(found, BarnabasError):
        return {"configs": (), **refused(found)}
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
