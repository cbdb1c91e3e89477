"""What AlterConfigs and IncrementalAlterConfigs have in common: each resource is altered, or refused, alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.core.access.resources import CLUSTER, Operation, Resource, group, topic
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.core.metadata.records import GROUP_RESOURCE, TOPIC_RESOURCE
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.services.settings.resources import Decide, alter

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import alter_configs, incremental_alter_configs

_PER_TURN: Final = 10

R = TypeVar("R", bound="alter_configs.AlterConfigsResource | incremental_alter_configs.AlterConfigsResource")


def secured(kind: int, name: str) -> Resource:
    """The resource to authorize for access to these settings."""
    if kind == TOPIC_RESOURCE:
        return topic(name)
    return group(name) if kind == GROUP_RESOURCE else CLUSTER


async def alter_each(
    broker: Broker,
    session: Session,
    resources: Sequence[R],
    decider: Callable[[R], Decide | None],
    *,
    validate_only: bool,
) -> alter_configs.AlterConfigsResponse:
    """Alter each resource; `decider` returns the decision for one, None if the change is already made."""
    counts: Counter[tuple[int, str]] = Counter()
    async for resource in in_turns(resources):
        counts[resource.resource_type, resource.resource_name] += 1
    answers: list[alter_configs.AlterConfigsResourceResponse] = []
    async for resource in in_turns(resources, per_turn=_PER_TURN):
        key = (resource.resource_type, resource.resource_name)
        try:
            if counts[key] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            broker.access.authorize(session, Operation.ALTER_CONFIGS, secured(*key))
            decide = decider(resource)
            if decide is not None:
                await alter(broker.metadata, decide, validate_only=validate_only)
            outcome = DONE
        except BarnabasError as error:
            outcome = refused(error)
        answers.append({"resource_type": key[0], "resource_name": key[1], **outcome})
    return {"responses": answers}
