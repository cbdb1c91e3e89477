"""Damage is repaired from another replica: in place, or by writing the segment anew; never with what does not belong
there.
"""

import errno
import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from barnabas.core.errors import BarnabasError, EligibleLeadersNotAvailable, NewLeaderElected, PeerUnreachable
from barnabas.core.fetched import FetchPartition
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.isr import IsrChange
from barnabas.core.metadata.records import PartitionRecord, TopicRecord
from barnabas.core.records.batch import LOG_OVERHEAD, iter_batches, pack_place
from barnabas.core.records.record import Record, encode_batch
from barnabas.core.replica.follower import FollowerFetch as AskedFor
from barnabas.runtime.following import Next
from barnabas.runtime.repairing import Repairing
from barnabas.runtime.replicating.session import FollowerSession, Limits, Self, TopicIdPartition
from barnabas.services.fetch import Fetch, FetchingReplica
from barnabas.storage.disk import File
from barnabas.storage.log import Log
from barnabas.storage.mending import find_gaps
from barnabas.wire.apis import FETCH
from barnabas.wire.fetch_request import read_fetch
from barnabas.wire.requests import write_request
from tests.support.ports import InPlace
from tests.unit.runtime.replicating.replica_support import (
    BROKER_EPOCH,
    FOLLOWER,
    LEADER,
    NAME,
    TOPIC_ID,
    Side,
    answer,
    fetch_once,
    in_loop,
)

FILE = "/data/t-0/00000000000000000000.log"
VALUES = [b"value %d" % number for number in range(10)]


class Peers:
    """The way to the other node: it answers as a broker answers a consumer."""

    def __init__(self, sides: dict[int, Side]) -> None:
        self.sides = sides
        self.asked: list[int] = []

    async def ask(
        self, node_id: int, _api_key: int, values: Any, *, timeout_s: float, purpose: str, min_version: int = 0
    ) -> Any:
        assert (timeout_s, purpose, min_version) == (30.0, "repair", 13)
        assert values["replica_id"] == -1
        self.asked.append(node_id)
        if node_id not in self.sides:
            raise PeerUnreachable(f"node {node_id} is down")
        (topic,) = values["topics"]
        assert topic["topic_id"] == TOPIC_ID
        (asked,) = topic["partitions"]
        max_bytes = asked["partition_max_bytes"]
        wanted = FetchPartition(0, asked["current_leader_epoch"], asked["fetch_offset"], max_bytes=max_bytes)
        fetch = Fetch(InPlace())
        try:
            found = fetch.look(
                self.sides[node_id].partition,
                wanted,
                is_committed=False,
                max_bytes=max_bytes,
                is_first=True,
                at_any=bool(values["rack_id"]),
            )
            await fetch.read([found], max_bytes=10_000_000)
        except BarnabasError as error:
            return _answer(error.kafka_code, b"")
        return _answer(0, bytes(found.records) if isinstance(found.records, bytes) else b"")


def _answer(code: int, records: bytes) -> Any:
    partition = SimpleNamespace(error_code=code, records=records)
    return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[partition])])


class Pair:
    """A leader and a follower with the same records, all committed."""

    def __init__(self) -> None:
        self.leader, self.follower = Side(LEADER), Side(FOLLOWER)
        self.leader.lead()
        following = self.follower.follow(LEADER)
        self.leader.append(*VALUES)
        self.leader.flush()
        for _ in range(3):  # the records, that they are on disk, the high watermark
            fetch_once(self.leader, following)
            self.follower.flush()
        assert self.leader.partition.high_watermark == self.follower.partition.high_watermark == len(VALUES)
        self.image = Image()

    def repairing(self, side: Side, peers: Peers | None = None) -> Repairing:
        both = {LEADER: self.leader, FOLLOWER: self.follower}
        peers = peers or Peers({node: each for node, each in both.items() if each is not side})
        source = SimpleNamespace(image=self.image)
        return Repairing(side.logs, peers, source, InPlace(), node_id=side.node_id, timeout_s=30.0)


def damage(side: Side, number: int, byte: int = 70) -> bytes:
    """Flip a bit of a batch; returns what the file was."""
    whole = content(side)
    position = [position for position, _ in iter_batches(whole)][number]
    side.disk.flip_bit(FILE, position + byte, 2)
    assert content(side) != whole
    return whole


def content(side: Side) -> bytes:
    file = side.disk.open(FILE)
    return file.read(0, file.size())


def log_of(side: Side) -> Log:
    held = side.partition.held_log
    assert held is not None
    return held


@pytest.mark.parametrize("byte", [3, 7, 9, 16, 18, 22, 61, 70])
@pytest.mark.parametrize("is_leader", [False, True], ids=["a follower", "a leader"])
def test_a_damaged_batch_is_put_back_as_it_was(byte: int, *, is_leader: bool) -> None:
    async def scenario() -> None:
        pair = Pair()
        side = pair.leader if is_leader else pair.follower
        whole = damage(side, 4, byte)
        repairing = pair.repairing(side)
        assert side.logs.note_damage(log_of(side), 4)
        await repairing.repair_due()
        assert content(side) == side.disk.durable_bytes(FILE) == whole
        assert side.values == VALUES
        assert repairing.repaired == 1
        assert side.partition.high_watermark == log_of(side).end_offset == len(VALUES)

    in_loop(scenario)


def test_all_damage_in_a_segment_is_repaired_at_once() -> None:
    async def scenario() -> None:
        pair = Pair()
        whole = damage(pair.follower, 0)
        for number in (3, 4, 9):
            damage_more(pair.follower, whole, number)
        repairing = pair.repairing(pair.follower)
        pair.follower.logs.note_damage(log_of(pair.follower), 0)
        await repairing.repair_due()
        assert content(pair.follower) == whole
        assert repairing.repaired == 3  # two of them are beside each other

    in_loop(scenario)


def damage_more(side: Side, whole: bytes, number: int) -> None:
    position = [position for position, _ in iter_batches(whole)][number]
    side.disk.flip_bit(FILE, position + 70, 2)


def test_a_batch_that_both_have_damaged_stays_damaged_and_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        pair = Pair()
        damage(pair.leader, 4)
        damage(pair.follower, 4)
        before = content(pair.follower)
        repairing = pair.repairing(pair.follower)
        pair.follower.logs.note_damage(log_of(pair.follower), 4)
        await repairing.repair_due()
        assert (content(pair.follower), repairing.repaired) == (before, 0)

    with caplog.at_level(logging.INFO, "barnabas.repair"):
        in_loop(scenario)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("t-0 cannot be repaired yet, in its segment from offset 0 on: node 1: ")


def test_what_is_not_committed_is_not_touched() -> None:
    async def scenario() -> None:
        pair = Pair()
        pair.leader.append(b"alone")
        pair.leader.flush()
        damage(pair.leader, len(VALUES))
        before = content(pair.leader)
        peers = Peers({FOLLOWER: pair.follower})
        repairing = pair.repairing(pair.leader, peers)
        pair.leader.logs.note_damage(log_of(pair.leader), len(VALUES))
        await repairing.repair_due()
        assert (content(pair.leader), peers.asked) == (before, [])

    in_loop(scenario)


def test_records_of_another_leader_epoch_are_refused() -> None:
    async def scenario() -> None:
        pair = Pair()
        damage(pair.follower, 4)
        before = content(pair.follower)
        log_of(pair.follower).epochs.truncate_to(0)
        log_of(pair.follower).epochs.assign(7, 0)
        repairing = pair.repairing(pair.follower)
        pair.follower.logs.note_damage(log_of(pair.follower), 4)
        await repairing.repair_due()
        assert (content(pair.follower), repairing.repaired) == (before, 0)

    in_loop(scenario)


def test_a_segment_that_another_replica_has_compacted_is_written_anew() -> None:
    async def scenario() -> None:
        pair = Pair()
        whole = content(pair.leader)
        compacted = Side(LEADER)
        compacted.lead()
        held = compacted.partition.make_log()
        for position, header in iter_batches(whole):
            if header.base_offset != 4:
                held.append_as_follower(bytearray(whole[position : position + header.size]))
        held.flush()
        compacted.partition.note_followed(len(VALUES))
        damage(pair.follower, 4)
        damage_more(pair.follower, whole, 7)
        repairing = pair.repairing(pair.follower, Peers({LEADER: compacted}))
        pair.follower.logs.note_damage(log_of(pair.follower), 4)
        await repairing.repair_due()
        assert pair.follower.values == VALUES[:4] + VALUES[5:]
        assert log_of(pair.follower).end_offset == len(VALUES)
        assert repairing.repaired == 2
        log_of(pair.follower).append_as_follower(encode_batch([Record(len(VALUES), 0, None, b"next")], leader_epoch=0))
        pair.follower.restart()
        assert pair.follower.values[:9] == VALUES[:4] + VALUES[5:]

    in_loop(scenario)


def test_what_the_disk_cannot_read_counts_as_damaged() -> None:
    class BadSector:
        """The second sector cannot be read."""

        path = "bad"

        def __init__(self, data: bytes) -> None:
            self.data = data

        def read(self, position: int, size: int) -> bytes:
            if position < 8192 and position + size > 4096:
                raise OSError(errno.EIO, "Input/output error")
            return self.data[position : position + size]

    batches = [bytes(encode_batch([Record(0, 0, None, b"x" * 900)])) for _ in range(20)]
    data = bytearray().join(batches)
    for offset in range(20):
        pack_place(data, offset * len(batches[0]), offset, len(batches[0]) - LOG_OVERHEAD, 0)
    (gap,) = find_gaps(cast("File", BadSector(bytes(data))), 0, size=len(data), end_offset=20)
    size = len(batches[0])
    assert (gap.first_offset, gap.end_offset) == (4096 // size, 8192 // size + 1)


def test_a_partition_with_one_replica_is_left_to_its_operator() -> None:
    async def scenario() -> None:
        pair = Pair()
        repairing = pair.repairing(pair.follower)
        pair.follower.partition.is_alone = True
        assert not pair.follower.logs.note_damage(log_of(pair.follower), 4)
        await repairing.repair_due()

    in_loop(scenario)


# A leader that does not look at what it sends


def test_a_leader_whose_follower_was_sent_damage_looks_at_its_own_log() -> None:
    async def scenario() -> None:
        pair = Pair()
        whole = damage(pair.leader, 4)
        third = Side(FOLLOWER)
        following = third.follow(LEADER)
        assert fetch_once(pair.leader, following) is Next.LATER
        asked = following.next_fetch()
        assert asked is not None
        assert asked.damaged_offset == asked.fetch_offset == 0
        repairing = pair.repairing(pair.leader)
        wanted = FetchPartition(0, 0, 0, max_bytes=1_000_000, damaged_offset=asked.damaged_offset)
        replica = FetchingReplica(FOLLOWER, BROKER_EPOCH)
        Fetch(InPlace()).look_for_replica(pair.leader.partition, wanted, replica, max_bytes=1, is_first=True)
        await repairing.repair_due()
        assert content(pair.leader) == whole
        assert following.receive(asked, answer(pair.leader, asked)) is Next.FETCH
        assert third.values == VALUES
        after = following.next_fetch()
        assert after is not None
        assert after.damaged_offset == -1

    in_loop(scenario)


def test_that_records_were_damaged_is_told_beside_what_is_on_disk() -> None:
    fetch = AskedFor(1, 3, 40, 2, 10, 35, damaged_offset=40)
    session = FollowerSession()
    values = session.request(Self(2, 50), {TopicIdPartition(TOPIC_ID, 0): fetch}, set(), Limits(500, 1, 1000, 1000))
    body = write_request(FETCH.key, 17, values)
    ((_, (partition,)),) = read_fetch(body, 0, len(body), 17).topics
    assert (partition.flushed_offset, partition.log_start_offset, partition.damaged_offset) == (35, 10, 40)


# A log that cannot be opened


def unreadable(pair: Pair) -> None:
    """The follower is killed, damaged in what it would recover, and started."""
    damage(pair.follower, 4)
    pair.follower.restart()
    assert NAME in pair.follower.logs.data_dir.unreadable


def say(pair: Pair, *, isr: tuple[int, ...], elr: tuple[int, ...] = (), leader: int = LEADER) -> None:
    """What the metadata have of the partition."""
    if NAME.topic not in pair.image.topics:
        pair.image.apply(TopicRecord(NAME.topic, TOPIC_ID))
    pair.image.apply(
        PartitionRecord(
            topic_id=TOPIC_ID,
            partition=0,
            replicas=(LEADER, FOLLOWER),
            isr=isr,
            leader=leader,
            leader_epoch=0,
            partition_epoch=0,
            elr=elr,
        )
    )


def test_a_log_that_cannot_be_opened_is_fetched_anew_once_nobody_counts_on_it() -> None:
    async def scenario() -> None:
        pair = Pair()
        unreadable(pair)
        repairing = pair.repairing(pair.follower)
        for isr, elr in (((LEADER, FOLLOWER), ()), ((LEADER,), (FOLLOWER,))):
            say(pair, isr=isr, elr=elr)
            await repairing.repair_due()
            assert NAME in pair.follower.logs.data_dir.unreadable
        say(pair, isr=(LEADER,))
        await repairing.repair_due()
        assert NAME not in pair.follower.logs.data_dir.unreadable
        assert repairing.begun_anew == 1
        following = pair.follower.follow(LEADER)
        fetch_once(pair.leader, following)
        assert pair.follower.values == VALUES

    in_loop(scenario)


def test_a_log_of_an_unknown_topic_is_left_alone() -> None:
    async def scenario() -> None:
        pair = Pair()
        unreadable(pair)
        pair.image.apply(TopicRecord("other", UUID(int=8)))
        await pair.repairing(pair.follower).repair_due()
        assert NAME in pair.follower.logs.data_dir.unreadable

    in_loop(scenario)


def test_a_leader_that_cannot_open_its_log_asks_for_another_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[BarnabasError | None] = [
        EligibleLeadersNotAvailable("all others are down"),
        EligibleLeadersNotAvailable("all others are down"),
        NewLeaderElected("done"),
    ]
    asked: list[IsrChange] = []

    async def resign(changes: Sequence[IsrChange]) -> list[BarnabasError | None]:
        asked.extend(changes)
        return [answers.pop(0) for _ in changes]

    async def scenario() -> None:
        pair = Pair()
        unreadable(pair)
        repairing = pair.repairing(pair.follower)
        repairing.resign = resign
        say(pair, isr=(FOLLOWER,), elr=(LEADER,), leader=FOLLOWER)
        for _ in range(3):
            await repairing.repair_due()

        assert [(each.resigns, each.leader_epoch, each.partition_epoch) for each in asked] == [(True, 0, 0)] * 3
        errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert ["no other node can lead" in each for each in errors] == [True, False]
        say(pair, isr=(LEADER,))
        await repairing.repair_due()
        assert repairing.begun_anew == 1
        assert len(asked) == 3

    in_loop(scenario)
