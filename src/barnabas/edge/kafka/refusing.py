"""The answer to a request for the controller that was refused as a whole: each API says so in its own place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.core.metadata.image import Image
from barnabas.edge.kafka.handlers.outcome import refused
from barnabas.wire.apis import (
    ALTER_CLIENT_QUOTAS,
    ALTER_CONFIGS,
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_ACLS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_ACLS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
)
from barnabas.wire.responses import Values

if TYPE_CHECKING:
    from barnabas.edge.kafka.handlers.outcome import Outcome

    Refuse = Callable[[Any, Outcome, Image], Values]


def refusal_of(api_key: int, request: Any, error: BarnabasError, image: Image) -> Values:
    """The answer: the same error for each item of the request, or once where the answer has a place for that.

    The image has the items of a request for all there are.
    """
    outcome = refused(error)
    refuse = _BY_ITEM.get(api_key)
    return {**outcome} if refuse is None else refuse(request, outcome, image)


def _create_topics(request: Any, outcome: Outcome, _image: Image) -> Values:
    return {"topics": [{"name": topic.name, "configs": (), **outcome} for topic in request.topics]}


def _delete_topics(request: Any, outcome: Outcome, _image: Image) -> Values:
    named = [{"name": name, **outcome} for name in request.topic_names]
    return {
        "responses": [*named, *({"name": each.name, "topic_id": each.topic_id, **outcome} for each in request.topics)]
    }


def _create_partitions(request: Any, outcome: Outcome, _image: Image) -> Values:
    return {"results": [{"name": topic.name, **outcome} for topic in request.topics]}


def _alter_configs(request: Any, outcome: Outcome, _image: Image) -> Values:
    return {
        "responses": [
            {"resource_type": each.resource_type, "resource_name": each.resource_name, **outcome}
            for each in request.resources
        ]
    }


def _create_acls(request: Any, outcome: Outcome, _image: Image) -> Values:
    return {"results": [{**outcome} for _ in request.creations]}


def _delete_acls(request: Any, outcome: Outcome, _image: Image) -> Values:
    return {"filter_results": [{"matching_acls": (), **outcome} for _ in request.filters]}


def _alter_credentials(request: Any, outcome: Outcome, _image: Image) -> Values:
    users = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
    return {"results": [{"user": user, **outcome} for user in users]}


def _elect_leaders(request: Any, outcome: Outcome, image: Image) -> Values:
    if request.topic_partitions is None:
        wanted = [(topic.name, tuple(topic.partitions)) for topic in image.topics.values()]
    else:
        wanted = [(each.topic, each.partitions) for each in request.topic_partitions]
    results = [
        {"topic": topic, "partition_result": [{"partition_id": number, **outcome} for number in partitions]}
        for topic, partitions in wanted
    ]
    return {"error_code": outcome["error_code"], "replica_election_results": results}


def _alter_client_quotas(request: Any, outcome: Outcome, _image: Image) -> Values:
    return {
        "entries": [
            {
                "entity": [{"entity_type": each.entity_type, "entity_name": each.entity_name} for each in entry.entity],
                **outcome,
            }
            for entry in request.entries
        ]
    }


_BY_ITEM: Final[dict[int, Refuse]] = {
    CREATE_ACLS.key: _create_acls,
    DELETE_ACLS.key: _delete_acls,
    CREATE_TOPICS.key: _create_topics,
    DELETE_TOPICS.key: _delete_topics,
    CREATE_PARTITIONS.key: _create_partitions,
    ALTER_CLIENT_QUOTAS.key: _alter_client_quotas,
    ALTER_CONFIGS.key: _alter_configs,
    INCREMENTAL_ALTER_CONFIGS.key: _alter_configs,
    ELECT_LEADERS.key: _elect_leaders,
    ALTER_USER_SCRAM_CREDENTIALS.key: _alter_credentials,
}
