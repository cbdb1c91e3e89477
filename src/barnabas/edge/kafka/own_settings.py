"""What of AlterConfigs and IncrementalAlterConfigs is for the node that was asked; the controller gets the rest.

As in Kafka: levels of loggers are altered here, and the settings of brokers checked here, since only a broker knows
what it was started with. What is altered or refused here is not forwarded; the answers are put together again.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from barnabas.core.metadata.records import BROKER_RESOURCE
from barnabas.edge.kafka.answering import carry_out
from barnabas.edge.kafka.asked import Asked
from barnabas.services.broker import Broker
from barnabas.services.settings.resources import BROKER_LOGGER_RESOURCE
from barnabas.wire.apis import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from barnabas.wire.frame import RequestHeader
from barnabas.wire.responses import Values

_HAVE_RESOURCES: Final = (ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS)


class OwnPart(NamedTuple):
    """The answers decided here, by the place of their resource in the request, and the request that is left."""

    answers: Mapping[int, Values]
    rest: Any

    def merged(self, rest: list[Values]) -> Values:
        """The answer to the whole request: those of the rest in the places that are left."""
        others = iter(rest)
        count = len(self.answers) + len(rest)
        return {"responses": [self.answers[at] if at in self.answers else next(others) for at in range(count)]}


async def take_own_part(broker: Broker, header: RequestHeader, request: Any, asked: Asked) -> OwnPart | None:
    """Carry out what is for this node; None if all of the request is for the controller, as it is."""
    if header.api not in _HAVE_RESOURCES:
        return None
    resources = list(enumerate(request.resources))
    loggers = [
        (at, each)
        for at, each in resources
        if each.resource_type == BROKER_LOGGER_RESOURCE and header.api is INCREMENTAL_ALTER_CONFIGS
    ]
    brokers = [(at, each) for at, each in resources if each.resource_type == BROKER_RESOURCE]
    answers: dict[int, Values] = {}
    for own, is_only_checked in ((loggers, False), (brokers, True)):
        if not own:
            continue
        part = replace(
            request,
            resources=tuple(each for _, each in own),
            validate_only=request.validate_only or is_only_checked,
        )
        values = await carry_out(broker, header, part, asked)
        answers |= {
            at: answer
            for (at, _), answer in zip(own, values["responses"], strict=True)
            if answer["error_code"] or not is_only_checked
        }
    if not answers:
        return None
    return OwnPart(answers, replace(request, resources=tuple(each for at, each in resources if at not in answers)))


def values_of(request: Any) -> Values:
    """A request of either API, to be written again."""
    return {
        "validate_only": request.validate_only,
        "resources": [
            {
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
                "configs": [
                    {
                        "name": config.name,
                        "value": config.value,
                        "config_operation": getattr(config, "config_operation", 0),
                    }
                    for config in resource.configs
                ],
            }
            for resource in request.resources
        ],
    }


def answers_of(response: Any) -> list[Values]:
    """The answers for resources that another node has given."""
    return [
        {
            "resource_type": each.resource_type,
            "resource_name": each.resource_name,
            "error_code": each.error_code,
            "error_message": each.error_message,
        }
        for each in response.responses
    ]
