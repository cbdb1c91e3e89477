"""Fetch on a whole broker: what comes of what is asked for, and what is refused."""

from typing import Any
from uuid import UUID

import pytest

from barnabas.services.broker import Broker
from barnabas.wire.apis import FETCH
from tests.support.served import versions_of
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.fetching.support import fill, values_in
from tests.unit.edge.kafka.producing.support import hold_flushes
from tests.unit.edge.kafka.support import create, run

VERSIONS = versions_of(FETCH)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_gets_the_records_as_they_were_written(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a", b"b", b"c")
        caller = Caller(broker)
        partition = await caller.fetched(("t", 0, 1), version=version)
        assert partition.error_code.value == 0
        assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)
        assert values_in(partition) == [b"b", b"c"]
        assert values_in(await caller.fetched(("t", 0, 3), version=version)) == []

    run(scenario)


def test_records_that_are_not_on_disk_are_not_given_out() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a")
        hold_flushes(broker)
        broker.served.get_partition("t", 0).append(bytearray(batch(b"b")), now_ms=0)
        partition = await Caller(broker).fetched(("t", 0, 0))
        assert (partition.high_watermark, values_in(partition)) == (1, [b"a"])

    run(scenario)


@pytest.mark.parametrize("offset", [-1, 4, 2**63 - 1, -(2**63)])
def test_an_offset_that_is_not_there_is_out_of_range(offset: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a", b"b", b"c")
        partition = await Caller(broker).fetched(("t", 0, offset), max_wait_ms=20_000)
        assert (partition.error_code.value, partition.records) == (1, b"")

    run(scenario)


def test_what_does_not_exist_is_refused_at_once_each_with_its_code() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        caller = Caller(broker)
        for name, number in (("missing", 0), ("t", 1), ("t", -1), ("", 0), ("..", 0), ("a/b", 0), ("x" * 250, 0)):
            assert (await caller.fetched((name, number, 0), max_wait_ms=20_000)).error_code.value == 3
        each = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
        for topic_id in (UUID(int=5), None):
            topics = [{"topic_id": topic_id, "partitions": [each]}]
            response = await caller.fetch(version=13, max_wait_ms=20_000, topics=topics).read()
            assert response.responses[0].partitions[0].error_code.value == 100
            assert response.responses[0].topic_id == topic_id

    run(scenario)


@pytest.mark.parametrize(("version", "fields"), [(12, {"replica_id": 1}), (18, {"replica_state": {"replica_id": 1}})])
def test_a_client_that_says_it_is_a_replica_gets_nothing(version: int, fields: Any) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a")
        partition = await Caller(broker).fetched(("t", 0, 0), version=version, **fields)
        assert (partition.error_code.value, partition.records) == (6, b"")

    run(scenario)


def test_leader_epochs_other_than_ours_are_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a")
        broker.served.get_partition("t", 0).leader_epoch = 3
        caller = Caller(broker)
        for epoch, code in ((2, 74), (0, 74), (3, 0), (-1, 0), (4, 75), (2**31 - 1, 75)):
            assert (await caller.fetched(("t", 0, 0), epochs=(epoch, -1))).error_code.value == code

    run(scenario)


def test_a_client_whose_history_left_ours_is_told_where() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a", b"b")
        broker.served.get_partition("t", 0).leader_epoch = 4
        await fill(broker, "t", b"c")
        caller = Caller(broker)
        for last_epoch, offset in ((0, 3), (2, 2), (3, 1)):
            partition = await caller.fetched(("t", 0, offset), epochs=(-1, last_epoch), max_wait_ms=20_000)
            assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (0, 2)
            assert partition.records == b""
        partition = await caller.fetched(("t", 0, 2), epochs=(-1, 0))
        assert (partition.diverging_epoch.epoch, values_in(partition)) == (-1, [b"c"])
        assert values_in(await caller.fetched(("t", 0, 2), epochs=(-1, 4))) == [b"c"]

    run(scenario)


def test_read_committed_stops_at_the_last_stable_offset() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"a")
        partition = broker.served.get_partition("t", 0)
        open_transaction = batch(b"b", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
        partition.append(bytearray(open_transaction), now_ms=0)
        await fill(broker, "t", b"c")
        caller = Caller(broker)
        uncommitted = await caller.fetched(("t", 0, 0))
        assert (values_in(uncommitted), uncommitted.last_stable_offset) == ([b"a", b"b", b"c"], 1)
        assert uncommitted.aborted_transactions is None
        committed = await caller.fetched(("t", 0, 0), isolation_level=1)
        assert (values_in(committed), committed.high_watermark) == ([b"a"], 3)
        assert committed.aborted_transactions == ()
        assert values_in(await caller.fetched(("t", 0, 1), isolation_level=1)) == []

    run(scenario)
