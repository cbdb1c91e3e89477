"""A change asked of any node: the controller makes it, the node that was asked answers, and has applied it by then."""

import asyncio
from typing import Any

import pytest

from barnabas.core.access.resources import Operation, Resource, ResourceType
from barnabas.core.metadata.records import BROKER_RESOURCE, TOPIC_RESOURCE
from barnabas.edge.kafka import envelopes
from barnabas.edge.kafka.registry import FORWARDED
from barnabas.services.session import Principal, Session
from barnabas.wire.apis import (
    ALTER_CONFIGS,
    APIS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_QUORUM,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_PARTITION_REASSIGNMENTS,
    UNREGISTER_BROKER,
    Api,
)
from tests.support.served import versions_of
from tests.unit.edge.kafka.clustered import NO_LEADER, Cluster, run
from tests.unit.edge.kafka.handlers.test_every_version import REQUESTS
from tests.unit.edge.kafka.test_access import codes_in

NOT_CONTROLLER, TIMED_OUT = 41, 7


def topics(*names: str, **values: Any) -> dict[str, Any]:
    return {"topics": [{"name": name, "num_partitions": 2, "replication_factor": 1, **values} for name in names]}


def outcome(answer: Any) -> tuple[int, str | None]:
    (topic,) = answer.topics
    return topic.error_code.value, topic.error_message


def test_a_topic_is_created_and_deleted_from_any_node() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.lag_s = 0.5
        for node_id in (1, 2, 3):
            name = f"from-{node_id}"
            answer = await cluster.ask(node_id, CREATE_TOPICS, 7, **topics(name))
            image = cluster.brokers[node_id].image
            assert outcome(answer) == (0, None)
            assert image.topics[name].topic_id == answer.topics[0].topic_id, "answered before it was applied"
            assert name in cluster.brokers[node_id].served.by_name
        for node_id in (3, 2, 1):
            name = f"from-{node_id}"
            await cluster.ask(node_id, DELETE_TOPICS, 6, topics=[{"name": name}])
            assert name not in cluster.brokers[node_id].image.topics

    run(scenario, nodes=3)


def test_an_answer_waits_until_the_node_that_was_asked_has_applied_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.lag_s = 7
        begun = asyncio.get_running_loop().time()
        await cluster.ask(2, CREATE_TOPICS, 7, timeout=20_000, **topics("a"))
        assert 7 <= asyncio.get_running_loop().time() - begun < 8
        answer = await cluster.ask(2, CREATE_TOPICS, 7, timeout=3_000, **topics("b"))
        assert outcome(answer)[0] == TIMED_OUT
        assert "b" in cluster.brokers[1].image.topics

    run(scenario)


def test_what_the_controller_refuses_is_answered_as_if_it_were_decided_here() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.ask(1, CREATE_TOPICS, 7, **topics("there"))
        for request in (
            topics("there"),
            topics("a b"),
            topics("x", num_partitions=-7),
            topics("y", configs=[{"name": "no"}]),
        ):
            here = await cluster.ask(1, CREATE_TOPICS, 7, **request)
            away = await cluster.ask(2, CREATE_TOPICS, 7, **request)
            assert here == away
            assert outcome(away)[0] != 0
        for api, request in (
            (CREATE_PARTITIONS, {"topics": [{"name": "there", "count": 1}]}),
            (UNREGISTER_BROKER, {"broker_id": 9}),
            (LIST_PARTITION_REASSIGNMENTS, {"topics": None}),
        ):
            assert await cluster.ask(1, api, 0, **request) == await cluster.ask(2, api, 0, **request)

    run(scenario)


VERSIONS = [
    pytest.param(APIS[key], version, id=f"{APIS[key].name}-{version}")
    for key in sorted(FORWARDED)
    for version in versions_of(APIS[key])
]


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_every_version_of_every_forwarded_api_is_answered_as_the_controller_does(api: Api, version: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.ask(1, CREATE_TOPICS, 7, **topics("there"))
        for request in REQUESTS[api]:
            away = await cluster.ask(2, api, version, **request)
            codes = set(codes_in(away))
            assert NOT_CONTROLLER not in codes
            cluster.quorum.elect(NO_LEADER)
            refused = set(codes_in(await cluster.ask(2, api, version, **{**request, "timeout": 100})))
            assert NOT_CONTROLLER in refused
            cluster.quorum.elect(1)

    run(scenario)


def test_a_request_waits_for_a_controller_and_goes_to_the_new_one() -> None:
    async def scenario(cluster: Cluster) -> None:
        loop = asyncio.get_running_loop()
        cluster.quorum.elect(NO_LEADER)
        loop.call_later(3, cluster.quorum.elect, 3)
        assert outcome(await cluster.ask(2, CREATE_TOPICS, 7, **topics("a"))) == (0, None)
        assert cluster.brokers[3].image.topics.keys() == {"a"}

    run(scenario, nodes=3)


@pytest.mark.parametrize(
    ("timeout_ms", "after_s"), [(None, 10.0), (0, 10.0), (20_000, 18.0), (500, 0.45)], ids=["none", "0", "20s", "500ms"]
)
def test_a_request_that_finds_no_controller_is_refused_before_its_client_gives_up(
    timeout_ms: int | None, after_s: float
) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.elect(NO_LEADER)
        begun = asyncio.get_running_loop().time()

        if timeout_ms is None:
            (answered,) = (await cluster.ask(2, INCREMENTAL_ALTER_CONFIGS, 1, **retention("a"))).responses
        else:
            (answered,) = (await cluster.ask(2, CREATE_TOPICS, 7, timeout=timeout_ms, **topics("a"))).topics

        assert after_s <= asyncio.get_running_loop().time() - begun < after_s + 0.1
        assert answered.error_code.value == NOT_CONTROLLER
        assert answered.error_code.retriable
        assert answered.error_message == (
            "no active controller: the quorum has no leader; see 'barnabas cluster status'"
        )

    run(scenario)


def retention(topic: str) -> dict[str, Any]:
    change = {"name": "retention.ms", "config_operation": 0, "value": "1000"}
    return {"resources": [{"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": [change]}]}


def test_a_controller_that_was_found_has_all_the_time_of_the_request() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.nodes[1].delays_s = [15.0]
        assert outcome(await cluster.ask(2, CREATE_TOPICS, 7, timeout=0, **topics("a"))) == (0, None)

    run(scenario)


def test_a_leader_that_is_gone_is_named_when_no_other_is_elected() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.elect(3)  # there is no node 3

        code, message = outcome(await cluster.ask(2, CREATE_TOPICS, 7, timeout=5_000, **topics("a")))

        assert code == NOT_CONTROLLER
        assert message is not None
        assert message.startswith("no active controller: node 3, which led the quorum last, does not answer (")

    run(scenario)


def test_a_request_is_carried_out_here_when_this_node_becomes_the_controller_meanwhile() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.elect(NO_LEADER)
        asyncio.get_running_loop().call_later(3, cluster.quorum.elect, 2)
        assert outcome(await cluster.ask(2, CREATE_TOPICS, 7, **topics("a"))) == (0, None)

    run(scenario)


@pytest.mark.parametrize("asked", [1, 2])
def test_a_request_follows_the_leadership_that_is_lost_before_anything_is_done(asked: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        moved: list[int] = []

        def move() -> None:
            if not moved:
                moved.append(1)
                cluster.quorum.elect(3)

        cluster.quorum.nodes[1].before_commit = move
        assert outcome(await cluster.ask(asked, CREATE_TOPICS, 7, **topics("a"))) == (0, None)
        assert moved

    run(scenario, nodes=3)


def test_a_request_of_which_a_part_is_done_is_not_repeated() -> None:
    async def scenario(cluster: Cluster) -> None:
        commits: list[int] = []

        def move() -> None:
            commits.append(1)
            if len(commits) == 2:
                cluster.quorum.elect(3)

        cluster.quorum.nodes[1].before_commit = move
        answer = await cluster.ask(2, CREATE_TOPICS, 7, **topics("a", "b"))
        assert [topic.error_code.value for topic in answer.topics] == [0, NOT_CONTROLLER]

    run(scenario, nodes=3)


def test_without_a_controller_a_request_is_refused_at_its_deadline() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.elect(NO_LEADER)
        begun = asyncio.get_running_loop().time()
        code, text = outcome(await cluster.ask(2, CREATE_TOPICS, 7, timeout=4_000, **topics("a")))
        assert (code, round(asyncio.get_running_loop().time() - begun)) == (NOT_CONTROLLER, 4)
        assert text is not None
        assert "the quorum has no leader" in text
        begun = asyncio.get_running_loop().time()
        answer = await cluster.ask(2, UNREGISTER_BROKER, 0, broker_id=9)  # which has no timeout of its own
        assert (answer.error_code.value, round(asyncio.get_running_loop().time() - begun)) == (NOT_CONTROLLER, 10)

    run(scenario)


def test_a_controller_that_cannot_be_reached_is_tried_until_the_deadline() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.simulation.host("n3")  # where nobody listens
        cluster.quorum.elect(3)
        code, text = outcome(await cluster.ask(2, CREATE_TOPICS, 7, timeout=4_000, **topics("a")))
        assert code == NOT_CONTROLLER
        assert text is not None
        assert "n3:9093" in text
        asyncio.get_running_loop().call_later(2, cluster.quorum.elect, 1)
        assert outcome(await cluster.ask(2, CREATE_TOPICS, 7, **topics("a"))) == (0, None)

    run(scenario)


def test_a_lost_answer_is_unknown_and_the_change_is_not_repeated() -> None:
    async def scenario(cluster: Cluster) -> None:
        commits: list[int] = []

        def cut() -> None:
            commits.append(1)
            cluster.simulation.network.reset_between("n1", "n2")

        cluster.quorum.nodes[1].before_commit = cut
        code, text = outcome(await cluster.ask(2, CREATE_TOPICS, 7, **topics("a")))
        assert (code, len(commits)) == (TIMED_OUT, 1)
        assert text is not None
        assert "may have carried this out or not" in text

    run(scenario)


def test_a_lost_answer_to_a_read_is_asked_for_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        cuts: list[int] = []

        class Rules:
            def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
                if operation is Operation.DESCRIBE and not cuts:
                    cuts.append(1)
                    cluster.simulation.network.reset_between("n1", "n2")
                return True

            def allows_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
                return True

        cluster.brokers[1].access.use(Rules())
        answer = await cluster.ask(2, DESCRIBE_QUORUM, 2, **REQUESTS[DESCRIBE_QUORUM][0])
        assert (answer.error_code.value, cuts) == (0, [1])

    run(scenario)


def test_a_change_whose_leadership_went_is_unknown() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.loses_next = True
        assert outcome(await cluster.ask(2, CREATE_TOPICS, 7, **topics("a")))[0] == TIMED_OUT

    run(scenario)


def test_the_controller_decides_about_the_caller_not_about_the_node_that_was_asked() -> None:
    seen: list[tuple[Principal, str, str | None]] = []

    class Rules:
        def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
            if operation is not Operation.CLUSTER_ACTION:
                seen.append((session.principal, session.peer[0], session.client_id))
            return operation is Operation.CLUSTER_ACTION

        def allows_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
            return False

    async def scenario(cluster: Cluster) -> None:
        cluster.brokers[1].access.use(Rules())
        cluster.callers[2].client.session.principal = Principal("User", "älice")
        code, text = outcome(await cluster.ask(2, CREATE_TOPICS, 7, **topics("a")))
        assert (code, text) == (29, "not allowed: create on topic 'a'")
        assert set(seen) == {(Principal("User", "älice"), "127.0.0.1", "c")}

    run(scenario)


def test_a_node_that_the_controller_does_not_trust_is_not_the_clients_fault() -> None:
    class Rules:
        def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
            return operation is not Operation.CLUSTER_ACTION

        def allows_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
            return True

    async def scenario(cluster: Cluster) -> None:
        cluster.brokers[1].access.use(Rules())
        assert outcome(await cluster.ask(2, CREATE_TOPICS, 7, **topics("a")))[0] == -1

    run(scenario)


def test_only_so_many_requests_wait_for_the_controller() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.elect(NO_LEADER)
        async with asyncio.TaskGroup() as tasks:
            waiting = [
                tasks.create_task(cluster.ask(2, CREATE_TOPICS, 7, timeout=9_000, **topics(f"t{number}")))
                for number in range(envelopes.MAX_WAITING)
            ]
            await asyncio.sleep(1)
            code, text = outcome(await cluster.ask(2, CREATE_TOPICS, 7, **topics("one-more")))
            assert (code, text) == (TIMED_OUT, "256 requests of this node already wait for the controller; try again")
            cluster.quorum.elect(1)
        assert {outcome(task.result())[0] for task in waiting} == {0}
        assert outcome(await cluster.ask(2, CREATE_TOPICS, 7, **topics("one-more"))) == (0, None)

    run(scenario)


def test_a_slow_change_does_not_hold_up_others() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.nodes[1].delays_s = [10.0]
        slow = asyncio.create_task(cluster.ask(2, CREATE_TOPICS, 7, **topics("slow")))
        await asyncio.sleep(1)
        begun = asyncio.get_running_loop().time()
        for number in range(3):
            assert outcome(await cluster.ask(2, CREATE_TOPICS, 7, **topics(f"t{number}"))) == (0, None)
        assert asyncio.get_running_loop().time() - begun < 1
        assert outcome(await slow) == (0, None)

    run(scenario)


def test_a_long_request_and_its_long_answer_are_forwarded_whole() -> None:
    async def scenario(cluster: Cluster) -> None:
        names = [f"a-topic-with-a-long-name-{number}" for number in range(400)]
        answer = await cluster.ask(2, CREATE_TOPICS, 7, **topics(*names))
        assert [(topic.name, topic.error_code.value) for topic in answer.topics] == [(name, 0) for name in names]

    run(scenario)


def test_a_client_that_goes_away_makes_room_for_others() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.elect(NO_LEADER)
        for _ in range(2):
            gone = [
                asyncio.create_task(cluster.ask(2, CREATE_TOPICS, 7, **topics("a")))
                for _ in range(envelopes.MAX_WAITING)
            ]
            await asyncio.sleep(1)
            for task in gone:
                task.cancel()
            await asyncio.wait(gone)
        cluster.quorum.elect(1)
        assert outcome(await cluster.ask(2, CREATE_TOPICS, 7, **topics("b"))) == (0, None)
        assert "a" not in cluster.brokers[1].image.topics

    run(scenario)


# Settings


def resource(kind: int, name: str, setting: str, value: str) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [{"name": setting, "value": value, "config_operation": 0}],
    }


def codes(answer: Any) -> list[tuple[int, str, int]]:
    return [(each.resource_type, each.resource_name, each.error_code.value) for each in answer.responses]


@pytest.mark.parametrize("api", [ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS])
def test_settings_of_a_broker_are_altered_by_asking_it(api: Api) -> None:
    async def scenario(cluster: Cluster) -> None:
        mine = resource(BROKER_RESOURCE, "2", "log.retention.ms", "5000")
        answer = await cluster.ask(2, api, 1, resources=[mine])
        assert codes(answer) == [(BROKER_RESOURCE, "2", 0)]
        assert cluster.brokers[2].live.current.topic_defaults["retention.ms"] == "5000"
        assert "retention.ms" not in cluster.brokers[1].live.current.topic_defaults
        for node_id, other in ((2, "1"), (1, "2")):
            answer = await cluster.ask(
                node_id, api, 1, resources=[resource(BROKER_RESOURCE, other, "log.retention.ms", "5000")]
            )
            assert codes(answer) == [(BROKER_RESOURCE, other, 42)]
            assert f"send the request to broker {other}" in answer.responses[0].error_message

    run(scenario)


def test_settings_that_a_broker_cannot_have_are_refused_by_itself() -> None:
    async def scenario(cluster: Cluster) -> None:
        both = [
            resource(BROKER_RESOURCE, "2", "num.io.threads", "100"),  # more than twice what it has
            resource(TOPIC_RESOURCE, "a", "retention.ms", "5000"),
        ]
        await cluster.ask(2, CREATE_TOPICS, 7, **topics("a"))
        answer = await cluster.ask(2, INCREMENTAL_ALTER_CONFIGS, 1, resources=both)
        assert codes(answer) == [(BROKER_RESOURCE, "2", 42), (TOPIC_RESOURCE, "a", 0)]
        assert cluster.brokers[2].image.config_of(TOPIC_RESOURCE, "a") == {"retention.ms": "5000"}

    run(scenario)


def test_levels_of_loggers_are_altered_on_the_node_that_was_asked_and_the_rest_by_the_controller() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.ask(2, CREATE_TOPICS, 7, **topics("a"))
        mixed = [
            resource(TOPIC_RESOURCE, "a", "retention.ms", "5000"),
            resource(8, "2", "barnabas.forwarding", "DEBUG"),
            resource(TOPIC_RESOURCE, "b", "retention.ms", "5000"),
            resource(8, "1", "barnabas.forwarding", "DEBUG"),
        ]
        answer = await cluster.ask(2, INCREMENTAL_ALTER_CONFIGS, 1, resources=mixed)
        assert codes(answer) == [(TOPIC_RESOURCE, "a", 0), (8, "2", 0), (TOPIC_RESOURCE, "b", 3), (8, "1", 42)]
        assert cluster.brokers[2].image.config_of(TOPIC_RESOURCE, "a") == {"retention.ms": "5000"}
        cluster.quorum.elect(NO_LEADER)
        answer = await cluster.ask(2, INCREMENTAL_ALTER_CONFIGS, 1, resources=mixed)
        assert codes(answer) == [(TOPIC_RESOURCE, "a", 41), (8, "2", 0), (TOPIC_RESOURCE, "b", 41), (8, "1", 42)]

    run(scenario)
