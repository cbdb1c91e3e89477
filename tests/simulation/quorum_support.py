"""Drivers of Raft on simulated disks and virtual time: random faults, and what must hold after everything that happens.

    PYTHONPATH=. python -m tests.simulation.quorum_support 42

One to five nodes, each with the production driver, log and quorum-state. Requests between them are late, lost, or find
nobody; nodes lose their power or their process, and are cut off; disks are slow or have no room; leaders propose,
take snapshots and change voters.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final
from uuid import UUID

from barnabas.core.errors import BarnabasError, PeerUnreachable, RequestTimedOut, StorageError
from barnabas.core.metadata.commits import encode_commit
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.records import BROKER_RESOURCE, ConfigRecord, encode_record
from barnabas.core.raft.log_view import SnapshotId
from barnabas.core.raft.messages import Request
from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.output import Output
from barnabas.core.raft.state import BrokenQuorum, RaftConfig
from barnabas.core.raft.voters import BOOTSTRAP_OFFSET, NO_VOTERS, ReplicaKey, Voter, VotersAt, VoterSet
from barnabas.core.records.batch import iter_batches
from barnabas.runtime.raft_driver import Answer, Identity, Proposal, RaftDriver
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.metadata_loading import load_metadata
from barnabas.storage.metadata_snapshot import SnapshotContents
from barnabas.storage.quorum_log import QuorumLog
from barnabas.testing.disk import Keep
from barnabas.testing.hosts import HostCrashed
from barnabas.testing.simulation import Simulation
from tests.simulation.node_history import Violation

Change = Callable[[RaftNode, object, int], Output]

CLUSTER: Final = "simulated"
FAULTS_S: Final = 8.0
HEALING_S: Final = 30.0
MAX_STEPS: Final = 200_000  # of the loop; a run takes some ten thousand
CONFIG: Final = RaftConfig(
    election_timeout_ms=300,
    fetch_timeout_ms=600,
    request_timeout_ms=500,
    fetch_max_wait_ms=150,
    election_backoff_max_ms=300,
    bootstrap_ids=(1, 2, 3),
)


def record_of(value: int) -> ConfigRecord:
    """A record that tells one proposal from all others."""
    return ConfigRecord(BROKER_RESOURCE, "", f"value {value};", "")


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


class Member:
    """One node of the quorum, in all its lives."""

    def __init__(self, world: "QuorumWorld", node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.name = f"node-{node_id}"
        self.key = ReplicaKey(node_id, UUID(int=node_id))
        self.is_up = False
        self.driver: RaftDriver | None = None
        self.log: QuorumLog | None = None
        self.committed_to = 0
        self.leads: int | None = None
        self.outcomes: dict[Proposal, asyncio.Future[None]] = {}  # of all that this life was asked for
        self.proposed: list[Proposal] = []

    # Its lives

    def start(self) -> None:
        self.is_up = True
        self.world.simulation.host(self.name).start(self._run())

    async def _run(self) -> None:
        world, simulation = self.world, self.world.simulation
        self.leads, self.proposed = None, []
        data_dir = DataDir(simulation.disk(self.name), "/data")
        with data_dir.health.guarded():
            log = data_dir.create_log(METADATA_PARTITION, LogConfig())
            loaded = load_metadata(log, replica=self.key, static_voters=world.static_voters)
        self.log = QuorumLog(log, loaded.snapshots)
        voters = loaded.voters or ([] if world.is_static else [VotersAt(BOOTSTRAP_OFFSET, world.first_voters)])
        node = RaftNode(
            self.key,
            CLUSTER,
            self.log.restored(voters),
            dice=simulation.dice(self.name),
            config=CONFIG,
            static_voters=world.static_voters,
        )
        self.committed_to = loaded.snapshot.end_offset if loaded.snapshot is not None else 0
        self.driver = RaftDriver(
            node,
            self.log,
            self,
            self,
            offload=simulation.offload(self.name),
            clock=simulation.clock(self.name),
        )
        try:
            await self.driver.run()
        except ExceptionGroup as broken:
            if broken.subgroup((Violation, AssertionError, BrokenQuorum)) is None:
                raise
            world.broken = ExceptionGroup(self.name, [Violation(repr(broken.exceptions[0]))])

    def stop(self, keep: Keep | None) -> None:
        """Cut the power, or end the process alone."""
        self.driver = self.log = None
        self.is_up, self.leads = False, None
        for outcome in self.outcomes.values():
            outcome.cancel()
        self.outcomes.clear()
        if keep is None:
            self.world.simulation.kill(self.name)
        else:
            self.world.simulation.crash(self.name, keep)

    def end(self, proposal: Proposal, error: BarnabasError | None) -> None:
        """Say what became of a proposal."""
        outcome = self.outcomes.pop(proposal, None)
        if outcome is not None and error is not None:
            outcome.set_exception(error)
        elif outcome is not None:
            outcome.set_result(None)

    # QuorumPeers

    async def ask(self, to: int, request: Request) -> Answer:
        return await self.world.carry(self, self.world.members[to], request)

    def note_voters(self, voters: VoterSet) -> None:
        """Where they are the world knows."""

    async def identify(self, to: int) -> Identity:
        return Identity(f"node {to}")

    # LogFollower

    def lead(self, epoch: int, start_offset: int) -> None:
        self.leads = epoch
        self.world.note_leader(self, epoch)

    def lead_no_more(self) -> None:
        self.leads = None
        for proposal in self.proposed:
            self.end(proposal, RequestTimedOut("unknown"))
        self.proposed.clear()

    def note_proposal(self, proposal: Proposal) -> None:
        self.proposed.append(proposal)

    def note_control(self, base_offset: int, end_offset: int, epoch: int) -> None:
        require(base_offset < end_offset, "a control batch without records")

    def commit_to(self, end_offset: int) -> None:
        require(end_offset > self.committed_to, f"{self.name} commits {end_offset} after {self.committed_to}")
        self.world.check_committed(self, end_offset)
        self.committed_to = end_offset
        while self.proposed and self.proposed[0].end_offset <= end_offset:
            self.end(self.proposed.pop(0), None)

    def begin_anew(self, snapshot: SnapshotId, contents: SnapshotContents | None) -> None:
        self.world.counts["snapshot installed"] += 1
        require(snapshot.end_offset <= len(self.world.committed), "a snapshot beyond what is committed")
        self.committed_to = min(self.committed_to, snapshot.end_offset - 1)

    def fail(self, error: StorageError) -> None:
        # Not raised: a run that is given up ends here too, with nobody to hear of it.
        self.world.broken = ExceptionGroup(self.name, [Violation(f"the disk of {self.name} failed: {error}")])


class QuorumWorld:
    """All nodes, the way between them, and what must hold."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.random: Random = simulation.random("quorum")
        self.counts: Counter[str] = Counter()
        self.committed: list[bytes] = []  # the batch that each committed offset is in
        self.leaders: dict[int, int] = {}
        self.acknowledged: set[int] = set()
        self.cut: set[tuple[int, int]] = set()
        self.loss = self.random.choice([0.0, 0.02, 0.1])
        self.max_delay_s = self.random.choice([0.002, 0.02, 0.08])
        self.is_static = self.random.random() < 0.25
        count = self.random.choice([1, 2, 3, 3, 3, 5])
        self.members = {node_id: Member(self, node_id) for node_id in range(1, max(count, 3) + 1)}
        self.first_voters = VoterSet.of(Voter(self.members[i].key) for i in range(1, count + 1))
        self.static_voters = self.first_voters if self.is_static else NO_VOTERS
        self.broken: ExceptionGroup | None = None
        self._values = 0

    # The way between nodes

    def travels(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) not in self.cut and self.random.random() >= self.loss

    async def carry(self, sender: Member, receiver: Member, request: Request) -> Answer:
        """A request and its answer, each late or lost."""
        await asyncio.sleep(self.random.uniform(0, self.max_delay_s))
        if not self.travels(sender.node_id, receiver.node_id):
            await asyncio.sleep(CONFIG.request_timeout_ms / 1000)
            raise PeerUnreachable("lost")
        if receiver.driver is None:
            raise PeerUnreachable(f"{receiver.name} is down")
        try:
            answer = await self.simulation.host(receiver.name).run(receiver.driver.handle(request))
        except HostCrashed:
            raise PeerUnreachable(f"{receiver.name} died") from None
        await asyncio.sleep(self.random.uniform(0, self.max_delay_s))
        if not self.travels(receiver.node_id, sender.node_id):
            await asyncio.sleep(CONFIG.request_timeout_ms / 1000)
            raise PeerUnreachable("lost")
        return answer

    # What must hold

    def note_leader(self, member: Member, epoch: int) -> None:
        before = self.leaders.setdefault(epoch, member.node_id)
        require(before == member.node_id, f"nodes {before} and {member.node_id} lead epoch {epoch}")
        self.counts["leader"] += 1

    def check_committed(self, member: Member, end_offset: int) -> None:
        assert member.log is not None
        start = max(member.committed_to, member.log.start_offset)
        found: list[bytes] = []
        while start + len(found) < end_offset:
            data = member.log.begin_read(start + len(found), max_bytes=1 << 20)()
            require(bool(data), f"{member.name} calls {end_offset} committed, and has {start + len(found)}")
            for position, header in iter_batches(data):
                batch = bytes(data[position : position + header.size])
                found += [batch] * (header.next_offset - header.base_offset)
        found = found[: end_offset - start]
        known = self.committed[start:end_offset]
        require(found[: len(known)] == known, f"{member.name} calls something else committed than others did")
        if end_offset > len(self.committed):
            require(start <= len(self.committed), f"{member.name} commits {start} before anybody has what is below")
            self.committed += found[len(known) :]

    # What is asked of nodes

    async def propose(self, member: Member) -> None:
        """Have a leader write something; what it calls committed must stay."""
        driver, epoch = member.driver, member.leads
        if driver is None or epoch is None:
            return
        self._values += 1
        value = self._values
        proposal = Proposal(encode_commit([record_of(value)] * self.random.choice([1, 3]), timestamp_ms=0), epoch)
        outcome = member.outcomes[proposal] = self.simulation.loop.create_future()

        def note_refusal(appended: "asyncio.Future[None]") -> None:
            if not appended.cancelled() and isinstance(error := appended.exception(), BarnabasError):
                member.end(proposal, error)

        proposal.appended.add_done_callback(note_refusal)
        try:
            driver.propose(proposal)
            await outcome
        except BarnabasError:
            self.counts["refused"] += 1
        except asyncio.CancelledError:
            return  # its node died
        else:
            self.acknowledged.add(value)
            self.counts["acknowledged"] += 1

    def take_snapshot(self, member: Member) -> None:
        """Have a node write a snapshot of what is committed, and forget what came before the one before it."""
        driver, log = member.driver, member.log
        if driver is None or log is None:
            return
        end_offset = member.committed_to
        epoch = driver.node.log.epoch_at(end_offset - 1)
        if epoch is None or end_offset <= log.start_offset or SnapshotId(end_offset, epoch) in log.snapshots.ids():
            return
        records = [encode_record(record_of(end_offset))]
        with suppress(OSError):  # there may be no room
            log.write_snapshot(SnapshotId(end_offset, epoch), records, driver.node.voters.recorded_at(end_offset))
            self.simulation.host(member.name).start(driver.forget_history())
            self.counts["snapshot"] += 1

    async def change_voters(self, member: Member) -> None:
        """Ask a leader to add or remove one."""
        driver = member.driver
        if driver is None or member.leads is None:
            return
        other = self.random.choice(list(self.members.values()))
        voters = driver.node.voters.current
        if voters.find(other.key) is None:
            change = _adding(Voter(other.key))
        elif len(voters.voters) > 2:
            change = _removing(other.key)
        else:
            return
        with suppress(BarnabasError, HostCrashed):
            await self.simulation.host(member.name).run(driver.change_voters(change))
            self.counts["voters changed"] += 1


def _adding(voter: Voter) -> Change:
    def change(node: RaftNode, token: object, now_ms: int) -> Output:
        return node.add_voter(voter, token, now_ms=now_ms)

    return change


def _removing(key: ReplicaKey) -> Change:
    def change(node: RaftNode, token: object, now_ms: int) -> Output:
        return node.remove_voter(key, token, now_ms=now_ms)

    return change


class Trouble:
    """Faults for a while, then peace."""

    def __init__(self, world: QuorumWorld) -> None:
        self._world = world
        self._random = world.random
        self._loop = world.simulation.loop

    async def run(self) -> None:
        world = self._world
        for member in world.members.values():
            member.start()
        async with asyncio.TaskGroup() as tasks:
            while self._loop.time() < FAULTS_S:
                await asyncio.sleep(self._random.uniform(0, 0.1))
                self._happen(tasks)
                self._check_broken()
            await self._heal(tasks)
        self._check_end()

    def _happen(self, tasks: asyncio.TaskGroup) -> None:
        world, random = self._world, self._random
        member = random.choice(list(world.members.values()))
        dice = random.random()
        if dice < 0.55:
            for each in world.members.values():
                tasks.create_task(world.propose(each))
        elif dice < 0.68:
            self._stop_or_start(member)
        elif dice < 0.74:
            world.cut = {
                pair
                for other in world.members
                for pair in ((member.node_id, other), (other, member.node_id))
                if random.random() < 0.7
            }
            world.counts["cut"] += 1
        elif dice < 0.84:
            world.cut.clear()
        elif dice < 0.90:
            world.take_snapshot(member)
        elif dice < 0.95 and not world.is_static:
            for each in world.members.values():
                tasks.create_task(world.change_voters(each))
        elif dice < 0.97:
            world.simulation.offload(member.name).max_delay_s = random.choice([0.001, 0.01, 0.2])
        else:
            self._fill(member)

    def _fill(self, member: Member) -> None:
        """No room for some writes."""
        if member.driver is not None:
            world = self._world
            world.simulation.disk(member.name).fail_write(
                lambda path: path.endswith((".log", "quorum-state.tmp")), count=self._random.randrange(3)
            )
            world.counts["no room"] += 1

    def _stop_or_start(self, member: Member) -> None:
        if not member.is_up:
            member.start()
            return
        member.stop(self._random.choice([None, Keep.RANDOM, Keep.NOTHING]))
        self._world.counts["death"] += 1
        if self._random.random() < 0.6:
            member.start()

    async def _heal(self, tasks: asyncio.TaskGroup) -> None:
        world = self._world
        world.cut.clear()
        world.loss, world.max_delay_s = 0.0, 0.005
        for member in world.members.values():
            world.simulation.disk(member.name).clear_faults()
            world.simulation.offload(member.name).max_delay_s = 0.01
            if not member.is_up:
                member.start()
        before, deadline = len(world.committed), self._loop.time() + HEALING_S
        while not self._is_whole(before):
            require(self._loop.time() < deadline, f"after {HEALING_S} s of peace the quorum does not go on")
            for each in world.members.values():
                tasks.create_task(world.propose(each))
            await asyncio.sleep(0.1)
            self._check_broken()
            if sum(member.leads is not None for member in world.members.values()) == 1:
                await asyncio.sleep(1.0)

    def _check_broken(self) -> None:
        if self._world.broken is not None:
            raise self._world.broken

    def _is_whole(self, before: int) -> bool:
        committed = len(self._world.committed)
        return committed > before and all(each.committed_to == committed for each in self._world.members.values())

    def _check_end(self) -> None:
        """All that was acknowledged is in what is committed."""
        data = b"".join(dict.fromkeys(self._world.committed))
        for value in sorted(self._world.acknowledged):
            require(encode_record(record_of(value)) in data, f"{value} was acknowledged, and is gone")


def run_seed(seed: int) -> tuple[Counter[str], str]:
    """One run: how often what happened, and a hash of all of it."""
    with Simulation(seed, max_steps=MAX_STEPS) as simulation:
        world = QuorumWorld(simulation)
        simulation.run(lambda: Trouble(world).run())
        return world.counts, simulation.trace_hash()


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(*run_seed(int(argument)))
