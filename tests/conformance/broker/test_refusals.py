"""What clients hear when they ask for what is not there or too large, and what happens when they only name a topic."""

from collections.abc import Callable
from pathlib import Path

import aiokafka.errors
import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.conformance.broker.clients import CLIENTS, QUIET, TIMEOUT_S, Message, Place, kafka
from tests.conformance.broker.served import ServedBroker

MakeTopic = Callable[..., str]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_topic_that_is_produced_to_is_created(bootstrap: str, new_name: str, name: str) -> None:
    assert CLIENTS[name].produce(bootstrap, new_name, [Message(b"first")]) == [Place(0, 0)]
    with CLIENTS[name].consume(bootstrap, new_name) as consumer:
        assert [read.value for read in consumer.read(1)] == [b"first"]


def test_a_topic_that_is_only_looked_at_is_not_created(admin: AdminClient, bootstrap: str, new_name: str) -> None:
    with CLIENTS["librdkafka"].consume(bootstrap, new_name) as consumer, pytest.raises(KafkaException) as refused:
        consumer.end_offsets([0])
    error: KafkaError = refused.value.args[0]
    assert error.code() in (KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert new_name not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_no_topic_is_created_where_that_is_switched_off(tmp_path: Path) -> None:
    with ServedBroker(tmp_path, "auto.create.topics.enable=false") as broker:
        producer = confluent_kafka.Producer({**QUIET, "bootstrap.servers": broker.bootstrap, "message.timeout.ms": 500})
        outcomes: list[KafkaError | None] = []
        producer.produce("missing", b"", on_delivery=lambda error, _: outcomes.append(error))
        assert producer.flush(TIMEOUT_S) == 0
        (error,) = outcomes
        assert error is not None
        assert error.code() in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._MSG_TIMED_OUT)
        assert not producer.list_topics(timeout=TIMEOUT_S).topics
        del producer


def test_a_batch_too_large_for_its_topic_is_refused_and_the_next_is_taken(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="10000")
    client = CLIENTS["librdkafka"]
    with pytest.raises(KafkaException) as refused:
        client.produce(bootstrap, topic, [Message(bytes(20_000), partition=0)])
    error: KafkaError = refused.value.args[0]
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert client.produce(bootstrap, topic, [Message(bytes(5_000), partition=0)]) == [Place(0, 0)]


def test_aiokafka_and_kafka_python_hear_of_a_batch_that_is_too_large(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes="10000")
    with pytest.raises(Exception, match=r"(?i)too.?large"):
        CLIENTS["aiokafka"].produce(bootstrap, topic, [Message(bytes(20_000), partition=0)])
    with pytest.raises(kafka.errors.MessageSizeTooLargeError):
        CLIENTS["kafka-python"].produce(bootstrap, topic, [Message(bytes(20_000), partition=0)])


@pytest.mark.parametrize("name", CLIENTS)
def test_a_compacted_topic_takes_no_record_without_a_key(bootstrap: str, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic(cleanup_policy="compact")
    refusals = (KafkaException, aiokafka.errors.KafkaError, kafka.errors.KafkaError)
    with pytest.raises(refusals):
        CLIENTS[name].produce(bootstrap, topic, [Message(b"no key", partition=0)])
    assert CLIENTS[name].produce(bootstrap, topic, [Message(b"", b"key", partition=0)]) == [Place(0, 0)]


def test_a_partition_that_does_not_exist_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    with pytest.raises(KafkaException) as refused:
        CLIENTS["librdkafka"].produce(bootstrap, topic, [Message(b"", partition=7)])
    error: KafkaError = refused.value.args[0]
    assert error.code() in (KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)


def test_a_topic_of_one_replica_that_wants_two_in_sync_takes_acks_all(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(min_insync_replicas="2")
    assert CLIENTS["librdkafka"].produce(bootstrap, topic, [Message(b"", partition=0)], acks=-1) == [Place(0, 0)]
