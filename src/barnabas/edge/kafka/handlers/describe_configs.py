"""DescribeConfigs, versions 1 to 4: the settings of topics, of groups and of this broker, and its loggers.

Differs from Kafka: client metrics are described as having no settings, as none are served, and groups as having those
of consumer groups only; an unknown type of resource is refused alone, not with its whole request; what is asked for
several times is answered once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.core.access.resources import Operation
from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.altering import secured
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns, next_turn
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.services.settings import DescribedSetting
from barnabas.services.settings.resources import ConfigResource, describe
from barnabas.wire.apis import DESCRIBE_CONFIGS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import describe_configs as message

Outcome = Sequence[DescribedSetting] | BarnabasError


@serves(DESCRIBE_CONFIGS, 1, 4)
async def handle(
    broker: Broker, request: message.DescribeConfigsRequest, asked: Asked
) -> message.DescribeConfigsResponse:
    """See the module."""
    with_docs = request.include_documentation
    found: dict[ConfigResource, Outcome] = {}
    results: dict[tuple[ConfigResource, frozenset[str]], message.DescribeConfigsResult] = {}
    async for resource in in_turns(request.resources):
        target = ConfigResource(resource.resource_type, resource.resource_name)
        asked_for = frozenset(resource.configuration_keys or ())  # none, like null, is all
        if (target, asked_for) in results:
            continue
        if target not in found:
            found[target] = _find(broker, target, asked.session)
            await next_turn()  # that alone takes up to a millisecond
        results[target, asked_for] = {
            "resource_type": target.type,
            "resource_name": target.name,
            **_described(found[target], asked_for, with_synonyms=request.include_synonyms, with_docs=with_docs),
        }
    return {"results": list(results.values())}


def _find(broker: Broker, target: ConfigResource, session: Session) -> Outcome:
    try:
        broker.access.authorize(session, Operation.DESCRIBE_CONFIGS, secured(target.type, target.name))
        return describe(broker.image, broker.config, target)
    except BarnabasError as error:
        return error


def _described(
    found: Outcome, asked_for: frozenset[str], *, with_synonyms: bool, with_docs: bool
) -> message.DescribeConfigsResult:
    if isinstance(found, BarnabasError):
        return {"configs": (), **refused(found)}
    configs = [
        _config(setting, with_synonyms=with_synonyms, with_docs=with_docs)
        for setting in found
        if not asked_for or setting.name in asked_for
    ]
    return {"configs": configs, **DONE}


def _config(
    setting: DescribedSetting, *, with_synonyms: bool, with_docs: bool
) -> message.DescribeConfigsResourceResult:
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
