"""The image of a node that others write the log of: it is read from the log, whole commits alone, up to what counts."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, cast
from uuid import UUID

from barnabas.core.metadata.commits import encode_batches, encode_commit
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.records import (
    BROKER_RESOURCE,
    ConfigRecord,
    MetadataRecord,
    ProducerIdsRecord,
    encode_record,
)
from barnabas.core.raft.log_view import BOOTSTRAP_SNAPSHOT, SnapshotId
from barnabas.core.raft.output import AppendControl, LeaderChange
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VotersAt, VoterSet
from barnabas.runtime.applied_metadata import AppliedMetadata
from barnabas.runtime.metadata_log import MetadataLog
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.metadata_loading import load_metadata
from barnabas.storage.metadata_snapshot import MetadataSnapshots, SnapshotContents
from barnabas.storage.quorum_log import QuorumLog
from barnabas.testing.disk import SimulatedDisk
from barnabas.testing.loop import SimulatedLoop
from tests.unit.runtime.metadata_support import DIRECTORY, GatedOffload, LooseTasks

ME = ReplicaKey(1)


class Follower:
    """A node that follows: others write to its log what the test says."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(1)
        log = DataDir(self.disk, "/data").create_log(METADATA_PARTITION, LogConfig())
        loaded = load_metadata(log, replica=ME)
        self.log = QuorumLog(log, loaded.snapshots)
        self.offload = GatedOffload()
        self.applied = AppliedMetadata(self.log, loaded, self.offload)
        self.applied.begin = self._begin
        self.heard: list[tuple[int, Sequence[MetadataRecord]]] = []
        self.applied.subscribe(lambda records: self.heard.append((self.applied.applied_offset, records)))
        self._tasks: list[asyncio.Task[None]] = []

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    def write(self, *records: MetadataRecord, epoch: int = 1) -> int:
        return self.log.append(encode_commit(records, timestamp_ms=0), epoch=epoch, now_ms=0)

    def write_leader(self, epoch: int) -> int:
        record = LeaderChange(2, (1, 2), (2,))
        self.log.append_control(AppendControl(self.log.end_offset, epoch, (record,)), now_ms=0)
        return self.log.end_offset

    def write_half_a_commit(self, epoch: int = 1) -> int:
        """The first batch of a commit that has two."""
        long = "x" * 40_000
        batches = list(encode_batches([setting("a", long), setting("b", long)], timestamp_ms=0))
        assert len(batches) == 2
        return self.log.append(batches[0], epoch=epoch, now_ms=0)

    async def settle(self) -> None:
        for task in self._tasks:
            await task
        self._tasks.clear()


def setting(name: str, value: str) -> ConfigRecord:
    return ConfigRecord(BROKER_RESOURCE, "", name, value)


def run(scenario: Callable[[Follower], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(Follower())

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        runner.run(main())


def test_what_others_wrote_is_applied_as_far_as_it_is_committed() -> None:
    async def scenario(node: Follower) -> None:
        node.write_leader(1)
        first = node.write(ProducerIdsRecord(10))
        node.write(ProducerIdsRecord(20))

        node.applied.commit_to(first)
        await node.settle()

        assert node.applied.applied_offset == first
        assert node.applied.image.next_producer_id == 10

    run(scenario)


def test_whoever_hears_of_a_commit_finds_the_image_at_its_end() -> None:
    async def scenario(node: Follower) -> None:
        ends = [node.write(ProducerIdsRecord(number), setting("a", str(number))) for number in (10, 20, 30)]

        node.applied.commit_to(ends[-1])
        await node.settle()

        assert [end for end, _ in node.heard] == ends

    run(scenario)


def test_half_a_commit_is_not_applied_and_gone_with_its_leader() -> None:
    async def scenario(node: Follower) -> None:
        begin = node.write(ProducerIdsRecord(10))
        half = node.write_half_a_commit()
        node.applied.commit_to(half)
        await node.settle()
        assert node.applied.applied_offset == begin
        assert not node.applied.is_between_commits

        node.write_leader(2)
        end = node.write(ProducerIdsRecord(20), epoch=2)
        node.applied.commit_to(end)
        await node.settle()

        assert node.applied.applied_offset == end
        assert node.applied.image.next_producer_id == 20
        assert [records for _, records in node.heard] == [[ProducerIdsRecord(10)], [ProducerIdsRecord(20)]]

    run(scenario)


def test_those_who_wait_for_an_offset_are_woken_when_it_is_applied() -> None:
    async def scenario(node: Follower) -> None:
        node.write(ProducerIdsRecord(10))
        end = node.write(ProducerIdsRecord(20))
        waiting = asyncio.get_running_loop().create_task(node.applied.wait_applied(end))
        await asyncio.sleep(0)
        assert not waiting.done()

        node.applied.commit_to(end)
        await waiting

        assert node.applied.image.next_producer_id == 20
        await node.settle()

    run(scenario)


def test_more_that_is_committed_during_a_read_is_applied_too() -> None:
    async def scenario(node: Follower) -> None:
        first = node.write(ProducerIdsRecord(10))
        node.offload.gate.clear()
        node.applied.commit_to(first)
        await asyncio.sleep(0)
        last = node.write(ProducerIdsRecord(20))
        node.applied.commit_to(last)

        node.offload.gate.set()
        await node.settle()

        assert node.applied.applied_offset == last

    run(scenario)


def test_a_snapshot_that_comes_during_a_read_takes_the_place_of_what_was_read() -> None:
    async def scenario(node: Follower) -> None:
        first = node.write(ProducerIdsRecord(10), setting("gone", "1"))
        node.offload.gate.clear()
        node.applied.commit_to(first)
        await asyncio.sleep(0)
        contents = SnapshotContents([encode_record(ProducerIdsRecord(50))], NO_VOTERS)
        node.applied.begin_anew(SnapshotId(90, 4), contents)

        node.offload.gate.set()
        await node.settle()

        assert node.applied.applied_offset == 90
        assert state_of(node.applied.image) == [ProducerIdsRecord(50)]

    run(scenario)


def test_a_snapshot_replaces_the_image_and_is_told_as_what_it_changes() -> None:
    async def scenario(node: Follower) -> None:
        node.applied.commit_to(node.write(ProducerIdsRecord(10), setting("a", "1")))
        await node.settle()
        image, taken = node.applied.image, []
        node.applied.on_applied = lambda: taken.append(node.applied.applied_offset)

        node.applied.begin_anew(
            SnapshotId(90, 4),
            SnapshotContents([encode_record(each) for each in (ProducerIdsRecord(50), setting("b", "2"))], NO_VOTERS),
        )

        assert node.applied.image is image
        assert state_of(image) == state_of(_image_of(ProducerIdsRecord(50), setting("b", "2")))
        assert node.heard[-1][0] == 90
        assert (node.applied.bytes_applied, node.applied.records_applied) == (0, 0)
        assert taken == []  # it is a snapshot: none is due because of it

    run(scenario)


def test_a_log_that_cannot_be_read_is_applied_no_further_and_harms_nobody() -> None:
    async def scenario(node: Follower) -> None:
        end = node.write(ProducerIdsRecord(10))
        node.disk.fail_read(count=None)

        node.applied.commit_to(end)
        await node.settle()

        assert node.applied.failure is not None
        assert node.applied.applied_offset == 0

    run(scenario)


def test_a_new_leader_reads_what_others_wrote_and_then_decides_on_it() -> None:
    async def scenario(node: Follower) -> None:
        node.write_leader(1)
        start = node.write(ProducerIdsRecord(10))
        epochs: list[int | None] = []
        node.applied.follow_leadership(epochs.append)
        end = node.write_leader(2)
        node.applied.note_control(start, end, 2)
        node.applied.lead(2, start)
        assert epochs == []

        node.applied.commit_to(end)
        await node.settle()

        assert node.applied.is_active
        assert node.applied.image_to_decide_on(2).next_producer_id == 10
        node.applied.lead_no_more()
        node.applied.lead(3, end)
        assert epochs == [2, None, 3]

    run(scenario)


def test_a_node_that_was_formatted_as_the_first_voter_leads_and_repeats_that_in_the_log() -> None:
    key, voters = ReplicaKey(1, UUID(int=11)), VoterSet.of([Voter(ReplicaKey(1, UUID(int=11)))])
    disk = SimulatedDisk(1)
    disk.make_dir("/data")
    disk.make_dir(DIRECTORY)
    MetadataSnapshots(disk, DIRECTORY).write(BOOTSTRAP_SNAPSHOT, [], voters)

    async def scenario() -> None:
        metadata = MetadataLog.open(
            DataDir(disk, "/data"), offload=GatedOffload(), replica=key, cluster_id="c", static_voters=NO_VOTERS
        )
        await metadata.start(cast("asyncio.TaskGroup", LooseTasks()))
        await metadata.wait_applied(3)  # the leader, the version and the voters
        assert metadata.is_active
        assert metadata.driver.node.voters.last_entry == VotersAt(2, voters)
        await metadata.close()

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        runner.run(scenario())


def state_of(image: Image) -> list[MetadataRecord]:
    return list(image.to_records())


def _image_of(*records: MetadataRecord) -> Image:
    image = Image()
    for record in records:
        image.apply(record)
    return image
