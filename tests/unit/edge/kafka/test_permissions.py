"""API x resource x grant: every permission alone, all that is needed, and all but one, for every row of the table."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from barnabas.core.access.acls import Acl
from barnabas.core.access.resources import OPERATIONS, Operation, Resource, ResourceType
from barnabas.core.access.rules import Rules
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.envelopes import codes_in as codes_in_values
from barnabas.edge.kafka.handlers.quorum_requests import fetch_metadata
from barnabas.services.acl_authorizer import AclAuthorizer
from barnabas.services.broker import Broker
from barnabas.services.session import Principal
from barnabas.wire.apis import (
    APIS,
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_TRANSACTIONS,
    FETCH,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
)
from tests.support.served import HANDLERS, SERVED
from tests.unit.edge.kafka.calling import Caller
from tests.unit.edge.kafka.permissions import (
    NAMED,
    NOT_AUTHORIZED,
    REFUSALS,
    ROWS,
    SHARED,
    SHARED_TOPICS,
    THERE_ID,
    Permission,
    Row,
)
from tests.unit.edge.kafka.support import ask, ask_as, config_of, create, new_session, run, through_bytes
from tests.unit.edge.kafka.test_access import codes_in

DOCUMENT = Path(__file__).parents[4] / "docs" / "acls.md"
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}
ALICE = Principal("User", "alice")
ANOTHER = {
    resource.type: Resource(resource.type, "another")
    for resource in NAMED.values()
    if resource.type is not ResourceType.CLUSTER
}
AUTHORIZING = config_of(authorizer_class_name="acl", super_users="User:ANONYMOUS")
JOINED = {69: 68, 77: 76, 90: 76, 92: 76}
"""Requests about a group that somebody has joined, and how: the keys of both."""
SERVED_ROWS = [each for each in ROWS if each.key in SERVED]


def test_every_api_is_in_the_table() -> None:
    """Whoever adds an API says here who may use it, and in docs/acls.md."""
    assert set(SERVED) <= {each.key for each in ROWS} | NOT_AUTHORIZED


def grants_of(row: Row) -> Iterator[frozenset[Permission]]:
    """None; each permission that there is, alone; all that are needed, in each way; all of these but one; and all that
    there are, on other resources.
    """
    yield frozenset()
    for kind, operations in OPERATIONS.items():
        for resource in {each for each in NAMED.values() if each.type is kind} or {Resource(kind, "x")}:
            yield from (frozenset([(operation, resource)]) for operation in operations)
    for chosen in product(*(each.any_of for each in row.needs)):
        yield frozenset(chosen)
        yield from (frozenset(chosen) - {each} for each in chosen)
    yield frozenset((operation, each) for kind, each in ANOTHER.items() for operation in OPERATIONS[kind])


def is_met(granted: Iterable[Permission], wanted: Permission) -> bool:
    operation, resource = wanted
    implying = {operation} | IMPLIED.get(operation, set())
    return any(given in implying and where == resource for given, where in granted)


def expected_of(row: Row, granted: frozenset[Permission]) -> int:
    """The code that is heard, 0 for none."""
    for needed in row.needs:
        if not any(is_met(granted, each) for each in needed.any_of):
            writes_some = row.key == 22 and any(
                operation is Operation.WRITE and resource.type is ResourceType.TOPIC for operation, resource in granted
            )
            if not (writes_some and len(needed.any_of) > 1):  # a producer id is for who may write to any topic
                return needed.code
    return 0


async def heard(broker: Broker, row: Row) -> Any:
    """The answer to the request of a row, for alice."""
    request = _with_id(row.request, _id_of(broker))
    api = APIS[row.key]
    session = new_session("CONTROLLER" if row.is_for_controllers else "PLAINTEXT")
    session.principal, session.is_for_controllers = ALICE, row.is_for_controllers
    if api is FETCH and row.is_for_controllers:
        return await fetch_metadata(broker, through_bytes(api, row.version, request), Asked(row.version, session))
    if api is DESCRIBE_TRANSACTIONS:  # kio does not read the time of a transaction that has not begun
        return await HANDLERS[api.key](broker, through_bytes(api, row.version, request), Asked(row.version, session))
    if api in (PRODUCE, FETCH):
        caller = Caller(broker)
        caller.client.session.principal = ALICE
        return await caller.request(api, row.version, **request).read()
    assert api.key in HANDLERS
    return await ask_as(session, broker, api, row.version, request)


def codes_of(answer: Any) -> set[int]:
    codes = codes_in_values(answer) if isinstance(answer, Mapping) else codes_in(answer)
    return {*codes} & {*REFUSALS.values(), 65}


def _with_id(value: Any, topic_id: UUID) -> Any:
    if isinstance(value, dict):
        return {name: _with_id(each, topic_id) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_id(each, topic_id) for each in value]
    return topic_id if value == THERE_ID else value


def _id_of(broker: Broker) -> UUID:
    return broker.image.topics["there"].topic_id


async def begin(broker: Broker) -> None:
    """A topic, a group that has an offset of it, and a transactional id; again after what a request may have done."""
    if "new" in broker.image.topics:
        await broker.topics.delete("new")
    if "there" not in broker.image.topics:
        await create(broker, "there")
    if not await broker.groups.fetch_offsets("g", None, member_id=None, epoch=-1, must_be_stable=False):
        offset = {"partition_index": 0, "committed_offset": 1}
        topics = [{"name": "there", "partitions": [offset]}]
        nobody = {"member_id": "", "generation_id_or_member_epoch": -1}
        await ask(broker, APIS[8], 9, group_id="g", **nobody, topics=topics)


@pytest.mark.parametrize(
    "row",
    SERVED_ROWS,
    ids=[f"{APIS[each.key].name}-{each.version}-{number}" for number, each in enumerate(SERVED_ROWS)],
)
def test_a_request_is_carried_out_with_the_permissions_of_its_row_and_with_nothing_less(row: Row) -> None:
    async def scenario(broker: Broker) -> None:
        await begin(broker)
        await ask(broker, APIS[22], 5, transactional_id="t", transaction_timeout=1000)
        await join(broker, row.key)
        for granted in grants_of(row):
            authorizer = broker.access._authorizer
            if row.key == SHARE_ACKNOWLEDGE.key:
                await ask(broker, APIS[78], 2, **SHARED, topics=_with_id(SHARED_TOPICS, _id_of(broker)))
            rules = Rules()
            for number, (operation, resource) in enumerate(sorted(granted)):
                rules.add(UUID(int=number), Acl(resource.type, resource.name, 3, "User:alice", "*", operation, 3))
            broker.access.use(AclAuthorizer(rules, broker.metadata))
            answer = await heard(broker, row)
            assert authorizer is not None
            broker.access.use(authorizer)
            code, codes = expected_of(row, granted), codes_of(answer)
            if row.sees is None:
                assert codes == ({code} if code else set()), (granted, answer)
            else:
                assert row.sees(answer) is (code == 0), (granted, answer)
                assert codes <= {REFUSALS[ResourceType.GROUP]} if row.key == 9 else not codes
            if row.key not in JOINED:
                await begin(broker)

    run(scenario, AUTHORIZING)


async def join(broker: Broker, key: int) -> None:
    """Make group g the kind of group that a request is about, whose member names the topic."""
    if key not in JOINED:
        return
    await ask(broker, APIS[42], 2, groups_names=("g",))
    member = {"group_id": "g", "member_id": SHARED["member_id"], "member_epoch": 0, "rebalance_timeout": 1000}
    joined = await ask(broker, APIS[JOINED[key]], 1, **member, subscribed_topic_names=("there",), topic_partitions=())
    assert joined.error_code.value == 0
    if key == DELETE_SHARE_GROUP_OFFSETS.key:  # only of a group without members
        await ask(broker, APIS[76], 1, **{**member, "member_epoch": -1})


def test_the_document_has_the_same_table() -> None:
    """Each line of the table in docs/acls.md: the keys of APIs, and the permissions that they need."""
    told: dict[int, set[str]] = defaultdict(set)
    for line in DOCUMENT.read_text().split("<!-- permissions -->")[1].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].isdecimal():
            told[int(cells[0])].add(cells[2])
    expected: dict[int, set[str]] = defaultdict(set)
    for each in ROWS:
        expected[each.key].add(words_of(each))
    for key in NOT_AUTHORIZED:
        expected[key].add("nothing")
    assert {key: sorted(words) for key, words in told.items()} == {
        key: sorted(words) for key, words in expected.items()
    }


def words_of(row: Row) -> str:
    """The needs of a row in words, as the document has them."""
    needs = [
        " or ".join(f"{_word(operation.name)} on {_word(where.type.name)}" for operation, where in each.any_of)
        for each in row.needs
    ]
    return "; ".join(needs)


def _word(name: str) -> str:
    """READ_IT as ReadIt."""
    return "".join(part.capitalize() for part in name.split("_"))
