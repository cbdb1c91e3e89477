"""Our own tagged fields in messages of Kafka, for what nodes tell each other that Kafka has no field for.

A reader that does not know a tag skips it, so any Kafka implementation understands such a message. Our tags are far
above Kafka's, which count from 0.

Must not know: what the fields are for.
"""

from dataclasses import field, fields, make_dataclass
from functools import cache
from typing import Any, Final, NamedTuple

FIRST_TAG: Final = 10_000
FLUSHED_OFFSET_TAG: Final = FIRST_TAG
METADATA_OFFSET_TAG: Final = FIRST_TAG + 1
DAMAGED_OFFSET_TAG: Final = FIRST_TAG + 2
LEASE_TAG: Final = FIRST_TAG + 3
DECIDED_OFFSET_TAG: Final = FIRST_TAG + 4
LEADER_TIME_TAG: Final = FIRST_TAG + 5
RESIGNS_TAG: Final = FIRST_TAG + 6
GENERATION_TAG: Final = FIRST_TAG + 7
PREVIOUS_GENERATION_TAG: Final = FIRST_TAG + 8
WANTS_LEASE_TAG: Final = FIRST_TAG + 9
LEASED_TAG: Final = FIRST_TAG + 10
SILENCE_TAG: Final = FIRST_TAG + 11


LEASED: Final = 1
NOT_LEASED: Final = 2


class OwnField(NamedTuple):
    """A number that a struct of one message has in every flexible version."""

    schema: str  # the module of kio, as "fetch.request"
    struct: str
    name: str
    tag: int
    kind: str
    default: int


OWN_FIELDS: Final = (
    # A follower goes on fetching while it syncs: what it has fetched and what it has on disk are two numbers.
    OwnField("fetch.request", "FetchPartition", "flushed_offset", FLUSHED_OFFSET_TAG, "int64", -1),
    # A follower was sent damaged records from there on: the leader, which does not look at them, has them repaired.
    OwnField("fetch.request", "FetchPartition", "damaged_offset", DAMAGED_OFFSET_TAG, "int64", -1),
    # The node that forwarded a request answers it when it has applied the metadata up to there.
    OwnField("envelope.response", "EnvelopeResponse", "metadata_offset", METADATA_OFFSET_TAG, "int64", -1),
    # For how long the broker may answer as the leader of what it leads, once it has applied the metadata up to there.
    OwnField("broker_heartbeat.response", "BrokerHeartbeatResponse", "lease_ms", LEASE_TAG, "int64", -1),
    OwnField("broker_heartbeat.response", "BrokerHeartbeatResponse", "decided_offset", DECIDED_OFFSET_TAG, "int64", 0),
    # The generation of the broker's data directory, and the one before this start: an older copy is told by it.
    OwnField("broker_registration.request", "BrokerRegistrationRequest", "generation", GENERATION_TAG, "int64", 0),
    OwnField(
        "broker_registration.request",
        "BrokerRegistrationRequest",
        "previous_generation",
        PREVIOUS_GENERATION_TAG,
        "int64",
        -1,
    ),
    # 1: the client asks whether nobody else leads; the leader says that nobody does (1), or that it cannot tell (2).
    OwnField("list_offsets.request", "ListOffsetsRequest", "wants_lease", WANTS_LEASE_TAG, "int8", 0),
    OwnField("list_offsets.response", "ListOffsetsResponse", "leased", LEASED_TAG, "int8", 0),
    # 1: the leader cannot open its log, and asks for another leader.
    OwnField("alter_partition.request", "PartitionData", "resigns", RESIGNS_TAG, "int8", 0),
    # The leader of the quorum tells its time, and who fetches again the latest that it was told.
    OwnField("fetch.response", "FetchResponse", "leader_ms", LEADER_TIME_TAG, "int64", -1),
    OwnField("fetch.request", "FetchRequest", "seen_leader_ms", LEADER_TIME_TAG, "int64", -1),
    # How long ago a voter last heard from a leader of the quorum.
    OwnField("vote.response", "VoteResponse", "silence_ms", SILENCE_TAG, "int64", -1),
)


@cache
def with_own_fields(entity: Any) -> Any:
    """A kio class with our own fields added; the class itself if there are none."""
    _, _, api, _, direction = entity.__module__.split(".")  # kio.schema.fetch.v17.request
    own = [each for each in OWN_FIELDS if (each.schema, each.struct) == (f"{api}.{direction}", entity.__name__)]
    if not own or not entity.__flexible__:
        return entity
    assert not {each.name for each in own} & {each.name for each in fields(entity)}
    added = [(each.name, int, _own_field(each)) for each in own]
    return make_dataclass(entity.__name__, added, bases=(entity,), frozen=True, slots=True, kw_only=True)


def _own_field(own: OwnField) -> Any:
    return field(default=own.default, metadata={"kafka_type": own.kind, "tag": own.tag})
