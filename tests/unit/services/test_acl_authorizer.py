"""The authorizer over the ACLs of the metadata: what it keeps, and what nodes may do."""

from uuid import UUID

import pytest

from barnabas.core.access.resources import CLUSTER, Operation, Resource, ResourceType, group, topic, transactional_id
from barnabas.core.access.rules import Rules
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import AclRecord, MetadataRecord, RemoveAclRecord
from barnabas.services import acl_authorizer
from barnabas.services.acl_authorizer import AclAuthorizer
from barnabas.services.session import Principal, Session


class Metadata:
    """Has an image, and tells the authorizer of what is applied to it."""

    def __init__(self, *records: MetadataRecord) -> None:
        self.image = Image()
        for record in records:
            self.image.apply(record)
        self.authorizer = AclAuthorizer(Rules(), self)

    def commit(self, *records: MetadataRecord) -> None:
        for record in records:
            self.image.apply(record)
        self.authorizer.apply(records)


def record(number: int, name: str = "t", permission: int = 3) -> AclRecord:
    return AclRecord(UUID(int=number), 2, name, 3, "User:alice", "*", Operation.WRITE, permission)


def client(name: str = "alice", host: str = "10.0.0.7", *, is_node: bool = False) -> Session:
    session = Session(listener="PLAINTEXT", peer=(host, 1), local=("10.0.0.1", 9092))
    session.principal, session.is_node = Principal("User", name), is_node
    return session


def test_it_begins_with_the_acls_that_are_there_and_follows_those_that_come_and_go() -> None:
    metadata = Metadata(record(1))
    allows, allows_any = metadata.authorizer.allows, metadata.authorizer.allows_any
    for _ in range(2):  # asked and answered before
        assert allows(client(), Operation.WRITE, topic("t"))
        assert allows_any(client(), Operation.WRITE, ResourceType.TOPIC)
        assert not allows(client("bob"), Operation.WRITE, topic("t"))
        assert not allows(client(), Operation.READ, topic("t"))
    metadata.commit(record(2, permission=2))
    assert not allows(client(), Operation.WRITE, topic("t"))
    metadata.commit(RemoveAclRecord(UUID(int=2)))
    assert allows(client(), Operation.WRITE, topic("t"))
    metadata.commit(RemoveAclRecord(UUID(int=1)))
    assert not allows(client(), Operation.WRITE, topic("t"))
    assert not allows_any(client(), Operation.WRITE, ResourceType.TOPIC)


def test_it_keeps_no_more_answers_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_authorizer, "MAX_KEPT", 10)
    authorizer = Metadata(record(1)).authorizer
    for number in range(100):
        assert not authorizer.allows(client(host=f"10.0.1.{number}"), Operation.READ, topic(f"x{number}"))
        assert authorizer.allows(client(host=f"10.0.1.{number}"), Operation.WRITE, topic("t"))
    kept = sum(len(verdicts) for of_type in authorizer._kept for verdicts in of_type)
    assert 0 < kept <= 10


OF_NODES = {
    (Operation.CLUSTER_ACTION, CLUSTER),  # replicas, the quorum, markers of transactions, envelopes
    (Operation.DESCRIBE, CLUSTER),  # for callers over HTTP: data directories, groups
    (Operation.DESCRIBE_CONFIGS, CLUSTER),  # the settings of another node
    (Operation.READ, topic("t")),  # repairing replicas; records, for callers
    (Operation.DESCRIBE, topic("t")),  # offsets
    (Operation.WRITE, topic("t")),  # records of callers
    (Operation.READ, group("g")),  # members and commits over gRPC, resetting offsets
    (Operation.DESCRIBE, group("g")),
    (Operation.DELETE, group("g")),
    (Operation.DESCRIBE, transactional_id("x")),
}


@pytest.mark.parametrize(
    ("is_node", "is_forwarded", "allowed"),
    [
        (True, False, OF_NODES),
        (True, True, {(Operation.CREATE, CLUSTER)}),  # what a node asks the controller for of its own accord
        (False, False, set()),
        (False, True, set()),
    ],
)
def test_a_node_may_do_this_without_any_acl_and_nothing_else(
    is_node: bool, is_forwarded: bool, allowed: set[tuple[Operation, Resource]]
) -> None:
    authorizer = Metadata().authorizer
    session = client("n", is_node=is_node)
    session.is_forwarded = is_forwarded
    resources = (CLUSTER, topic("t"), group("g"), transactional_id("x"), Resource(ResourceType.USER, "u"))
    for _ in range(2):  # asked and answered before
        found = {(each, to) for to in resources for each in Operation if authorizer.allows(session, each, to)}
        assert found == allowed
