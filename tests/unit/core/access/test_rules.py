"""Who may do what, by ACLs: examples to be read, and any ACLs against the rules as they are told."""

from itertools import count
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.access.acls import Acl, PatternType, Permission
from barnabas.core.access.resources import Operation, Resource, ResourceType, topic
from barnabas.core.access.rules import Rules
from tests.unit.core.access import naive

TOPIC = ResourceType.TOPIC
ALICE, BOB, HOST = "User:alice", "User:bob", "10.0.0.7"


def acl(
    name: str = "orders",
    operation: int = Operation.READ,
    *,
    principal: str = ALICE,
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
    kind: ResourceType = TOPIC,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def rules_of(*acls: Acl, super_users: tuple[str, ...] = (), allows_unlisted: bool = False) -> Rules:
    rules = Rules(super_users=super_users, allows_unlisted=allows_unlisted)
    for number, each in enumerate(acls):
        rules.add(UUID(int=number), each)
    return rules


def may(rules: Rules, operation: Operation, name: str = "orders", *, principal: str = ALICE, host: str = HOST) -> bool:
    return rules.allows(principal, host, operation, topic(name))


def test_nobody_may_do_anything_without_an_acl() -> None:
    assert not may(rules_of(), Operation.READ)
    assert may(rules_of(allows_unlisted=True), Operation.READ)


def test_an_acl_for_another_is_an_acl_for_the_resource() -> None:
    rules = rules_of(acl(principal=BOB), allows_unlisted=True)
    assert not may(rules, Operation.READ)
    assert may(rules, Operation.READ, "others")


def test_a_denial_wins_wherever_it_is() -> None:
    allowed = acl(operation=Operation.READ)
    for denial in (
        acl(permission=Permission.DENY),
        acl("*", permission=Permission.DENY),
        acl("ord", pattern=PatternType.PREFIXED, permission=Permission.DENY),
        acl(principal="User:*", permission=Permission.DENY),
        acl(operation=2, permission=Permission.DENY),
        acl(host=HOST, permission=Permission.DENY),
        acl(host="10.0.0.0/8", permission=Permission.DENY),
    ):
        assert may(rules_of(allowed), Operation.READ)
        assert not may(rules_of(allowed, denial), Operation.READ)


def test_what_allows_more_allows_describing_and_what_denies_it_does_not_deny_describing() -> None:
    for operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER):
        assert may(rules_of(acl(operation=operation)), Operation.DESCRIBE)
    assert not may(rules_of(acl(operation=Operation.CREATE)), Operation.DESCRIBE)
    assert may(rules_of(acl(operation=Operation.ALTER_CONFIGS)), Operation.DESCRIBE_CONFIGS)
    assert not may(rules_of(acl(operation=Operation.ALTER_CONFIGS)), Operation.DESCRIBE)
    denied = acl(operation=Operation.READ, permission=Permission.DENY)
    assert may(rules_of(denied, acl(operation=Operation.DESCRIBE)), Operation.DESCRIBE)
    assert not may(rules_of(acl(operation=Operation.DESCRIBE)), Operation.READ)


@pytest.mark.parametrize(
    ("written", "comes_from", "is_it"),
    [
        ("10.0.0.7", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.8", False),
        ("10.0.0.7", "::ffff:10.0.0.7", True),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("fe80::1", "fe80::1%eth0", True),
        ("10.0.0.0/30", "10.0.0.3", True),
        ("10.0.0.0/30", "10.0.0.4", False),
        ("10.0.0.0/30", "::1", False),
        ("fe80::/10", "fe80::1", True),
        ("10.0.0.0/30", "", False),
    ],
)
def test_hosts_are_addresses_however_they_are_written(written: str, comes_from: str, *, is_it: bool) -> None:
    assert may(rules_of(acl(host=written)), Operation.READ, host=comes_from) is is_it


def test_a_super_user_may_do_what_is_denied() -> None:
    rules = rules_of(acl("*", operation=2, permission=Permission.DENY), super_users=(ALICE,))
    assert may(rules, Operation.WRITE)
    assert not may(rules, Operation.WRITE, principal=BOB)
    assert rules.allows_any(ALICE, HOST, Operation.WRITE, TOPIC)


def test_a_prefix_is_for_all_names_that_begin_with_it() -> None:
    rules = rules_of(acl("or", pattern=PatternType.PREFIXED), acl("ordersize", pattern=PatternType.PREFIXED))
    assert may(rules, Operation.READ, "or")
    assert may(rules, Operation.READ, "orders")
    assert not may(rules, Operation.READ, "o")
    assert not may(rules_of(acl("*", pattern=PatternType.PREFIXED)), Operation.READ), "a prefix like any other"


def test_what_is_removed_counts_no_more() -> None:
    for each in (
        acl(),
        acl(host="10.0.0.0/8"),
        acl("ord", pattern=PatternType.PREFIXED),
        acl(permission=Permission.DENY),
    ):
        rules = rules_of(each, allows_unlisted=True)
        rules.remove(UUID(int=0))
        assert len(rules) == 0
        assert may(rules, Operation.WRITE), "not even the resource is listed"


TYPES = st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP])
NAMES = st.text("ab*", min_size=1, max_size=4)
PRINCIPALS = st.sampled_from([ALICE, BOB, "User:*"])
HOSTS = st.sampled_from([HOST, "10.0.0.8"])
SOME = st.sampled_from([Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER_CONFIGS])
ACLS = st.builds(
    Acl,
    TYPES,
    NAMES,
    st.sampled_from(PatternType).filter(lambda each: each >= PatternType.LITERAL),
    PRINCIPALS,
    HOSTS | st.sampled_from(["*", "10.0.0.0/29", "10.0.0.8/32"]),
    SOME | st.just(2),
    st.sampled_from(Permission),
)


@given(st.lists(ACLS, max_size=12), st.data())
def test_any_acls_say_what_the_rules_say_as_they_are_told(acls: list[Acl], data: st.DataObject) -> None:
    """ACLs are created and deleted, and the same one may be there twice under two ids."""
    options: dict[str, Any] = {
        "allows_unlisted": data.draw(st.booleans()),
        "super_users": frozenset(data.draw(st.sets(PRINCIPALS))),
    }
    rules, ids, there = Rules(**options), count(), dict[UUID, Acl]()
    for each in acls:
        acl_id = UUID(int=next(ids))
        rules.add(acl_id, each)
        there[acl_id] = each
    for acl_id in data.draw(st.lists(st.sampled_from(sorted(there)), unique=True) if there else st.just([])):
        rules.remove(acl_id)
        del there[acl_id]
    left = list(there.values())
    principal, host = data.draw(st.sampled_from([ALICE, BOB])), data.draw(HOSTS)
    operation = data.draw(SOME | st.just(Operation.DESCRIBE_CONFIGS))
    kind, name = data.draw(TYPES), data.draw(NAMES)
    assert rules.allows(principal, host, operation, Resource(kind, name)) == naive.allows(
        left, principal, host, operation, kind, name, **options
    )
    assert rules.allows_any(principal, host, operation, kind) == naive.allows_any(
        left, principal, host, operation, kind, **options
    )
