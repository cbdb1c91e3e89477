"""Topics, settings and the cluster, as the admin clients see and change them."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import aiokafka
import confluent_kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin import NewPartitions as AiokafkaPartitions
from aiokafka.admin import NewTopic as AiokafkaTopic
from aiokafka.admin.config_resource import ConfigResource as AiokafkaResource
from aiokafka.admin.config_resource import ConfigResourceType as AiokafkaResourceType
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.conformance.broker.clients import CLIENTS, TIMEOUT_S, Message, kafka
from tests.conformance.broker.served import ServedBroker

MakeTopic = Callable[..., str]


def fill(bootstrap: str, topic: str, count: int) -> None:
    CLIENTS["librdkafka"].produce(bootstrap, topic, [Message(b"%d" % n, partition=0) for n in range(count)])


def code_of(refused: pytest.ExceptionInfo[KafkaException]) -> int:
    error: KafkaError = refused.value.args[0]
    return error.code()


# librdkafka


def settings_of(client: AdminClient, resource: ConfigResource) -> dict[str, ConfigEntry]:
    (described,) = client.describe_configs([resource]).values()
    found: dict[str, ConfigEntry] = described.result(TIMEOUT_S)
    return found


def alter(client: AdminClient, topic: str, operation: AlterConfigOpType, name: str, value: str | None) -> None:
    entry = ConfigEntry(name, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    (altered,) = client.incremental_alter_configs([resource]).values()
    altered.result(TIMEOUT_S)


def test_a_topic_is_created_described_grown_and_deleted(admin: AdminClient, new_name: str) -> None:
    new = NewTopic(new_name, num_partitions=3, replication_factor=1)
    admin.create_topics([new])[new_name].result(TIMEOUT_S)
    assert list(admin.list_topics(new_name, TIMEOUT_S).topics[new_name].partitions) == [0, 1, 2]

    grown = NewPartitions(new_name, 5)
    admin.create_partitions([grown])[new_name].result(TIMEOUT_S)
    described = admin.describe_topics(TopicCollection([new_name]))[new_name].result(TIMEOUT_S)
    assert [each.id for each in described.partitions] == [0, 1, 2, 3, 4]
    assert {(each.leader.id, tuple(node.id for node in each.isr)) for each in described.partitions} == {(1, (1,))}
    assert not described.is_internal

    admin.delete_topics([new_name])[new_name].result(TIMEOUT_S)
    assert new_name not in admin.list_topics(timeout=TIMEOUT_S).topics
    with pytest.raises(KafkaException) as refused:
        admin.delete_topics([new_name])[new_name].result(TIMEOUT_S)
    assert code_of(refused) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_made_anew_is_another_topic(admin: AdminClient, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 10)
    before = admin.describe_topics(TopicCollection([topic]))[topic].result(TIMEOUT_S)
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_S)
    after = admin.describe_topics(TopicCollection([topic]))[topic].result(TIMEOUT_S)
    assert str(before.topic_id) != str(after.topic_id)
    with CLIENTS["librdkafka"].consume(bootstrap, topic) as consumer:
        assert consumer.end_offsets([0]) == {0: 0}


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "config", "code"),
    [
        ("no spaces", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("..", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("x" * 250, 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("refused", 0, 1, {}, KafkaError.INVALID_PARTITIONS),
        ("refused", 1, 3, {}, KafkaError.INVALID_REPLICATION_FACTOR),
        ("refused", 1, 1, {"no.such.setting": "1"}, KafkaError.INVALID_CONFIG),
        ("refused", 1, 1, {"retention.ms": "soon"}, KafkaError.INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_kafkas_code(
    admin: AdminClient, name: str, partitions: int, replicas: int, config: dict[str, str], code: int
) -> None:
    new = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=config)
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([new])[name].result(TIMEOUT_S)
    assert code_of(refused) == code
    assert name not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_what_is_only_validated_changes_nothing(admin: AdminClient, topic: str, new_name: str) -> None:
    new = NewTopic(new_name, 1, 1)
    admin.create_topics([new], validate_only=True)[new_name].result(TIMEOUT_S)
    grown = NewPartitions(topic, 2)
    admin.create_partitions([grown], validate_only=True)[topic].result(TIMEOUT_S)
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    assert new_name not in topics
    assert list(topics[topic].partitions) == [0]


def test_a_topic_exists_once_and_does_not_shrink(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(TIMEOUT_S)
    assert code_of(refused) == KafkaError.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaException) as refused:
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(TIMEOUT_S)
    assert code_of(refused) == KafkaError.INVALID_PARTITIONS


def test_settings_of_a_topic_are_altered_one_by_one(admin: AdminClient, topic: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entry = settings_of(admin, resource)["retention.ms"]
    assert (entry.value, entry.is_default) == ("604800000", True)

    alter(admin, topic, AlterConfigOpType.SET, "retention.ms", "1000000")
    alter(admin, topic, AlterConfigOpType.APPEND, "cleanup.policy", "compact")
    found = settings_of(admin, resource)
    assert (found["retention.ms"].value, found["retention.ms"].is_default) == ("1000000", False)
    assert set((found["cleanup.policy"].value or "").split(",")) == {"compact", "delete"}

    alter(admin, topic, AlterConfigOpType.SUBTRACT, "cleanup.policy", "delete")
    alter(admin, topic, AlterConfigOpType.DELETE, "retention.ms", None)
    found = settings_of(admin, resource)
    assert (found["retention.ms"].value, found["cleanup.policy"].value) == ("604800000", "compact")

    with pytest.raises(KafkaException) as refused:
        alter(admin, topic, AlterConfigOpType.SET, "retention.ms", "soon")
    assert code_of(refused) == KafkaError.INVALID_CONFIG


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated:DeprecationWarning")
def test_altering_all_settings_forgets_those_not_named(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="1000000", segment_ms="2000000")
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "3000000"})
    (altered,) = admin.alter_configs([resource]).values()
    altered.result(TIMEOUT_S)
    found = settings_of(admin, ConfigResource(ResourceType.TOPIC, topic))
    assert (found["retention.ms"].value, found["segment.ms"].is_default) == ("3000000", True)


def test_settings_of_the_broker_are_described(admin: AdminClient) -> None:
    found = settings_of(admin, ConfigResource(ResourceType.BROKER, "1"))
    assert found["num.partitions"].value == "1"
    assert found["num.partitions"].is_read_only
    assert found["log.dirs"].value


def test_settings_of_what_is_not_there_are_refused(admin: AdminClient, new_name: str) -> None:
    with pytest.raises(KafkaException) as refused:
        settings_of(admin, ConfigResource(ResourceType.TOPIC, new_name))
    assert code_of(refused) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_deleted_records_are_gone_and_the_others_keep_their_offsets(
    admin: AdminClient, bootstrap: str, topic: str
) -> None:
    fill(bootstrap, topic, 20)
    before = confluent_kafka.TopicPartition(topic, 0, 12)
    (deleted,) = admin.delete_records([before]).values()
    assert deleted.result(TIMEOUT_S).low_watermark == 12
    for client in CLIENTS.values():
        with client.consume(bootstrap, topic) as consumer:
            assert [read.offset for read in consumer.read(8)] == list(range(12, 20))
            assert consumer.beginning_offsets([0]) == {0: 12}
    beyond = confluent_kafka.TopicPartition(topic, 0, 21)
    (deleted,) = admin.delete_records([beyond]).values()
    with pytest.raises(KafkaException) as refused:
        deleted.result(TIMEOUT_S)
    assert code_of(refused) == KafkaError.OFFSET_OUT_OF_RANGE
    everything = confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_END)
    (deleted,) = admin.delete_records([everything]).values()
    assert deleted.result(TIMEOUT_S).low_watermark == 20


def test_offsets_are_listed_by_what_is_asked_for(admin: AdminClient, bootstrap: str, topic: str) -> None:
    times = [1_700_000_000_000 + 1000 * n for n in (0, 1, 9, 3, 4)]  # the third is the latest
    messages = [Message(b"", timestamp_ms=timestamp_ms, partition=0) for timestamp_ms in times]
    CLIENTS["librdkafka"].produce(bootstrap, topic, messages)
    partition = confluent_kafka.TopicPartition(topic, 0)

    specs: Any = OffsetSpec  # half of its makers have no types

    def offset_at(spec: OffsetSpec) -> int:
        (listed,) = admin.list_offsets({partition: spec}).values()
        offset: int = listed.result(TIMEOUT_S).offset
        return offset

    assert offset_at(specs.earliest()) == 0
    assert offset_at(specs.latest()) == 5
    assert offset_at(specs.max_timestamp()) == 2
    assert offset_at(specs.for_timestamp(times[1] + 1)) == 2
    assert offset_at(specs.for_timestamp(times[2] + 1)) == -1


def test_the_cluster_is_one_node_and_knows_its_name(admin: AdminClient, broker: ServedBroker) -> None:
    described = admin.describe_cluster(include_authorized_operations=True).result(TIMEOUT_S)
    assert [(node.id, node.host, node.port) for node in described.nodes] == [(1, "127.0.0.1", broker.port)]
    assert described.controller.id == 1
    assert len(described.cluster_id) == 22
    assert admin.list_topics(timeout=TIMEOUT_S).cluster_id == described.cluster_id


# kafka-python


@pytest.fixture
def kafka_python(bootstrap: str) -> Iterator[Any]:
    with closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as client:
        yield client


def test_kafka_python_creates_describes_and_deletes_by_id(kafka_python: Any, new_name: str) -> None:
    created = kafka_python.create_topics({new_name: {"num_partitions": 3, "configs": {"retention.ms": "1000000"}}})
    topic_id = UUID(created["topics"][0]["topic_id"])
    assert created["topics"][0]["configs"]["retention.ms"]["value"] == "1000000"
    assert new_name in kafka_python.list_topics()
    kafka_python.create_partitions({new_name: 4})
    (by_id,) = kafka_python.describe_topics([topic_id])
    assert (by_id["name"], len(by_id["partitions"])) == (new_name, 4)
    kafka_python.delete_topics([topic_id])
    assert new_name not in kafka_python.list_topics()


def test_kafka_python_pages_through_a_topic(kafka_python: Any, make_topic: MakeTopic) -> None:
    topic = make_topic(5)
    seen: list[int] = []
    cursor = None
    while True:
        page = kafka_python.describe_topic_partitions([topic], response_partition_limit=2, cursor=cursor)
        seen += [each["partition_index"] for each in page["topics"][0]["partitions"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [0, 1, 2, 3, 4]


def test_kafka_python_alters_and_resets_settings(kafka_python: Any, topic: str) -> None:
    def modified() -> dict[str, str]:
        found = kafka_python.describe_configs([kafka.admin.ConfigResource("TOPIC", topic)])["topic"][topic]
        return {name: entry["value"] for name, entry in found.items()}

    wanted = {"retention.ms": "1000000", "cleanup.policy": ("APPEND", "compact")}
    kafka_python.alter_configs([kafka.admin.ConfigResource("TOPIC", topic, wanted)])
    assert modified() == {"retention.ms": "1000000", "cleanup.policy": "delete,compact"}
    kafka_python.reset_configs([kafka.admin.ConfigResource("TOPIC", topic, ["cleanup.policy"])])
    assert modified() == {"retention.ms": "1000000"}
    assert topic in kafka_python.list_config_resources(["TOPIC"])["topic"]


def test_kafka_python_sees_what_is_on_disk(kafka_python: Any, broker: ServedBroker, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 10)
    ((node),) = kafka_python.describe_log_dirs([topic])
    (log_dir,) = node["log_dirs"]
    assert (log_dir["error_code"], log_dir["log_dir"]) == (0, str(broker.data_dir))
    assert log_dir["total_bytes"] > log_dir["usable_bytes"] > 0
    ((partition),) = log_dir["topics"][0]["partitions"]
    on_disk = (broker.data_dir / f"{topic}-0" / f"{0:020}.log").stat().st_size
    assert 0 < partition["partition_size"] <= on_disk


def test_kafka_python_describes_the_quorum_the_cluster_and_its_features(kafka_python: Any) -> None:
    (metadata,) = kafka_python.describe_metadata_quorum()["topics"]
    assert metadata["topic_name"] == "__cluster_metadata"
    assert metadata["partitions"][0]["leader_id"] == 1
    assert [each["broker_id"] for each in kafka_python.describe_cluster()["brokers"]] == [1]
    assert "metadata.version" in kafka_python.describe_features()


def test_kafka_python_deletes_records(kafka_python: Any, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 10)
    partition = kafka.TopicPartition(topic, 0)
    assert kafka_python.delete_records({partition: 4})[partition]["low_watermark"] == 4
    with pytest.raises(kafka.errors.OffsetOutOfRangeError):
        kafka_python.delete_records({partition: 11})


# aiokafka


def with_aiokafka(bootstrap: str, use: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await client.start()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await use(client)
        finally:
            await client.close()

    asyncio.run(run())


def test_aiokafka_creates_grows_describes_and_deletes(bootstrap: str, new_name: str) -> None:
    async def use(client: Any) -> None:
        created = await client.create_topics([AiokafkaTopic(new_name, 3, 1, topic_configs={"retention.ms": "1000000"})])
        assert [error[:2] for error in created.topic_errors] == [(new_name, 0)]
        await client.create_partitions({new_name: AiokafkaPartitions(5)})
        (described,) = await client.describe_topics([new_name])
        assert [each["partition"] for each in described["partitions"]] == [0, 1, 2, 3, 4]
        assert [each["node_id"] for each in (await client.describe_cluster())["brokers"]] == [1]
        await client.delete_topics([new_name])
        assert new_name not in await client.list_topics()

    with_aiokafka(bootstrap, use)


def test_aiokafka_alters_settings(bootstrap: str, topic: str) -> None:
    async def use(client: Any) -> None:
        wanted = AiokafkaResource(AiokafkaResourceType.TOPIC, topic, {"retention.ms": "1000000"})
        await client.alter_configs([wanted])
        asked = AiokafkaResource(AiokafkaResourceType.TOPIC, topic, {"retention.ms": None})
        (described,) = await client.describe_configs([asked])
        entries = described.resources[0][4]
        assert [entry[:2] for entry in entries] == [("retention.ms", "1000000")]

    with_aiokafka(bootstrap, use)


def test_aiokafka_deletes_records(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 10)
    partition = aiokafka.TopicPartition(topic, 0)

    async def use(client: Any) -> None:
        assert await client.delete_records({partition: RecordsToDelete(4)}) == {partition: 4}

    with_aiokafka(bootstrap, use)
