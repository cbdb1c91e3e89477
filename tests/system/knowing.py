"""A stranger who knows the quorum: requests with any values, but about the metadata log, the cluster and the voter that
there are, so that they get past the first checks.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from barnabas.runtime.raft_driver.wire_requests import METADATA_TOPIC_ID, TOPIC
from barnabas.wire.apis import BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, FETCH_SNAPSHOT, VOTE, Api

ABOUT_THE_LOG = (VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, FETCH_SNAPSHOT)


class Known(NamedTuple):
    """What a stranger can ask any node for."""

    cluster_id: str
    voter_id: int
    directory_id: UUID

    def put_into(self, api: Api, entity: Any) -> Any:
        """A request with what is known in the place of what it says of it."""
        told: dict[str, Any] = {
            "cluster_id": self.cluster_id,
            "voter_id": self.voter_id,
            "voter_directory_id": self.directory_id,
        }
        if api in ABOUT_THE_LOG:
            told |= dict.fromkeys(("topic", "topic_name"), TOPIC) | {"topic_id": METADATA_TOPIC_ID}
            told |= dict.fromkeys(("partition", "partition_index"), 0)
        if api is FETCH_SNAPSHOT:
            told["name"] = TOPIC
        return _told(entity, told)


def _told(entity: Any, told: Mapping[str, Any]) -> Any:
    values: dict[str, Any] = {}
    for field in fields(entity):
        value = getattr(entity, field.name)
        if field.name in told:
            value = told[field.name]
        elif field.name in ("topics", "partitions") and value and is_dataclass(value[0]):
            value = (_told(value[0], told),)  # the quorum has one partition
        values[field.name] = value
    return replace(entity, **values)
