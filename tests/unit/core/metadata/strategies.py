"""Histories of metadata: decisions drawn at random, as the records that they come to."""

from uuid import UUID

from hypothesis import strategies as st

from barnabas.core.errors import BarnabasError
from barnabas.core.metadata import (
    Image,
    MetadataDecision,
    NewTopic,
    allocate_producer_ids,
    create_partitions,
    create_topic,
    delete_topic,
    elect_preferred,
    form_cluster,
    set_configs,
    set_feature,
)
from barnabas.core.metadata.records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    AclRecord,
    ClientQuotaRecord,
    Endpoint,
    MetadataRecord,
    RemoveAclRecord,
    RemoveScramCredentialRecord,
    ScramCredentialRecord,
)
from tests.support.nodes import register_node

_names = st.sampled_from(["a", "b", "a.b", "a_b", "c"])
_values = st.dictionaries(st.sampled_from(["x", "y", "z"]), st.sampled_from(["", "1", "2"]), max_size=2)
_changes = st.dictionaries(st.sampled_from(["x", "y", "z"]), st.sampled_from([None, "", "1"]), max_size=3)
_resources = st.one_of(
    st.tuples(st.just(TOPIC_RESOURCE), _names),
    st.tuples(st.just(BROKER_RESOURCE), st.sampled_from(["", "0", "1"])),
    st.tuples(st.sampled_from([GROUP_RESOURCE, CLIENT_METRICS_RESOURCE]), st.sampled_from(["g", "h"])),
)


def _decide(draw: st.DrawFn, image: Image, number: int) -> MetadataDecision[object]:  # noqa: PLR0911 - one for each
    match draw(st.integers(0, 9)):
        case 0:
            return form_cluster(image, draw(st.text(max_size=4)))
        case 1:
            rack = draw(st.sampled_from([None, "r1", "r2"]))
            node_id = draw(st.integers(0, 3))
            return register_node(
                image,
                node_id=node_id,
                endpoints=[Endpoint("PLAINTEXT", "h", number)],
                rack=rack,
                incarnation=UUID(int=number),
            )
        case 2:
            new = NewTopic(draw(_names), draw(st.integers(1, 5)), draw(st.integers(1, 3)), None, draw(_values))
            return create_topic(image, new, topic_id=UUID(int=number))
        case 3:
            return delete_topic(image, draw(_names))
        case 4:
            return create_partitions(image, draw(_names), draw(st.integers(1, 8)))
        case 5:
            return set_configs(image, *draw(_resources), draw(_changes))
        case 6:
            return allocate_producer_ids(image, draw(st.integers(1, 1000)))
        case 7:
            return set_feature(image, draw(st.sampled_from(["metadata.version", "f"])), draw(st.integers(0, 3)))
        case 8:
            return MetadataDecision([_access(draw, image, number)], None)
        case _:
            return elect_preferred(image, draw(_names), draw(st.integers(0, 2)))


def _access(draw: st.DrawFn, image: Image, number: int) -> MetadataRecord:
    """A change of credentials, quotas or ACLs."""
    match draw(st.integers(0, 4)):
        case 0 if image.acls:
            return RemoveAclRecord(draw(st.sampled_from(sorted(image.acls))))
        case 1 if image.credentials:
            return RemoveScramCredentialRecord(*draw(st.sampled_from(sorted(image.credentials))))
        case 2:
            entity = draw(st.sampled_from([(("user", None),), (("user", "a"),), (("client-id", "c"), ("user", "a"))]))
            return ClientQuotaRecord(entity, draw(_names), draw(st.sampled_from([None, 0.5, 1024.0])))
        case 3:
            keys = draw(st.binary(max_size=3))
            return ScramCredentialRecord(draw(_names), draw(st.sampled_from([1, 2])), keys, keys, keys, 4096)
        case _:
            return AclRecord(UUID(int=number), 2, draw(_names), 3, "User:a", "*", 3, 3)


@st.composite
def histories(draw: st.DrawFn) -> list[MetadataRecord]:
    """The records of some decisions; what is refused leaves none."""
    image, records = Image(), list[MetadataRecord]()
    for number in range(1, draw(st.integers(1, 25))):
        try:
            decision = _decide(draw, image, number)
        except BarnabasError:
            continue
        for record in decision.records:
            image.apply(record)
        records += decision.records
    return records
