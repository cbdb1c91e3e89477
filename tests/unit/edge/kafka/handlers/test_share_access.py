"""What share groups do not tell: names and ids of topics that a client may not see."""

from typing import Any
from uuid import UUID

from barnabas.core.access.acls import Acl
from barnabas.core.access.resources import Operation, ResourceType
from barnabas.core.access.rules import Rules
from barnabas.services.acl_authorizer import AclAuthorizer
from barnabas.services.broker import Broker
from barnabas.services.session import Principal
from barnabas.wire.apis import APIS
from tests.unit.edge.kafka.support import ask, ask_as, config_of, create, new_session, run

MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
AUTHORIZING = config_of(authorizer_class_name="acl", super_users="User:ANONYMOUS")
TOPIC_REFUSED = 29


async def begin(broker: Broker) -> UUID:
    """A share group whose member reads a topic, and alice, who may do everything with the group, and nothing else."""
    await create(broker, "hidden")
    member = {"group_id": "g", "member_id": MEMBER, "member_epoch": 0}
    joined = await ask(broker, APIS[76], 1, **member, subscribed_topic_names=("hidden",))
    assert joined.error_code.value == 0
    rules = Rules()
    for operation in (Operation.READ, Operation.DESCRIBE, Operation.DELETE):
        rules.add(UUID(int=operation), Acl(ResourceType.GROUP, "g", 3, "User:alice", "*", operation, 3))
    broker.access.use(AclAuthorizer(rules, broker.metadata))
    return broker.image.topics["hidden"].topic_id


async def ask_alice(broker: Broker, key: int, version: int, request: dict[str, Any]) -> Any:
    session = new_session()
    session.principal = Principal("User", "alice")
    return await ask_as(session, broker, APIS[key], version, request)


def test_a_group_that_is_hidden_does_not_name_the_topic_that_hides_it() -> None:
    async def scenario(broker: Broker) -> None:
        await begin(broker)
        answer = await ask_alice(broker, 77, 1, {"group_ids": ("g",)})
        assert answer.groups[0].error_code.value == TOPIC_REFUSED
        assert "hidden" not in str(answer)

    run(scenario, AUTHORIZING)


def test_a_topic_named_by_its_id_is_refused_without_its_name() -> None:
    async def scenario(broker: Broker) -> None:
        topic_id = await begin(broker)
        topics = [{"topic_id": topic_id, "partitions": [{"partition_index": 0}]}]
        shared = {"group_id": "g", "member_id": MEMBER, "share_session_epoch": 0, "max_bytes": 1000, "max_records": 1}
        answer = await ask_alice(broker, 78, 2, {**shared, "topics": topics})
        assert answer.responses[0].partitions[0].error_code.value == TOPIC_REFUSED
        assert "hidden" not in str(answer)

    run(scenario, AUTHORIZING)


def test_a_topic_that_is_refused_is_answered_as_one_that_does_not_exist() -> None:
    async def scenario(broker: Broker) -> None:
        await begin(broker)
        await ask_alice(broker, 76, 1, {"group_id": "g", "member_id": MEMBER, "member_epoch": -1})
        for key, more in ((91, {"partitions": [{"partition_index": 0, "start_offset": 0}]}), (92, {})):
            there, missing = [
                await ask_alice(broker, key, 0, {"group_id": "g", "topics": [{"topic_name": name, **more}]})
                for name in ("hidden", "missing")
            ]
            assert str(there).replace("hidden", "missing") == str(missing)
            assert "29" in str(there)

    run(scenario, AUTHORIZING)


def test_topics_that_were_not_named_are_left_out_and_are_no_denial() -> None:
    async def scenario(broker: Broker) -> None:
        await begin(broker)
        answer = await ask_alice(broker, 90, 1, {"groups": [{"group_id": "g", "topics": None}]})
        assert (answer.groups[0].error_code.value, answer.groups[0].topics) == (0, ())
        assert broker.access.denied == 0

    run(scenario, AUTHORIZING)
