"""Quotas with clients as they are: the SDK that sets them, and librdkafka that is held to them."""

import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import barnabas
from barnabas.core.errors import InvalidRequest

RATE = 100_000
BURST_S = 1


@pytest.mark.parametrize("entity", [{"client-id": "busy"}, {"user": None}, {"user": "ANONYMOUS", "client-id": None}])
def test_quotas_that_were_set_are_listed_and_can_be_removed(entity: dict[str, str | None]) -> None:
    with barnabas.embedded() as broker:
        quotas = broker.bus.quotas
        quotas.set(entity, {"producer_byte_rate": 1024, "request_percentage": 12.5})
        quotas.set({"ip": None}, {"connection_creation_rate": 1000})
        [found] = quotas.find(entity)
        assert found.entity == entity
        assert found.quotas == {"producer_byte_rate": 1024, "request_percentage": 12.5}
        assert len(quotas.find()) == 2
        assert quotas.remove(entity, ["request_percentage"]) == ["request_percentage"]
        assert quotas.remove(entity) == ["producer_byte_rate"]
        assert quotas.remove(entity) == []
        with pytest.raises(InvalidRequest, match="above 0"):
            quotas.set(entity, {"producer_byte_rate": 0})


def test_librdkafka_is_held_to_its_rates_and_loses_nothing() -> None:
    """Bytes in the time that they took: a slow machine makes them fewer, never more."""
    told: list[float] = []
    with barnabas.embedded({"quota.window.num": "2"}) as broker:
        broker.bus.create_topic("orders")
        broker.bus.quotas.set({"client-id": "busy"}, {"producer_byte_rate": RATE, "consumer_byte_rate": RATE})
        common = {"bootstrap.servers": broker.bootstrap, "client.id": "busy"}
        producer = Producer(
            {
                **common,
                "linger.ms": 1,
                "batch.size": 20_000,
                "throttle_cb": lambda event: told.append(event.throttle_time),
            }
        )
        value, count, begun_s = bytes(1_000), 3 * RATE // 1_000, time.monotonic()
        for _ in range(count):
            producer.produce("orders", value)
            producer.poll(0)
        assert producer.flush(60) == 0
        allowed = RATE * (time.monotonic() - begun_s + BURST_S)
        assert count * len(value) <= 1.1 * allowed + 20_000
        producer.poll(0)
        assert max(told) > 0

        consumer = Consumer({**common, "group.id": "g", "enable.auto.commit": False})
        consumer.assign([TopicPartition("orders", 0, 0)])
        read, begun_s = 0, time.monotonic()
        while read < count:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            assert message.offset() == read
            read += 1
        allowed = RATE * (time.monotonic() - begun_s + BURST_S)
        assert read * len(value) <= 1.1 * allowed + RATE
        consumer.close()
