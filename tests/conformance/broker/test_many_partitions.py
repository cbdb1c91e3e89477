"""Thousands of partitions are normal: a topic of 4,000, created, described, written and read."""

from collections.abc import Callable

from confluent_kafka.admin import AdminClient

from tests.conformance.broker.clients import CLIENTS, TIMEOUT_S, Message, Place

MakeTopic = Callable[..., str]
COUNT = 4_000


def test_a_topic_of_4000_partitions_is_served(admin: AdminClient, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(COUNT)
    assert len(admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions) == COUNT
    client = CLIENTS["librdkafka"]
    used = range(0, COUNT, 40)
    places = client.produce(bootstrap, topic, [Message(b"%d" % n, partition=n) for n in used])
    assert places == [Place(n, 0) for n in used]
    for other in CLIENTS.values():
        with other.consume(bootstrap, topic, used) as consumer:
            reads = consumer.read(len(used))
            assert sorted((read.partition, read.value) for read in reads) == [(n, b"%d" % n) for n in used]
    with client.consume(bootstrap, topic, range(COUNT)) as consumer:
        assert len(consumer.read(len(used))) == len(used)
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics
