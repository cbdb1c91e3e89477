"""A broker that ends under its clients, by SIGTERM or by SIGKILL: they go on, and nothing acknowledged is lost."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.conformance.broker.clients import CLIENTS, QUIET, TIMEOUT_S, Message, Place, kafka
from tests.conformance.broker.served import ServedBroker

TOPIC = "kept"
LOADS = {"librdkafka": 20_000, "aiokafka": 8_000, "kafka-python": 8_000}

pytestmark = [
    pytest.mark.usefixtures("collected_sockets"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[ServedBroker]:
    """A broker that a test may end."""
    with ServedBroker(tmp_path) as broker:
        admin = AdminClient({**QUIET, "bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(TIMEOUT_S)
        del admin
        yield broker


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def written_bytes(broker: ServedBroker) -> int:
    return sum(path.stat().st_size for path in broker.data_dir.glob(f"{TOPIC}-0/*.log"))


def end_under_load(
    broker: ServedBroker, name: str, messages: list[Message], end: Callable[[], None], *, is_idempotent: bool
) -> list[Place]:
    """Produce, and end the broker twice meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        load: Future[list[Place]] = pool.submit(
            CLIENTS[name].produce, broker.bootstrap, TOPIC, messages, is_idempotent=is_idempotent
        )
        for _ in range(2):
            before = written_bytes(broker)
            wait_until(lambda before=before: written_bytes(broker) > before + 100_000)  # type: ignore[misc]
            assert not load.done(), "the load must be larger"
            end()
            broker.start()
        return load.result(TIMEOUT_S)


@pytest.mark.parametrize(
    ("name", "signal"), [("librdkafka", "SIGTERM"), *((name, "SIGKILL") for name in CLIENTS)], ids=lambda each: each
)
def test_an_idempotent_producer_writes_each_record_once_whatever_happens_to_the_broker(
    own_broker: ServedBroker, name: str, signal: str
) -> None:
    messages = [Message(b"%0100d" % n, partition=0) for n in range(LOADS[name])]
    end = own_broker.kill if signal == "SIGKILL" else own_broker.stop
    places = end_under_load(own_broker, name, messages, end, is_idempotent=True)
    assert places == [Place(0, offset) for offset in range(len(messages))]
    with CLIENTS["librdkafka"].consume(own_broker.bootstrap, TOPIC) as consumer:
        assert [read.value for read in consumer.read(len(messages))] == [each.value for each in messages]
        assert consumer.end_offsets([0]) == {0: len(messages)}


def test_what_was_acknowledged_before_a_kill_is_there_after_it(own_broker: ServedBroker) -> None:
    messages = [Message(b"%0100d" % n, partition=0) for n in range(LOADS["librdkafka"])]
    places = end_under_load(own_broker, "librdkafka", messages, own_broker.kill, is_idempotent=False)
    assert len(places) == len(messages)
    with CLIENTS["librdkafka"].consume(own_broker.bootstrap, TOPIC) as consumer:
        count = consumer.end_offsets([0])[0]
        found = {read.offset: read.value for read in consumer.read(count)}
    assert list(found) == list(range(count))
    assert all(found[place.offset] == each.value for each, place in zip(messages, places, strict=True))


def test_a_restart_is_hardly_noticed_by_librdkafka(own_broker: ServedBroker) -> None:
    producer = confluent_kafka.Producer({**QUIET, "bootstrap.servers": own_broker.bootstrap})
    with CLIENTS["librdkafka"].consume(own_broker.bootstrap, TOPIC) as consumer:
        for round_ in range(2):
            producer.produce(TOPIC, b"%d" % round_)
            assert producer.flush(TIMEOUT_S) == 0
            assert [(read.offset, read.value) for read in consumer.read(1)] == [(round_, b"%d" % round_)]
            own_broker.stop()
            own_broker.start()
    del producer


def test_a_restart_is_hardly_noticed_by_aiokafka(own_broker: ServedBroker) -> None:
    async def restart() -> None:
        await asyncio.to_thread(own_broker.stop)
        await asyncio.to_thread(own_broker.start)

    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=own_broker.bootstrap)
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC, bootstrap_servers=own_broker.bootstrap, auto_offset_reset="earliest"
        )
        async with asyncio.timeout(TIMEOUT_S), producer, consumer:
            for round_ in range(2):
                await producer.send_and_wait(TOPIC, b"%d" % round_)
                message = await consumer.getone()
                assert (message.offset, message.value) == (round_, b"%d" % round_)
                await restart()

    asyncio.run(run())


def test_a_restart_is_hardly_noticed_by_kafka_python(own_broker: ServedBroker) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=own_broker.bootstrap, reconnect_backoff_max_ms=500)
    with closing(producer), CLIENTS["kafka-python"].consume(own_broker.bootstrap, TOPIC) as consumer:
        for round_ in range(2):
            producer.send(TOPIC, b"%d" % round_).get(TIMEOUT_S)
            assert [(read.offset, read.value) for read in consumer.read(1)] == [(round_, b"%d" % round_)]
            own_broker.stop()
            own_broker.start()


def test_topics_settings_and_ids_outlive_a_kill(own_broker: ServedBroker) -> None:
    def described() -> tuple[str, int]:
        with closing(kafka.KafkaAdminClient(bootstrap_servers=own_broker.bootstrap)) as client:
            (topic,) = client.describe_topics(["settled"])
            settings = client.describe_configs([kafka.admin.ConfigResource("TOPIC", "settled")])
            assert settings["topic"]["settled"]["retention.ms"]["value"] == "1000000"
            return topic["topic_id"], len(topic["partitions"])

    with closing(kafka.KafkaAdminClient(bootstrap_servers=own_broker.bootstrap)) as client:
        client.create_topics({"settled": {"num_partitions": 5, "configs": {"retention.ms": "1000000"}}})
    before = described()
    assert before[1] == 5
    own_broker.kill()
    own_broker.start()
    assert described() == before
