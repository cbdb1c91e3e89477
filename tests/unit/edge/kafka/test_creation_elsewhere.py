"""Topics that a node has created of its own accord, when another node is the controller."""

import asyncio

import msgspec

from barnabas.core.access.resources import Operation, Resource, ResourceType
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.core.metadata.records import TOPIC_RESOURCE
from barnabas.services.broker import Broker
from barnabas.services.session import Principal, Session
from barnabas.wire.apis import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA
from tests.unit.edge.kafka.clustered import NO_LEADER, Cluster, run

LEADER_NOT_AVAILABLE = 5


def metadata_of(*names: str) -> dict[str, object]:
    return {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": True}


def test_a_topic_that_a_client_asks_for_is_created_by_the_controller() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.lag_s = 0.5
        answer = await cluster.ask(2, METADATA, 12, **metadata_of("a", "b", "not a name"))
        assert [topic.error_code.value for topic in answer.topics] == [0, 0, 17]
        assert [len(topic.partitions) for topic in answer.topics] == [5, 5, 0], (
            "as many as the node asked has by default"
        )
        assert {"a", "b"} <= cluster.brokers[1].image.topics.keys()
        again = await cluster.ask(2, METADATA, 12, **metadata_of("a"))
        assert again.topics[0].topic_id == answer.topics[0].topic_id

    run(scenario, settings={2: {"num.partitions": "5"}})


def test_without_a_controller_metadata_is_answered_and_the_client_asks_again_for_the_topic() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.ask(2, METADATA, 12, **metadata_of("there"))
        cluster.quorum.elect(NO_LEADER)
        begun = asyncio.get_running_loop().time()
        answer = await cluster.ask(2, METADATA, 12, **metadata_of("there"))
        assert asyncio.get_running_loop().time() - begun < 0.1
        assert answer.controller_id == 2, "any node that is alive forwards changes"
        assert [broker.node_id for broker in answer.brokers] == [1, 2]
        answer = await cluster.ask(2, METADATA, 12, **metadata_of("there", "new"))
        assert [topic.error_code.value for topic in answer.topics] == [0, LEADER_NOT_AVAILABLE]
        assert asyncio.get_running_loop().time() - begun < 6
        cluster.quorum.elect(1)
        answer = await cluster.ask(2, METADATA, 12, **metadata_of("there", "new"))
        assert [topic.error_code.value for topic in answer.topics] == [0, 0]

    run(scenario)


def test_the_controller_hears_who_asked_for_a_topic_and_that_the_node_needs_an_internal_one() -> None:
    seen: dict[str, Principal] = {}

    class Rules:
        def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
            if operation is Operation.CREATE and resource.type is ResourceType.CLUSTER:
                seen[str(len(seen))] = session.principal
            return True

        def allows_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
            return True

    async def scenario(cluster: Cluster) -> None:
        cluster.brokers[1].access.use(Rules())
        cluster.callers[2].client.session.principal = Principal("User", "alice")
        await cluster.ask(2, METADATA, 12, **metadata_of("a"))
        await cluster.ask(2, FIND_COORDINATOR, 4, coordinator_keys=("g",))
        assert list(seen.values()) == [Principal("User", "alice"), Principal("Node", "itself")]

    run(scenario)


def test_internal_topics_are_created_with_their_settings() -> None:
    async def scenario(cluster: Cluster) -> None:
        for key_type, name in ((0, OFFSETS_TOPIC), (1, TRANSACTIONS_TOPIC)):
            answer = await cluster.ask(2, FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=("x",))
            assert answer.coordinators[0].error_code.value == 0
            image = cluster.brokers[2].image
            assert len(image.topics[name].partitions) == 7
            assert image.config_of(TOPIC_RESOURCE, name)["cleanup.policy"] == "compact"

    run(
        scenario,
        settings={2: {"offsets.topic.num.partitions": "7", "transaction.state.log.num.partitions": "7"}},
    )


def test_without_a_controller_there_is_no_coordinator_until_there_is_one() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.elect(NO_LEADER)
        answer = await cluster.ask(2, FIND_COORDINATOR, 4, coordinator_keys=("x",))
        assert answer.coordinators[0].error_code.value == 15
        cluster.quorum.elect(1)
        answer = await cluster.ask(2, FIND_COORDINATOR, 4, coordinator_keys=("x",))
        assert answer.coordinators[0].error_code.value == 0

    run(scenario)


# The nodes that clients are told of


async def fence(broker: Broker, node_id: int) -> None:
    def decide(image: Image) -> MetadataDecision[None]:
        return MetadataDecision([msgspec.structs.replace(image.nodes[node_id], is_fenced=True)], None)

    await broker.metadata.commit(decide)


def test_a_fenced_node_is_hidden_and_its_partitions_have_no_leader() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.ask(1, METADATA, 12, **metadata_of(*(f"t{number}" for number in range(6))))
        leaders = {name: topic.partitions[0].leader for name, topic in cluster.brokers[1].image.topics.items()}
        assert set(leaders.values()) == {1, 2}
        await fence(cluster.brokers[1], 2)
        await asyncio.sleep(0.1)
        for node_id in (1, 2):
            answer = await cluster.ask(node_id, METADATA, 12, topics=None)
            assert [node.node_id for node in answer.brokers] == [1]
            assert answer.controller_id == 1
            for topic in answer.topics:
                (partition,) = topic.partitions
                gone = leaders[topic.name] == 2
                assert (partition.leader_id, partition.error_code.value) == ((-1, 5) if gone else (1, 0))
                assert partition.offline_replicas == ((2,) if gone else ())
            described = await cluster.ask(node_id, DESCRIBE_CLUSTER, 2)
            assert [(node.broker_id, node.is_fenced) for node in described.brokers] == [(1, False)]
            described = await cluster.ask(node_id, DESCRIBE_CLUSTER, 2, include_fenced_brokers=True)
            assert [(node.broker_id, node.is_fenced) for node in described.brokers] == [(1, False), (2, True)]

    run(scenario)


def test_clients_send_changes_to_the_node_that_they_asked_and_are_told_who_decides() -> None:
    """A client that is told of one node for changes, and asks again only after minutes, outlives the controller."""

    async def scenario(cluster: Cluster) -> None:
        for node_id in (1, 2):
            assert (await cluster.ask(node_id, METADATA, 12, topics=[])).controller_id == node_id
            assert (await cluster.ask(node_id, DESCRIBE_CLUSTER, 1)).controller_id == 1

    run(scenario)


def test_clients_are_sent_to_any_node_if_the_controller_is_none_of_theirs() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.elect(3)  # which has not registered as a broker
        for node_id in (1, 2):
            assert (await cluster.ask(node_id, METADATA, 12, topics=[])).controller_id == node_id
            assert (await cluster.ask(node_id, DESCRIBE_CLUSTER, 1)).controller_id == node_id

    run(scenario)


def test_a_listener_of_controllers_tells_of_the_voters() -> None:
    async def scenario(cluster: Cluster) -> None:
        for node_id in (1, 2):
            answer = await cluster.ask_controller(node_id, DESCRIBE_CLUSTER, 1, endpoint_type=2)
            assert (answer.error_code.value, answer.endpoint_type, answer.controller_id) == (0, 2, 1)
            assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [
                (1, "n1", 9093),
                (2, "n2", 9093),
            ]
            answer = await cluster.ask_controller(node_id, DESCRIBE_CLUSTER, 1, endpoint_type=1)
            assert (answer.error_code.value, answer.brokers) == (114, ())
        cluster.quorum.elect(NO_LEADER)
        assert (await cluster.ask_controller(2, DESCRIBE_CLUSTER, 1, endpoint_type=2)).controller_id == -1

    run(scenario)


def test_only_who_may_alter_the_cluster_hears_of_the_voters() -> None:
    class Rules:
        def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
            return operation is not Operation.ALTER

        def allows_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
            return False

    async def scenario(cluster: Cluster) -> None:
        cluster.brokers[1].access.use(Rules())
        answer = await cluster.ask_controller(1, DESCRIBE_CLUSTER, 1, endpoint_type=2)
        assert (answer.error_code.value, answer.brokers) == (31, ())

    run(scenario)
