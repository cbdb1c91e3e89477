"""`barnabas acl`: the ACLs that its options stand for, and what it prints."""

import json
from dataclasses import dataclass, field

import pytest

from barnabas.client.acl_infos import AclInfo, AclSelection
from tests.unit.cli.conftest import Barnabas
from tests.unit.cli.fake_bus import FakeBus

Captured = pytest.CaptureFixture[str]
AS_PRODUCER = ("Write topic:orders", "Describe topic:orders", "Create topic:orders")
ALICE = ("--allow-principal", "User:alice")


@dataclass
class FakeAcls:
    """Takes the place of `AclAdmin`."""

    there: list[AclInfo] = field(default_factory=list)
    created: list[AclInfo] = field(default_factory=list)
    asked: list[AclSelection] = field(default_factory=list)
    deleted: list[AclSelection] = field(default_factory=list)

    def create(self, acls: list[AclInfo]) -> None:
        self.created += acls

    def find(self, selection: AclSelection) -> list[AclInfo]:
        self.asked.append(selection)
        return self.there

    def delete(self, selections: list[AclSelection]) -> list[AclInfo]:
        self.deleted += selections
        return self.there


@pytest.fixture
def acls(bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> FakeAcls:
    fake = FakeAcls()
    monkeypatch.setattr(bus, "acls", fake, raising=False)
    return fake


def short(acl: AclInfo | AclSelection) -> str:
    return f"{acl.permission} {acl.principal} {acl.host} {acl.operation} {acl.resource_type}:{acl.resource_name}"


@pytest.mark.parametrize(
    ("options", "made"),
    [
        (
            ("--producer", "--topic", "orders", "--transactional-id", "t"),
            [*AS_PRODUCER, "Write transactional-id:t", "Describe transactional-id:t"],
        ),
        (
            ("--consumer", "--topic", "orders", "--group", "billing"),
            ["Read topic:orders", "Describe topic:orders", "Read group:billing"],
        ),
        (
            ("--producer", "--idempotent", "--topic", "orders"),
            [*AS_PRODUCER, "IdempotentWrite cluster:kafka-cluster"],
        ),
        (("--topic", "orders"), ["All topic:orders"]),
        (("--cluster", "--operation", "Alter", "--operation", "Describe"),
         ["Alter cluster:kafka-cluster", "Describe cluster:kafka-cluster"]),
        (("--user-principal", "User:bob", "--operation", "CreateTokens"), ["CreateTokens user:User:bob"]),
    ],
)  # fmt: skip
def test_acls_are_added(options: tuple[str, ...], made: list[str], barnabas: Barnabas, acls: FakeAcls) -> None:
    assert barnabas("acl", "add", *ALICE, *options) == 0
    assert [short(each) for each in acls.created] == [f"allow User:alice * {each}" for each in made]
    assert {each.pattern_type for each in acls.created} == {"literal"}


def test_people_and_hosts_are_allowed_and_denied(barnabas: Barnabas, acls: FakeAcls) -> None:
    hosts = ("--allow-host", "10.0.0.1", "--allow-host", "10.0.0.2", "--deny-principal", "User:bob")
    options = ("--topic", "o", "--operation", "Read", "--resource-pattern-type", "prefixed")
    assert barnabas("acl", "add", *ALICE, *hosts, *options) == 0
    assert [short(each) for each in acls.created] == [
        "allow User:alice 10.0.0.1 Read topic:o",
        "allow User:alice 10.0.0.2 Read topic:o",
        "deny User:bob * Read topic:o",
    ]
    assert {each.pattern_type for each in acls.created} == {"prefixed"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--topic", "o"), "name a principal"),
        (ALICE, "name a resource"),
        (("--allow-principal", "alice", "--topic", "o"), "User:alice"),
        ((*ALICE, "--topic", "o", "--deny-host", "::1"), "needs --deny-principal"),
        ((*ALICE, "--producer"), "need --topic"),
        ((*ALICE, "--consumer", "--topic", "o"), "needs --group"),
        ((*ALICE, "--producer", "--topic", "o", "--group", "g"), "no group"),
        ((*ALICE, "--producer", "--topic", "o", "--operation", "Read"), "say which operations"),
        ((*ALICE, "--topic", "o", "--resource-pattern-type", "match"), "literal or prefixed"),
    ],
)
def test_options_that_say_too_little_are_a_usage_error(
    options: tuple[str, ...], problem: str, barnabas: Barnabas, acls: FakeAcls, capsys: Captured
) -> None:
    assert barnabas("acl", "add", *options) == 2
    assert problem in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert acls.created == []


def test_acls_are_listed(barnabas: Barnabas, acls: FakeAcls, capsys: Captured) -> None:
    acls.there = [
        AclInfo("topic", "orders", "literal", "User:alice", "*", "Read", "allow"),
        AclInfo("topic", "orders", "literal", "User:bob", "*", "Read", "deny"),
    ]
    assert barnabas("acl", "list") == 0
    assert acls.asked == [AclSelection()]
    assert capsys.readouterr().out.splitlines() == [
        "principal\tpermission\toperation\tresource type\tresource\tpattern\thost",
        "User:alice\tallow\tRead\ttopic\torders\tliteral\t*",
        "User:bob\tdeny\tRead\ttopic\torders\tliteral\t*",
    ]
    assert barnabas("acl", "list", "--principal", "User:bob", "--topic", "orders", "--json") == 0
    assert [each["principal"] for each in json.loads(capsys.readouterr().out)] == ["User:bob"]
    assert acls.asked[1] == AclSelection("topic", "orders", "literal")
    assert barnabas("acl", "list", "--topic", "orders", "--resource-pattern-type", "match") == 0
    assert acls.asked[2].pattern_type == "match"


def test_acls_are_removed_after_they_were_confirmed(barnabas: Barnabas, acls: FakeAcls, capsys: Captured) -> None:
    acls.there = [AclInfo("topic", "orders", "literal", "User:alice", "*", "Read", "allow")]
    assert barnabas("acl", "remove", "--topic", "orders") == 2
    assert "Remove 1 ACLs: User:alice allow Read on orders?" in capsys.readouterr().err
    assert acls.deleted == []
    assert barnabas("acl", "remove", "--topic", "orders", "--yes") == 0
    assert [short(each) for each in acls.deleted] == ["any None None Any topic:orders"]
    acls.deleted.clear()
    assert barnabas("acl", "remove", *ALICE, "--consumer", "--topic", "orders", "--group", "g", "-y") == 0
    assert [short(each) for each in acls.deleted] == [
        "allow User:alice None Read topic:orders",
        "allow User:alice None Describe topic:orders",
        "allow User:alice None Read group:g",
    ]


def test_all_acls_are_removed_only_on_demand(barnabas: Barnabas, acls: FakeAcls) -> None:
    assert barnabas("acl", "remove", "--yes") == 2
    acls.there = [AclInfo("topic", "orders", "literal", "User:alice", "*", "Read", "allow")]
    assert barnabas("acl", "remove", "--all", "--yes") == 0
    assert acls.deleted == [AclSelection()]
