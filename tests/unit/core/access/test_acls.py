"""Which ACLs can be created, and which of them a filter selects."""

from typing import Any

import pytest

from barnabas.core.access.acls import Acl, AclFilter, PatternType
from barnabas.core.errors import InvalidRequest

VALID = Acl(2, "orders", 3, "User:alice", "*", 3, 3)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"resource_type": 0}, "resourceType"),
        ({"resource_type": 1}, "resourceType"),
        ({"resource_type": 8}, "resourceType"),
        ({"pattern_type": 1}, "patternType"),
        ({"pattern_type": 2}, "patternType"),
        ({"operation": 0}, "operation"),
        ({"operation": 1}, "operation"),
        ({"operation": 16}, "operation"),
        ({"permission": 1}, "permissionType"),
        ({"permission": 4}, "permissionType"),
        ({"resource_name": ""}, "Resource name should not be empty"),
        ({"resource_name": "x" * 4097}, "longer than 4096"),
        ({"principal": "User:" + "x" * 4096}, "longer than 4096"),
        ({"resource_type": 4}, "kafka-cluster"),
        ({"principal": "alice"}, "no colon"),
        ({"host": ""}, "Invalid host"),
        ({"host": "db.example.com"}, "Invalid host"),
        ({"host": "10.0.0.0/33"}, "Invalid host"),
    ],
)
def test_an_acl_that_says_nothing_is_refused(wrong: dict[str, Any], problem: str) -> None:
    VALID.check()
    with pytest.raises(InvalidRequest, match=problem):
        VALID._replace(**wrong).check()


def test_an_acl_has_an_id_of_its_own() -> None:
    others = [
        Acl(**{**VALID._asdict(), field: "x:y" if isinstance(value, str) else 4})
        for field, value in VALID._asdict().items()
    ]
    others += [VALID._replace(resource_name="ordersU", principal="ser:alice")]
    assert len({VALID.acl_id, *(each.acl_id for each in others)}) == 1 + len(others)
    assert VALID.acl_id == Acl(*VALID).acl_id


@pytest.mark.parametrize(
    ("pattern_type", "name", "selected"),
    [
        (PatternType.ANY, None, "orders or* *"),
        (PatternType.ANY, "or", "or*"),
        (PatternType.ANY, "orders", "orders"),
        (PatternType.ANY, "*", "*"),
        (PatternType.LITERAL, None, "orders *"),
        (PatternType.LITERAL, "orders", "orders"),
        (PatternType.LITERAL, "or", ""),
        (PatternType.PREFIXED, "or", "or*"),
        (PatternType.PREFIXED, "orders", ""),
        (PatternType.PREFIXED, None, "or*"),
        (PatternType.MATCH, "orders", "orders or* *"),
        (PatternType.MATCH, "origin", "or* *"),
        (PatternType.MATCH, "x", "*"),
        (PatternType.MATCH, None, "orders or* *"),
    ],
)
def test_a_filter_selects_by_pattern(pattern_type: PatternType, name: str | None, selected: str) -> None:
    acls = {
        "orders": VALID,
        "or*": VALID._replace(resource_name="or", pattern_type=4),
        "*": VALID._replace(resource_name="*"),
    }
    wanted = AclFilter(resource_name=name, pattern_type=pattern_type)
    wanted.check()
    assert [shown for shown, acl in acls.items() if wanted.matches(acl)] == selected.split()


@pytest.mark.parametrize("field", ["resource_type", "principal", "host", "operation", "permission"])
def test_a_filter_selects_by_each_field(field: str) -> None:
    value = getattr(VALID, field)
    same: dict[str, Any] = {field: value}
    other: dict[str, Any] = {field: f"{value}x" if isinstance(value, str) else 2 + (value == 2)}
    any_of: dict[str, Any] = {field: None if isinstance(value, str) else 1}
    assert AclFilter(**same).matches(VALID)
    assert not AclFilter(**other).matches(VALID)
    assert AclFilter(*VALID).single == VALID
    assert AclFilter(*VALID)._replace(**any_of).single is None


@pytest.mark.parametrize("wrong", [{"resource_type": 0}, {"pattern_type": 9}, {"operation": -1}, {"permission": 0}])
def test_a_filter_with_a_number_that_stands_for_nothing_is_refused(wrong: dict[str, Any]) -> None:
    AclFilter().check()
    with pytest.raises(InvalidRequest, match="Unknown"):
        AclFilter(**wrong).check()
