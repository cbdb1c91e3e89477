"""Questions for offsets, against what kio reads and writes and against a broker."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from barnabas.client import Bus
from barnabas.client.connection import BrokerConnection
from barnabas.client.fetcher import EARLIEST, LATEST
from barnabas.client.offset_listing import OffsetQuestion
from barnabas.client.settings import parse_bootstrap
from barnabas.core.errors import CorruptRecord, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import Buffer
from barnabas.testing.embedded import EmbeddedBroker
from barnabas.wire import apis
from tests.unit.wire.kio_values import encode, entities

VERSIONS = range(1, 6)
LIST_OFFSETS = apis.LIST_OFFSETS.key
WANTED = {TopicPartition("a", 0): LATEST, TopicPartition("a", 7): EARLIEST, TopicPartition("b", 2): 123}


class OneAnswer(BrokerConnection):
    """A broker that has one answer; what it was asked is kept."""

    def __init__(self, version: int, answer: bytes) -> None:  # without a socket
        self._answer = answer
        self._version = version
        self.asked = b""

    def version(self, api_key: int, up_to: int | None = None) -> int:
        assert api_key == LIST_OFFSETS
        return self._version

    def ask_written(self, api_key: int, body: Buffer) -> memoryview:
        self.asked = bytes(body)
        return memoryview(self._answer)


def answer_of(version: int, topics: dict[str, list[tuple[int, int, int]]]) -> bytes:
    """Topics with the index, error code and offset of partitions, as kio writes them."""
    schema: Any = load_response_schema(LIST_OFFSETS, version)
    body = b"" if version < 2 else bytes(4)
    body += len(topics).to_bytes(4, "big")
    for name, rows in topics.items():
        body += len(name).to_bytes(2, "big") + name.encode() + len(rows).to_bytes(4, "big")
        for index, code, offset in rows:
            body += index.to_bytes(4, "big") + code.to_bytes(2, "big") + bytes(8) + offset.to_bytes(8, "big")
            body += b"" if version < 4 else bytes(4)
    assert entity_reader(schema)(body, 0)[1] == len(body)
    return body


@pytest.mark.parametrize("version", VERSIONS)
def test_a_question_is_what_kio_reads(version: int) -> None:
    broker = OneAnswer(version, answer_of(version, {}))

    OffsetQuestion(WANTED, isolation=1).ask(broker)

    request: Any
    request, size = entity_reader(load_request_schema(LIST_OFFSETS, version))(broker.asked, 0)
    assert size == len(broker.asked)
    assert {
        (str(topic.name), int(each.partition_index)): int(each.timestamp)
        for topic in request.topics
        for each in topic.partitions
    } == {tuple(key): time for key, time in WANTED.items()}
    assert version < 2 or int(request.isolation_level) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_read_whatever_its_order(version: int) -> None:
    answer = answer_of(version, {"b": [(2, 0, 30)], "a": [(7, 0, 20), (0, 0, 10)]})

    found = OffsetQuestion(WANTED, isolation=0).ask(OneAnswer(version, answer))

    assert found == {TopicPartition("a", 0): 10, TopicPartition("a", 7): 20, TopicPartition("b", 2): 30}


def test_a_refusal_names_the_partition() -> None:
    answer = answer_of(5, {"a": [(0, 0, 10), (7, 3, 0)], "b": [(2, 0, 30)]})

    with pytest.raises(UnknownTopicOrPartition, match="a-7"):
        OffsetQuestion(WANTED, isolation=0).ask(OneAnswer(5, answer))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_answer_is_read_or_refused(version: int) -> None:
    @given(entities(load_response_schema(LIST_OFFSETS, version)), st.data())
    @settings(max_examples=20)
    def check(response: Any, data: st.DataObject) -> None:
        body = encode(response)
        rows = [(topic, each) for topic in response.topics for each in topic.partitions]
        expected = {TopicPartition(topic.name, each.partition_index): each.offset for topic, each in rows}
        if any(int(each.error_code) for _, each in rows):
            with pytest.raises(Exception, match="look up offsets"):
                OffsetQuestion(WANTED, isolation=0).ask(OneAnswer(version, body))
        else:
            assert OffsetQuestion(WANTED, isolation=0).ask(OneAnswer(version, body)) == expected
            cut = body[: data.draw(st.integers(0, len(body) - 1))]
            with pytest.raises(CorruptRecord):
                OffsetQuestion(WANTED, isolation=0).ask(OneAnswer(version, cut))

    check()


def test_a_broker_answers_again_and_again(broker: EmbeddedBroker, real_bus: Bus, name: str) -> None:
    real_bus.create_topic(name, partitions=3)
    question = OffsetQuestion({TopicPartition(name, each): LATEST for each in range(3)}, isolation=1)
    connection = BrokerConnection(*parse_bootstrap(broker.bootstrap)[0], "test")

    before = question.ask(connection)
    real_bus.send(name, b"v", partition=1).result(60)
    after = question.ask(connection)
    connection.close()

    assert before == {TopicPartition(name, each): 0 for each in range(3)}
    assert after == before | {TopicPartition(name, 1): 1}
