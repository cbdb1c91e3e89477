"""Produce on a whole broker: topics and partitions that are there, and those that are not."""

from uuid import UUID

import pytest

from barnabas.services.broker import Broker
from barnabas.wire.apis import METADATA
from barnabas.wire.produce import MAX_PARTITIONS
from tests.unit.edge.kafka.calling import Caller, batch, frame_of
from tests.unit.edge.kafka.support import create, run


def test_unknown_topics_partitions_and_ids_are_refused_each_with_its_code() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        caller = Caller(broker)
        assert await caller.refusal("missing", batch()) == 3
        for partition in (2, -1, 2**31 - 1, -(2**31)):
            assert await caller.refusal("t", batch(), partition=partition) == 3
        assert await caller.refusal("", batch(), version=13, topic_id=UUID(int=5)) == 100
        assert await caller.refusal("", batch(), version=13, topic_id=None) == 100

    run(scenario)


@pytest.mark.parametrize("name", ["", "..", "a/b", "x" * 250, "x" * 32_767, "<script>", "t\x00"])
@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_a_name_no_topic_has_is_unknown_whatever_it_looks_like(name: str, version: int) -> None:
    async def scenario(broker: Broker) -> None:
        answer = await Caller(broker).produced(name, batch(), version=version)
        assert answer.error_code.value == 3
        assert len(getattr(answer, "error_message", None) or "") <= 500

    run(scenario)


def test_a_long_name_is_not_repeated_for_each_of_many_partitions() -> None:
    async def scenario(broker: Broker) -> None:
        call = Caller(broker).produce("n" * 30_000, *[None] * 1000, version=8)
        assert len(await call.bytes()) < 1_000_000

    run(scenario)


def test_the_most_partitions_a_request_may_have_are_answered() -> None:
    async def scenario(broker: Broker) -> None:
        response = await Caller(broker).produce("missing", *[None] * MAX_PARTITIONS).read()
        assert len(response.responses[0].partition_responses) == MAX_PARTITIONS

    run(scenario)


def test_partitions_are_taken_and_refused_each_for_itself() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=2)
        response = await Caller(broker).produce("t", batch(), b"x" * 70, batch()).read()
        answers = response.responses[0].partition_responses
        assert [answer.error_code.value for answer in answers] == [0, 43, 3]
        assert [answer.base_offset for answer in answers] == [0, -1, -1]

    run(scenario)


@pytest.mark.parametrize("acks", [1, -1])
def test_a_client_may_not_write_to_the_topic_of_groups(acks: int) -> None:
    async def scenario(broker: Broker) -> None:
        await broker.groups.create_topic()
        answer = await Caller(broker).produced("__consumer_offsets", batch(b"a"), acks=acks)
        assert answer.error_code.value == 17
        assert not broker.served.get_partition("__consumer_offsets", 0).has_log

    run(scenario)


def test_a_frame_with_markup_in_its_client_id_is_as_any_other() -> None:
    async def scenario(broker: Broker) -> None:
        body = b"\xff\xff\xff\xff"
        for client_id in (b"<script>alert(1)</script>", b"'; drop table", b"../../etc/passwd", b"%s%n\r\n", b""):
            response = await Caller(broker).send(frame_of(METADATA, 1, body, client_id)).read()
            assert response.topics == ()

    run(scenario)
