"""librdkafka's errors as refusals, and delivery profiles as its settings."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from barnabas.client.errors import Refused, Unreachable, refusal_of, translate
from barnabas.client.message import header_list
from barnabas.client.producers import Delivery, settings_for
from barnabas.client.settings import default_bootstrap, parse_bootstrap
from barnabas.core.errors import (
    BarnabasError,
    InvalidConfig,
    OffsetOutOfRange,
    RequestTimedOut,
    StorageError,
    TopicExists,
    UnknownTopicOrPartition,
)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._ALL_BROKERS_DOWN, Unreachable),
        (KafkaError._TIMED_OUT, Unreachable),
        (KafkaError.REQUEST_TIMED_OUT, Unreachable),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, UnknownTopicOrPartition),
        (KafkaError._UNKNOWN_PARTITION, UnknownTopicOrPartition),
        (KafkaError.TOPIC_ALREADY_EXISTS, TopicExists),
        (KafkaError.INVALID_CONFIG, InvalidConfig),
        (KafkaError._AUTO_OFFSET_RESET, OffsetOutOfRange),
        (KafkaError.OFFSET_OUT_OF_RANGE, OffsetOutOfRange),
    ],
)
def test_an_error_becomes_the_refusal_of_its_code(code: int, kind: type[BarnabasError]) -> None:
    refusal = translate(KafkaException(KafkaError(code)), "do it")

    assert type(refusal) is kind
    assert str(refusal).startswith("cannot do it: ")


def test_only_where_no_broker_answered_it_is_asked_whether_one_is_there() -> None:
    by_broker = translate(KafkaError(KafkaError.REQUEST_TIMED_OUT, "it may take effect, or not"), "do it")

    assert str(by_broker) == "cannot do it: it may take effect, or not"
    assert str(translate(KafkaError(KafkaError._TIMED_OUT), "do it")).endswith("; is a broker running at that address?")


def test_a_code_that_several_refusals_have_is_that_of_kafka_s_name() -> None:
    assert type(refusal_of(KafkaError.REQUEST_TIMED_OUT, "too slow")) is RequestTimedOut
    assert type(refusal_of(KafkaError.KAFKA_STORAGE_ERROR, "no disk")) is StorageError
    assert type(refusal_of(KafkaError.UNKNOWN, "who knows")) is Refused


def test_an_error_without_a_class_keeps_its_code_and_loses_its_lines() -> None:
    refusal = translate(KafkaError(KafkaError.DELEGATION_TOKEN_EXPIRED, "no\n way"), "do it")

    assert isinstance(refusal, Refused)
    assert refusal.code == KafkaError.DELEGATION_TOKEN_EXPIRED
    assert str(refusal) == "cannot do it: no way"
    assert isinstance(refusal_of(9999, "what"), Refused)


def test_a_topic_s_delivery_decides_the_producer_s_settings() -> None:
    assert settings_for(None) == {}
    assert settings_for(Delivery.parse("at-most-once"))["acks"] == "0"
    assert settings_for(Delivery.parse("at-least-once"))["enable.idempotence"] == "false"
    assert settings_for(Delivery.parse("exactly-once"))["enable.idempotence"] == "true"
    with pytest.raises(InvalidConfig, match="at-most-once, at-least-once, exactly-once"):
        Delivery.parse("maybe")


def test_headers_may_be_a_mapping_or_pairs() -> None:
    assert header_list(None) is None
    assert header_list({"a": b"1"}) == [("a", b"1")]
    assert header_list([("a", b"1"), ("a", None)]) == [("a", b"1"), ("a", None)]


def test_the_address_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BARNABAS_BOOTSTRAP", raising=False)
    assert default_bootstrap() == "127.0.0.1:9092"
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", "elsewhere:1")
    assert default_bootstrap() == "elsewhere:1"


def test_addresses_are_read_as_librdkafka_does() -> None:
    assert parse_bootstrap("a:1, [::1]:2,PLAINTEXT://c:3") == [("a", 1), ("::1", 2), ("c", 3)]
    assert parse_bootstrap("localhost,[::1]") == [("localhost", 9092), ("::1", 9092)]
    for wrong in ("", " , ", ":1", "a:b", "a:70000"):
        with pytest.raises(InvalidConfig):
            parse_bootstrap(wrong)
