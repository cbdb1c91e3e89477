"""Reading from the closest replica (KIP-392): where a leader sends consumers, and what a follower gives them.

Node 1 leads and node 2 follows, each in a rack of its own. Nothing is fetched between them but by the tests.
"""

import asyncio
from functools import partial
from typing import Any

import pytest

from barnabas.core.metadata.brokers import fence
from barnabas.core.records.control import MarkerType, encode_marker
from barnabas.runtime.following import Fetched
from barnabas.runtime.partition import Partition
from barnabas.wire.apis import FETCH
from tests.support.served import versions_of
from tests.unit.edge.kafka.calling import Call, batch
from tests.unit.edge.kafka.clustered import Cluster, run
from tests.unit.edge.kafka.fetching.support import values_in
from tests.unit.edge.kafka.test_current_leaders import create

LEADER, FOLLOWER = 1, 2
OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 1, 6, 74, 75
NO_REPLICA = -1
SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
RACKS = {LEADER: {"broker.rack": "a"}, FOLLOWER: {"broker.rack": "b"}}
SETTINGS = {node: {**RACKS[node], **SELECTOR} for node in RACKS}
RACKED = [version for version in versions_of(FETCH) if version >= 11]


def partition_at(cluster: Cluster, node: int) -> Partition:
    return cluster.brokers[node].served.get_partition("t", 0)


async def fill(cluster: Cluster, *values: bytes) -> None:
    """Have the leader take records, on its disk only."""
    await create(cluster)
    active = cluster.brokers[LEADER].logs.replicas.active
    active.update({node.node_id: node.epoch for node in cluster.brokers[LEADER].image.nodes.values()})
    for value in values:
        assert (await cluster.callers[LEADER].produced("t", batch(value), acks=1)).error_code.value == 0
    await cluster.brokers[LEADER].logs.flusher.wait_flushed(partition_at(cluster, LEADER).log, len(values))


def follow(cluster: Cluster, offset: int, **options: Any) -> Call:
    """Fetch as the follower does that has everything before `offset` on disk."""
    fields: dict[str, Any] = {"replica_state": {"replica_id": FOLLOWER, "replica_epoch": 0}}
    return cluster.callers[LEADER].fetch(("t", 0, offset), version=17, epochs=(0, -1), **fields, **options)


def receive(cluster: Cluster, records: bytes, *, high_watermark: int) -> None:
    """Have the follower receive an answer of the leader."""
    following = partition_at(cluster, FOLLOWER).following
    assert following is not None
    fetch = following.next_fetch()
    assert fetch is not None
    following.receive(fetch, Fetched(records, high_watermark, 0))


async def replicated(cluster: Cluster, *values: bytes, high_watermark: int) -> None:
    """Records that the follower has, too."""
    await fill(cluster, *values)
    records = (await follow(cluster, 0).read()).responses[0].partitions[0].records
    receive(cluster, records, high_watermark=high_watermark)


async def consumed(cluster: Cluster, node: int, offset: int = 0, *, rack: str = "b", **options: Any) -> Any:
    return await cluster.callers[node].fetched(("t", 0, offset), rack_id=rack, **{"version": 17, **options})


# At the leader


@pytest.mark.parametrize("version", RACKED)
def test_a_consumer_is_sent_to_the_follower_in_its_rack(version: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await fill(cluster, b"v")
        await follow(cluster, 1).read()
        partition = await consumed(cluster, LEADER, version=version, max_wait_ms=20_000)
        assert (partition.error_code.value, partition.preferred_read_replica) == (0, FOLLOWER)
        assert not partition.records
        assert (partition.high_watermark, partition.last_stable_offset, partition.log_start_offset) == (1, 1, 0)

    run(scenario, settings=SETTINGS)


@pytest.mark.parametrize("rack", ["a", "c", ""])
def test_a_consumer_elsewhere_reads_from_the_leader(rack: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await fill(cluster, b"v")
        await follow(cluster, 1).read()
        partition = await consumed(cluster, LEADER, rack=rack)
        assert (partition.preferred_read_replica, values_in(partition)) == (NO_REPLICA, [b"v"])

    run(scenario, settings=SETTINGS)


def test_without_a_selector_everybody_reads_from_the_leader() -> None:
    async def scenario(cluster: Cluster) -> None:
        await fill(cluster, b"v")
        await follow(cluster, 1).read()
        partition = await consumed(cluster, LEADER)
        assert (partition.preferred_read_replica, values_in(partition)) == (NO_REPLICA, [b"v"])

    run(scenario, settings=RACKS)


def test_a_consumer_is_not_sent_to_a_follower_that_lacks_its_offset() -> None:
    async def scenario(cluster: Cluster) -> None:
        await fill(cluster, b"v", b"w")
        assert (await consumed(cluster, LEADER)).preferred_read_replica == NO_REPLICA
        await follow(cluster, 1).read()
        assert (await consumed(cluster, LEADER, 1)).preferred_read_replica == FOLLOWER
        assert (await consumed(cluster, LEADER, 2)).preferred_read_replica == NO_REPLICA

    run(scenario, settings=SETTINGS)


def test_a_consumer_with_a_fetch_session_is_sent_there_as_well() -> None:
    async def scenario(cluster: Cluster) -> None:
        await fill(cluster, b"v")
        caller = cluster.callers[LEADER]
        begun = await caller.fetch(("t", 0, 1), version=17, session=(0, 0), rack_id="b").read()
        assert begun.responses[0].partitions[0].preferred_read_replica == NO_REPLICA
        await follow(cluster, 1).read()
        for epoch in (1, 2):  # as long as the consumer asks here
            answer = await caller.fetch(version=17, session=(begun.session_id, epoch), rack_id="b").read()
            assert answer.responses[0].partitions[0].preferred_read_replica == FOLLOWER

    run(scenario, settings=SETTINGS)


def test_a_follower_hears_of_the_high_watermark_soon_after_it_moved() -> None:
    async def scenario(cluster: Cluster) -> None:
        await fill(cluster, b"v")
        began = asyncio.get_running_loop().time()
        answer = await follow(cluster, 1, session=(0, 0), max_wait_ms=500).read()
        assert answer.responses[0].partitions[0].high_watermark == 1
        assert asyncio.get_running_loop().time() - began < 0.1
        # It knows now: there is no news, and the leader keeps it waiting.
        waiting = follow(cluster, 1, session=(answer.session_id, 1), max_wait_ms=500)
        assert not (await waiting.read()).responses
        assert asyncio.get_running_loop().time() - began > 0.5

    run(scenario, settings=SETTINGS)


def test_a_leader_that_sends_nobody_to_followers_does_not_hurry() -> None:
    async def scenario(cluster: Cluster) -> None:
        await fill(cluster, b"v")
        began = asyncio.get_running_loop().time()
        answer = await follow(cluster, 1, session=(0, 0), max_wait_ms=500).read()
        assert answer.responses[0].partitions[0].high_watermark == 1
        assert asyncio.get_running_loop().time() - began >= 0.5

    run(scenario, settings=RACKS)


# At the follower


@pytest.mark.parametrize("version", RACKED)
def test_a_follower_serves_up_to_its_own_high_watermark(version: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await replicated(cluster, b"u", b"v", b"w", high_watermark=2)
        partition = await consumed(cluster, FOLLOWER, version=version)
        assert (partition.error_code.value, values_in(partition)) == (0, [b"u", b"v"])
        assert (partition.high_watermark, partition.preferred_read_replica) == (2, NO_REPLICA)

    run(scenario, settings=SETTINGS)


@pytest.mark.parametrize("version", versions_of(FETCH))
def test_who_does_not_say_where_it_is_was_not_sent_to_a_follower(version: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await replicated(cluster, b"v", high_watermark=1)
        partition = await cluster.callers[FOLLOWER].fetched(("t", 0, 0), version=version)
        assert partition.error_code.value == NOT_LEADER_OR_FOLLOWER

    run(scenario, settings=SETTINGS)


def test_between_its_high_watermark_and_its_end_a_follower_has_the_consumer_wait() -> None:
    async def scenario(cluster: Cluster) -> None:
        await replicated(cluster, b"u", b"v", b"w", high_watermark=1)
        caller = cluster.callers[FOLLOWER]
        for offset in (1, 2):
            waiting = caller.fetch(("t", 0, offset), version=17, rack_id="b", max_wait_ms=20_000)
            assert not waiting.is_answered
            receive(cluster, b"", high_watermark=offset + 1)
            (partition,) = (await waiting.read(within_s=1)).responses[0].partitions
            assert values_in(partition) == [(b"v", b"w")[offset - 1]]

    run(scenario, settings=SETTINGS)


def test_an_offset_beyond_its_end_is_out_of_range_at_a_follower() -> None:
    async def scenario(cluster: Cluster) -> None:
        await replicated(cluster, b"v", high_watermark=1)
        assert (await consumed(cluster, FOLLOWER, 1)).error_code.value == 0
        assert (await consumed(cluster, FOLLOWER, 2)).error_code.value == OUT_OF_RANGE

    run(scenario, settings=SETTINGS)


def test_a_follower_that_has_nothing_yet_refuses_what_the_leader_may_have() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster)
        assert (await consumed(cluster, FOLLOWER, 0)).error_code.value == 0
        assert (await consumed(cluster, FOLLOWER, 1)).error_code.value == OUT_OF_RANGE

    run(scenario, settings=SETTINGS)


def test_a_follower_checks_the_leader_epoch() -> None:
    async def scenario(cluster: Cluster) -> None:
        await replicated(cluster, b"v", high_watermark=1)
        assert (await consumed(cluster, FOLLOWER, epochs=(0, -1))).error_code.value == 0
        assert (await consumed(cluster, FOLLOWER, epochs=(1, -1))).error_code.value == UNKNOWN_LEADER_EPOCH
        await cluster.brokers[LEADER].metadata.commit(partial(fence, node_id=LEADER))
        await cluster.brokers[FOLLOWER].metadata.wait_applied(cluster.brokers[LEADER].metadata.applied_offset)
        assert (await consumed(cluster, FOLLOWER, epochs=(0, -1))).error_code.value == FENCED_LEADER_EPOCH

    run(scenario, settings=SETTINGS)


def test_a_consumer_that_waits_at_a_follower_hears_of_a_new_leader_epoch() -> None:
    async def scenario(cluster: Cluster) -> None:
        await replicated(cluster, b"v", high_watermark=1)
        waiting = cluster.callers[FOLLOWER].fetch(
            ("t", 0, 1), version=17, rack_id="b", epochs=(0, -1), max_wait_ms=20_000
        )
        partition = partition_at(cluster, FOLLOWER)
        partition.follow(1, LEADER, partition._replication)
        (answered,) = (await waiting.read(within_s=1)).responses[0].partitions
        assert answered.error_code.value == FENCED_LEADER_EPOCH

    run(scenario, settings=SETTINGS)


def test_a_follower_knows_open_and_aborted_transactions() -> None:
    async def scenario(cluster: Cluster) -> None:
        await replicated(cluster, b"u", high_watermark=1)
        transactional = batch(b"v", producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
        data = bytearray(transactional)
        data[:8] = (1).to_bytes(8, "big")
        data[12:16] = bytes(4)  # the leader epoch
        receive(cluster, bytes(data), high_watermark=2)
        open_ = await consumed(cluster, FOLLOWER, isolation_level=1)
        assert (values_in(open_), open_.last_stable_offset, open_.high_watermark) == ([b"u"], 1, 2)
        marker = encode_marker(
            MarkerType.ABORT,
            producer_id=9,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=0,
            base_offset=2,
            leader_epoch=0,
        )
        receive(cluster, bytes(marker), high_watermark=3)
        ended = await consumed(cluster, FOLLOWER, isolation_level=1)
        assert (ended.last_stable_offset, values_in(ended)[:2]) == (3, [b"u", b"v"])
        assert [(each.producer_id, each.first_offset) for each in ended.aborted_transactions] == [(9, 1)]

    run(scenario, settings=SETTINGS)
