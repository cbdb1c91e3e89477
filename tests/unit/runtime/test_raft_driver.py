"""The driver of Raft by itself: what is durable before whom it is told to, want of room, failing disks, the end."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from barnabas.core.errors import (
    InconsistentClusterId,
    NotController,
    PeerUnreachable,
    StorageError,
    StorageExhausted,
)
from barnabas.core.metadata.commits import encode_commit
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.records import ProducerIdsRecord
from barnabas.core.raft.log_view import SnapshotId
from barnabas.core.raft.messages import FetchRequest, FetchResponse, Request, VoteRequest, VoteResponse
from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.voters import ReplicaKey, Voter, VoterSet
from barnabas.runtime.raft_driver import Answer, Identity, Proposal, RaftDriver
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.metadata_loading import load_metadata
from barnabas.storage.metadata_snapshot import SnapshotContents
from barnabas.storage.quorum_log import QuorumLog
from barnabas.storage.quorum_state_file import read_quorum_state
from barnabas.testing.dice import SimulatedDice, derive_random
from barnabas.testing.disk import Keep, SimulatedDisk
from tests.unit.runtime.metadata_support import FixedClock, GatedOffload

CLUSTER = "c"
ONE, TWO, THREE = (ReplicaKey(node_id, UUID(int=node_id)) for node_id in (1, 2, 3))
ALONE = VoterSet.of([Voter(ONE)])
ALL = VoterSet.of([Voter(ONE), Voter(TWO), Voter(THREE)])


class Told:
    """A follower of the log, and all the others, who never answer."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.has_led = asyncio.Event()
        self.asked: list[tuple[int, Request]] = []
        self.voters: VoterSet | None = None

    async def ask(self, to: int, request: Request) -> Answer:
        self.asked.append((to, request))
        raise PeerUnreachable("nobody is there")

    def note_voters(self, voters: VoterSet) -> None:
        self.voters = voters

    async def identify(self, to: int) -> Identity:
        return Identity(f"10.0.0.{to}:9093", "elsewhere")

    def lead(self, epoch: int, start_offset: int) -> None:
        self.events.append(("lead", epoch, start_offset))
        self.has_led.set()

    def lead_no_more(self) -> None:
        self.events.append("lead no more")

    def note_proposal(self, proposal: Proposal) -> None:
        self.events.append(("proposal", proposal.base_offset, proposal.end_offset))

    def note_control(self, base_offset: int, end_offset: int, epoch: int) -> None:
        self.events.append(("control", base_offset, end_offset, epoch))

    def commit_to(self, end_offset: int) -> None:
        self.events.append(("commit", end_offset))

    def begin_anew(self, snapshot: SnapshotId, contents: SnapshotContents | None) -> None:
        self.events.append(("anew", snapshot))

    def fail(self, error: StorageError) -> None:
        self.events.append("fail")


async def drive(
    disk: SimulatedDisk,
    scenario: Callable[[RaftDriver, Told], Awaitable[None]],
    *,
    voters: VoterSet = ALONE,
    offload: GatedOffload | None = None,
) -> None:
    """Open a node on this disk, and run a scenario with its driver."""
    log = DataDir(disk, "/data").create_log(METADATA_PARTITION, LogConfig())
    loaded = load_metadata(log, replica=ONE, static_voters=voters)
    quorum_log = QuorumLog(log, loaded.snapshots)
    dice = SimulatedDice(derive_random(1, "dice"))
    node = RaftNode(ONE, CLUSTER, quorum_log.restored(loaded.voters), dice=dice, static_voters=voters)
    told = Told()
    driver = RaftDriver(node, quorum_log, told, told, offload=offload or GatedOffload(), clock=FixedClock())
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(driver.run())
        await driver.wait_started()
        await scenario(driver, told)
        running.cancel()


def run(
    disk: SimulatedDisk,
    scenario: Callable[[RaftDriver, Told], Awaitable[None]],
    *,
    voters: VoterSet = ALONE,
    offload: GatedOffload | None = None,
) -> None:
    asyncio.run(drive(disk, scenario, voters=voters, offload=offload))


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


def propose(driver: RaftDriver, epoch: int = 1) -> Proposal:
    proposal = Proposal(encode_commit([ProducerIdsRecord(7)], timestamp_ms=0), epoch)
    driver.propose(proposal)
    return proposal


def vote_for(candidate: ReplicaKey, epoch: int = 5) -> VoteRequest:
    return VoteRequest(
        cluster_id=CLUSTER,
        epoch=epoch,
        candidate=candidate,
        voter=ONE,
        last_epoch=0,
        end_offset=0,
        is_pre_vote=False,
    )


def test_a_sole_voter_leads_at_once_and_commits_what_it_has_synced() -> None:
    async def scenario(driver: RaftDriver, told: Told) -> None:
        await settle()
        await propose(driver).appended
        await settle()
        started: list[object] = [("control", 0, 1, 1), ("lead", 1, 0), ("commit", 1)]
        assert told.events == [*started, ("proposal", 1, 2), ("commit", 2)]
        assert read_quorum_state(disk, f"/data/{METADATA_PARTITION}") == driver.node.quorum

    disk = SimulatedDisk(1)
    run(disk, scenario)


def test_nothing_is_committed_before_it_is_synced() -> None:
    async def scenario(driver: RaftDriver, told: Told) -> None:
        await settle()
        offload.gate.clear()
        await propose(driver).appended
        await settle()
        assert told.events[-1:] == [("proposal", 1, 2)]
        offload.gate.set()
        await settle()
        assert told.events[-1:] == [("commit", 2)]

    offload = GatedOffload()
    run(SimulatedDisk(1), scenario, offload=offload)


def test_a_vote_is_remembered_over_a_crash_once_it_is_given() -> None:
    disk = SimulatedDisk(1)

    async def first(driver: RaftDriver, _told: Told) -> None:
        answer = await driver.handle(vote_for(TWO))
        assert isinstance(answer.response, VoteResponse)
        assert answer.response.is_granted

    async def second(driver: RaftDriver, _told: Told) -> None:
        answers = [await driver.handle(vote_for(candidate)) for candidate in (THREE, TWO)]
        assert [getattr(answer.response, "is_granted", None) for answer in answers] == [False, True]

    run(disk, first, voters=ALL)
    disk.crash(Keep.NOTHING)
    run(disk, second, voters=ALL)


def test_a_vote_is_not_given_before_it_is_durable() -> None:
    async def scenario(driver: RaftDriver, _told: Told) -> None:
        offload.gate.clear()
        answer = asyncio.ensure_future(driver.handle(vote_for(TWO)))
        await settle()
        assert not answer.done()
        offload.gate.set()
        await answer

    offload = GatedOffload()
    run(SimulatedDisk(1), scenario, voters=ALL, offload=offload)


def test_one_of_several_does_not_lead_and_refuses_proposals() -> None:
    async def scenario(driver: RaftDriver, told: Told) -> None:
        with pytest.raises(NotController):
            await propose(driver).appended
        assert told.events == []
        assert driver.leading_epoch is None

    run(SimulatedDisk(1), scenario, voters=ALL)


def test_a_proposal_of_an_epoch_that_is_over_is_refused() -> None:
    async def scenario(driver: RaftDriver, _told: Told) -> None:
        with pytest.raises(NotController, match="epoch 9"):
            await propose(driver, epoch=9).appended

    run(SimulatedDisk(1), scenario)


def test_without_room_to_start_proposals_are_refused_until_there_is_some() -> None:
    disk = SimulatedDisk(1)
    disk.fail_write(lambda path: "quorum-state" in path, count=None)

    async def scenario(driver: RaftDriver, told: Told) -> None:
        with pytest.raises(StorageExhausted):
            propose(driver)
        disk.clear_faults()
        await told.has_led.wait()
        await propose(driver).appended

    run(disk, scenario)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
def test_a_proposal_without_room_is_refused_and_leaves_no_trace(error: int) -> None:
    disk = SimulatedDisk(1)

    async def scenario(driver: RaftDriver, told: Told) -> None:
        await settle()
        disk.fail_write(lambda path: path.endswith(".log"), error=error)
        with pytest.raises(StorageExhausted):
            await propose(driver).appended
        await propose(driver).appended
        await settle()
        assert told.events[-1] == ("commit", 2)

    run(disk, scenario)


@pytest.mark.parametrize("fault", ["write", "sync"])
def test_a_disk_that_fails_ends_the_part_of_this_node(fault: str) -> None:
    disk = SimulatedDisk(1)

    async def scenario(driver: RaftDriver, told: Told) -> None:
        await settle()
        if fault == "write":
            disk.fail_write(lambda path: path.endswith(".log"), error=errno.EIO)
        else:
            disk.fail_sync(lambda path: path.endswith(".log"))
        proposal = propose(driver)
        await asyncio.wait([proposal.appended])
        await settle()
        if fault == "write":
            assert isinstance(proposal.appended.exception(), StorageError)
        else:
            assert told.events[-1] == "fail"
            with pytest.raises(StorageError):
                await driver.handle(vote_for(TWO))

    run(disk, scenario)


def test_a_driver_that_is_closed_takes_nothing_more() -> None:
    async def scenario(driver: RaftDriver, told: Told) -> None:
        await settle()
        await driver.close()
        assert told.events[-1] == "lead no more"
        with pytest.raises(NotController):
            propose(driver)
        with pytest.raises(NotController):
            await driver.handle(vote_for(TWO))

    run(SimulatedDisk(1), scenario)


def refuse_as_strangers(told: Told) -> None:
    """Have everybody else answer that they belong to another cluster."""

    async def ask(to: int, request: Request) -> Answer:
        assert isinstance(request, VoteRequest | FetchRequest)
        kind = VoteResponse if isinstance(request, VoteRequest) else FetchResponse
        return Answer(kind(epoch=0, refusal=InconsistentClusterId))

    told.ask = ask  # type: ignore[method-assign]


def test_a_node_ends_where_everybody_is_of_another_cluster_and_names_both() -> None:
    async def scenario(driver: RaftDriver, told: Told) -> None:
        refuse_as_strangers(told)
        await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        run(SimulatedDisk(1), scenario, voters=ALL)
    [first, *_] = flat(caught.value)
    assert isinstance(first, InconsistentClusterId)
    text = str(first)
    assert "cluster c" in text
    assert "cluster elsewhere" in text
    assert "--cluster-id elsewhere" in text


def flat(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [found for each in error.exceptions for found in flat(each)]
    return [error]
