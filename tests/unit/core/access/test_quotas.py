"""Client quotas: which one a client has, what may be set, and what a filter finds."""

import math
from itertools import combinations

import pytest

from barnabas.core.access.quotas import (
    CLIENT_QUOTAS,
    CONNECTION_CREATION_RATE,
    MAX_NAME,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Alteration,
    Component,
    MatchType,
    Rules,
    alter_quotas,
    find_quotas,
)
from barnabas.core.errors import InvalidRequest, UnsupportedVersion
from barnabas.core.metadata.image import Entity, Image
from barnabas.core.metadata.records import ClientQuotaRecord

ORDER: list[Entity] = [
    (("client-id", "app"), ("user", "alice")),
    (("client-id", None), ("user", "alice")),
    (("user", "alice"),),
    (("client-id", "app"), ("user", None)),
    (("client-id", None), ("user", None)),
    (("user", None),),
    (("client-id", "app"),),
    (("client-id", None),),
]
"""The quotas of alice's client app, the one that counts first."""


def image_of(*entities: Entity, name: str = PRODUCER_BYTE_RATE) -> Image:
    image = Image()
    for number, entity in enumerate(entities):
        image.apply(ClientQuotaRecord(entity, name, 100.0 + number))
    return image


@pytest.mark.parametrize(("first", "second"), [*combinations(range(len(ORDER)), 2)])
def test_of_two_quotas_the_more_specific_counts(first: int, second: int) -> None:
    rules = Rules({ORDER[second]: {PRODUCER_BYTE_RATE: 2.0}, ORDER[first]: {PRODUCER_BYTE_RATE: 1.0}})
    found = rules.find(PRODUCER_BYTE_RATE, user="alice", client_id="app")
    assert found is not None
    assert found.limit == 1.0


@pytest.mark.parametrize(
    ("entity", "holder"),
    [
        (ORDER[0], ("alice", "app")),
        (ORDER[1], ("alice", "app")),
        (ORDER[2], ("alice", None)),
        (ORDER[3], ("alice", "app")),
        (ORDER[4], ("alice", "app")),
        (ORDER[5], ("alice", None)),
        (ORDER[6], (None, "app")),
        (ORDER[7], (None, "app")),
    ],
)
def test_a_quota_is_shared_by_all_clients_that_it_does_not_tell_apart(
    entity: Entity, holder: tuple[str | None, str | None]
) -> None:
    found = Rules({entity: {PRODUCER_BYTE_RATE: 1.0}}).find(PRODUCER_BYTE_RATE, user="alice", client_id="app")
    assert found is not None
    assert found.holder == holder


def test_a_client_without_a_quota_of_that_name_has_none() -> None:
    rules = Rules({(("user", "bob"),): {PRODUCER_BYTE_RATE: 1.0}, (("user", "alice"),): {REQUEST_PERCENTAGE: 1.0}})
    assert rules.find(PRODUCER_BYTE_RATE, user="alice", client_id="app") is None


def test_a_quota_of_another_name_hides_none_that_is_less_specific() -> None:
    rules = Rules({ORDER[0]: {REQUEST_PERCENTAGE: 5.0}, ORDER[7]: {PRODUCER_BYTE_RATE: 7.0}})
    found = rules.find(PRODUCER_BYTE_RATE, user="alice", client_id="app")
    assert found is not None
    assert found.limit == 7.0


def test_an_address_has_its_own_rate_or_the_default() -> None:
    rules = Rules(
        {(("ip", "10.0.0.7"),): {CONNECTION_CREATION_RATE: 7.0}, (("ip", None),): {CONNECTION_CREATION_RATE: 3.0}}
    )
    assert (rules.find_ip("10.0.0.7"), rules.find_ip("10.0.0.8")) == (7.0, 3.0)
    assert not rules.has_client_quotas
    assert Rules({}).find_ip("10.0.0.7") is None


def test_rules_of_nothing_are_off() -> None:
    assert not Rules({})
    assert not Rules({}).has_client_quotas
    assert not Rules({}).has_ip_quotas


# Altering


def test_quotas_are_set_changed_and_removed() -> None:
    image = Image()
    entity = [("user", "alice"), ("client-id", None)]
    decided = alter_quotas(image, [Alteration(entity, [(PRODUCER_BYTE_RATE, 1024.0), (REQUEST_PERCENTAGE, 12.5)])])
    for record in decided.records:
        image.apply(record)
    assert decided.reply == [None]
    assert image.quotas == {
        (("client-id", None), ("user", "alice")): {PRODUCER_BYTE_RATE: 1024.0, REQUEST_PERCENTAGE: 12.5}
    }
    removed = alter_quotas(image, [Alteration(entity, [(PRODUCER_BYTE_RATE, None), (REQUEST_PERCENTAGE, None)])])
    for record in removed.records:
        image.apply(record)
    assert image.quotas == {}


def test_what_is_so_already_is_not_written() -> None:
    image = image_of((("user", "alice"),))
    same = Alteration([("user", "alice")], [(PRODUCER_BYTE_RATE, 100.0), (REQUEST_PERCENTAGE, None)])
    assert alter_quotas(image, [same]).records == []


def test_a_refused_entity_leaves_the_others_as_they_were_asked_for() -> None:
    decided = alter_quotas(
        Image(),
        [
            Alteration([("user", "alice")], [(PRODUCER_BYTE_RATE, 1.0), ("unknown", 2.0)]),
            Alteration([("user", "bob")], [(PRODUCER_BYTE_RATE, 3.0)]),
        ],
    )
    assert [type(outcome) for outcome in decided.reply] == [InvalidRequest, type(None)]
    assert decided.records == [ClientQuotaRecord((("user", "bob"),), PRODUCER_BYTE_RATE, 3.0)]


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        ([], "needs a user"),
        ([("host", "a")], "not to 'host'"),
        ([("user", "a"), ("user", "b")], "one user"),
        ([("user", "")], "1 to"),
        ([("client-id", "x" * (MAX_NAME + 1))], "1 to"),
        ([("ip", "10.0.0.1"), ("user", "a")], "cannot be combined"),
        ([("ip", "localhost")], "not an IP address"),
    ],
)
def test_an_entity_that_cannot_be_is_refused(entity: list[tuple[str, str | None]], words: str) -> None:
    name = CONNECTION_CREATION_RATE if ("ip", "localhost") in entity else PRODUCER_BYTE_RATE
    decided = alter_quotas(Image(), [Alteration(entity, [(name, 1.0)])])
    assert words in str(decided.reply[0])
    assert decided.records == []


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("user", PRODUCER_BYTE_RATE, 0.0),
        ("user", PRODUCER_BYTE_RATE, -1.0),
        ("user", PRODUCER_BYTE_RATE, 1.5),
        ("user", REQUEST_PERCENTAGE, math.nan),
        ("user", REQUEST_PERCENTAGE, math.inf),
        ("user", CONNECTION_CREATION_RATE, 1.0),
        ("ip", PRODUCER_BYTE_RATE, 1.0),
        ("ip", CONNECTION_CREATION_RATE, 0.5),
    ],
)
def test_a_value_that_cannot_be_is_refused(kind: str, name: str, value: float) -> None:
    decided = alter_quotas(Image(), [Alteration([(kind, None)], [(name, value)])])
    assert isinstance(decided.reply[0], InvalidRequest)
    assert decided.records == []


def test_a_number_that_is_whole_but_for_rounding_is_taken() -> None:
    decided = alter_quotas(Image(), [Alteration([("user", None)], [(PRODUCER_BYTE_RATE, 1023.9999999)])])
    assert decided.records == [ClientQuotaRecord((("user", None),), PRODUCER_BYTE_RATE, 1024.0)]


def test_an_entity_or_a_quota_that_is_named_twice_is_refused() -> None:
    twice = Alteration([("user", "a")], [(PRODUCER_BYTE_RATE, 1.0), (PRODUCER_BYTE_RATE, 2.0)])
    once = Alteration([("user", "b")], [(PRODUCER_BYTE_RATE, 1.0)])
    decided = alter_quotas(Image(), [twice, once, once])
    assert [outcome is None for outcome in decided.reply] == [False, True, False]


def test_an_address_is_kept_in_its_usual_notation() -> None:
    decided = alter_quotas(Image(), [Alteration([("ip", "2001:DB8::0001")], [(CONNECTION_CREATION_RATE, 5.0)])])
    assert decided.records == [ClientQuotaRecord((("ip", "2001:db8::1"),), CONNECTION_CREATION_RATE, 5.0)]


# Listing

EXACT, DEFAULT, SPECIFIED = MatchType.EXACT, MatchType.DEFAULT, MatchType.SPECIFIED


@pytest.mark.parametrize(
    ("components", "is_strict", "found"),
    [
        ([], False, range(8)),
        ([], True, []),
        ([("user", EXACT, "alice")], False, [0, 1, 2]),
        ([("user", EXACT, "alice")], True, [2]),
        ([("user", DEFAULT, None)], True, [5]),
        ([("user", SPECIFIED, None)], True, [2, 5]),
        ([("client-id", SPECIFIED, None), ("user", EXACT, "alice")], True, [0, 1]),
        ([("client-id", DEFAULT, None), ("user", SPECIFIED, None)], True, [1, 4]),
        ([("client-id", EXACT, "app")], False, [0, 3, 6]),
        ([("ip", SPECIFIED, None)], False, []),
        ([("user", EXACT, "nobody")], False, []),
    ],
)
def test_a_filter_finds_what_it_names(
    components: list[tuple[str, int, str | None]], is_strict: bool, found: list[int]
) -> None:
    listed = find_quotas(image_of(*ORDER), [Component(*each) for each in components], is_strict=is_strict)
    assert {entity for entity, _ in listed} == {ORDER[number] for number in found}


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", EXACT, "a")], InvalidRequest),
        ([("user", EXACT, "a"), ("user", DEFAULT, None)], InvalidRequest),
        ([("host", EXACT, "a")], UnsupportedVersion),
        ([("user", 9, None)], InvalidRequest),
        ([("user", EXACT, None)], InvalidRequest),
        ([("user", DEFAULT, "a")], InvalidRequest),
        ([("ip", SPECIFIED, None), ("user", SPECIFIED, None)], InvalidRequest),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    components: list[tuple[str, int, str | None]], error: type[Exception]
) -> None:
    with pytest.raises(error):
        find_quotas(Image(), [Component(*each) for each in components], is_strict=False)


def test_every_quota_of_clients_can_be_set() -> None:
    decided = alter_quotas(Image(), [Alteration([("user", None)], [(name, 5.0) for name in CLIENT_QUOTAS])])
    assert decided.reply == [None]
    assert len(decided.records) == len(CLIENT_QUOTAS)
