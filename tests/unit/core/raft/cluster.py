"""Several Raft nodes on simulated disks and a simulated network, all from one seed, and what must hold after each step.

No clock, no task: events in a heap. Messages are late, lost and overtake each other; nodes stop and lose what was not
synced, hang for a while, are cut off; leaders are asked to append, to take snapshots and to change the voters.
"""

import heapq
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple
from uuid import UUID

import msgspec

from barnabas.core.errors import BarnabasError
from barnabas.core.raft.log_view import BOOTSTRAP_SNAPSHOT, SnapshotId
from barnabas.core.raft.messages import FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse, Request, Response
from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.output import (
    AppendControl,
    AppendFetched,
    FinishSnapshot,
    OutgoingRequest,
    Output,
    Reply,
    ResetToSnapshot,
    Truncate,
    Voters,
    WriteSnapshotPart,
)
from barnabas.core.raft.state import Leader, RaftConfig
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet
from tests.unit.core.raft.disks import Disk, Entry, batches_of

CLUSTER = "simulated"
CONFIG = RaftConfig(
    election_timeout_ms=100,
    fetch_timeout_ms=200,
    request_timeout_ms=150,
    retry_backoff_ms=10,
    fetch_max_wait_ms=50,
    election_backoff_max_ms=100,
    bootstrap_ids=(1, 2, 3),
)


class Broken(AssertionError):
    """Something that must hold does not."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


class SimulatedNode(msgspec.Struct):
    """A node, running or not."""

    key: ReplicaKey
    disk: Disk
    raft: RaftNode | None = None
    life: int = 0
    paused_until_ms: int = 0
    tick_at_ms: int | None = None
    highest_epoch: int = 0
    fetched_entries: dict[int, list[Entry]] = {}


class Wire(NamedTuple):
    """A request on its way, with what its answer needs to find back."""

    sender: int
    life: int
    request_id: int
    to: int
    request: Request


class Payload(NamedTuple):
    """A response and the records that come with it."""

    response: Response
    entries: list[Entry]


class Cluster:
    """The whole simulation. `voter_count` nodes vote at first, the others observe."""

    def __init__(self, seed: int, *, voter_count: int = 3, node_count: int = 5, is_static: bool = False) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.nodes: dict[int, SimulatedNode] = {}
        self.committed: list[Entry] = []
        self.leaders: dict[int, int] = {}
        self.heard_before_ms: dict[int, int] = {}
        """When those who elected each epoch's leader had last heard from one before it."""
        self.committed_in: dict[int, int] = {}
        """Up to where each epoch has committed."""
        self.cut: set[frozenset[int]] = set()
        self.loss = 0.0
        self.max_delay_ms = 10
        self.is_aimed = False
        """Whether nodes die at the worst moments: once they have voted, and soon after they are elected. Then fetches
        bring one record each, so that those of two epochs arrive apart."""
        self.acknowledged: list[tuple[int, str]] = []
        self.changes_done = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._counter = 0
        keys = [ReplicaKey(i, None if is_static else UUID(int=i)) for i in range(1, node_count + 1)]
        first_voters = VoterSet.of(Voter(key) for key in keys[:voter_count])
        self.static_voters = first_voters if is_static else NO_VOTERS
        for key in keys:
            disk = Disk(bootstrap_voters=None if is_static else first_voters)
            if not is_static:
                disk.snapshots.append(BOOTSTRAP_SNAPSHOT)
            self.nodes[key.node_id] = SimulatedNode(key=ReplicaKey(key.node_id, UUID(int=key.node_id)), disk=disk)
        for node in self.nodes.values():
            self.start(node)

    # Events

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something later."""
        self._counter += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._counter, action))

    def run(self, duration_ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass; whether `until` held before its end."""
        end_ms = self.now_ms + duration_ms
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(self._events)
            action()
            if until():
                return True
        self.now_ms = end_ms
        return until()

    def _on(self, node: SimulatedNode, life: int, action: Callable[[RaftNode], Output]) -> None:
        """One step of a node, later if it hangs, not at all if it has stopped since."""
        if node.raft is None or node.life != life:
            return
        if node.paused_until_ms > self.now_ms:
            self.at(node.paused_until_ms - self.now_ms, lambda: self._on(node, life, action))
            return
        try:
            output = action(node.raft)
        except BarnabasError:
            return
        self._perform(node, output)

    # What a driver does

    def start(self, node: SimulatedNode) -> None:
        """Start a node on what its disk holds."""
        node.life += 1
        node.fetched_entries.clear()
        node.raft = RaftNode(
            node.key,
            CLUSTER,
            node.disk.restored(),
            dice=self.random,
            config=CONFIG,
            static_voters=self.static_voters,
        )
        node.tick_at_ms = None
        self._perform(node, node.raft.start(self.now_ms))

    def crash(self, node: SimulatedNode) -> None:
        """Stop a node; of what was not synced any prefix remains."""
        node.raft = None
        kept = self.random.randint(node.disk.durable_end, len(node.disk.entries))
        del node.disk.entries[kept:]
        node.disk.durable_end = kept

    def _perform(self, node: SimulatedNode, output: Output) -> None:
        if output.persist is not None:
            node.disk.quorum = output.persist
            require(output.persist.epoch >= node.highest_epoch, f"the epoch of {node.key.node_id} went back")
            node.highest_epoch = output.persist.epoch
        self._operate(node, output)
        for request in output.requests:
            self._send(node, request)
        for reply in output.replies:
            self._reply(node, reply)
        self.changes_done += sum(change.error is None for change in output.changes)
        self._check(node, output)
        self._schedule_tick(node)
        if self.is_aimed and output.persist is not None and output.persist.voted not in (None, node.key):
            self._crash_soon(node, within_ms=0, down_ms=0)

    def _crash_soon(self, node: SimulatedNode, *, within_ms: int, down_ms: int) -> None:
        life = node.life

        def start() -> None:
            if node.raft is None:
                self.start(node)

        def crash() -> None:
            if node.raft is not None and node.life == life:
                self.crash(node)
                self.at(self.random.randint(0, down_ms), start)

        self.at(self.random.randint(0, within_ms), crash)

    def _operate(self, node: SimulatedNode, output: Output) -> None:
        disk = node.disk
        for operation in output.operations:
            if isinstance(operation, AppendControl):
                require(len(disk.entries) == operation.base_offset, "a control batch is not at the log's end")
                for record in operation.records:
                    voters = record.voters if isinstance(record, Voters) else None
                    disk.entries.append(Entry(operation.epoch, type(record).__name__, voters))
                self._flush_later(node)
            elif isinstance(operation, AppendFetched):
                fetched = node.fetched_entries[0]
                require(len(disk.entries) == operation.base_offset, "fetched batches are not at the log's end")
                disk.entries += fetched[: operation.end_offset - operation.base_offset]
                self._flush_later(node)
            elif isinstance(operation, Truncate):
                del disk.entries[operation.end_offset :]
                disk.durable_end = min(disk.durable_end, operation.end_offset)
            elif isinstance(operation, WriteSnapshotPart):
                node.fetched_entries[1] = node.fetched_entries[0]
            elif isinstance(operation, FinishSnapshot):
                self._finish_later(node, operation.snapshot)
            elif isinstance(operation, ResetToSnapshot):
                self._reset(node, operation.snapshot)

    def _reset(self, node: SimulatedNode, snapshot: SnapshotId) -> None:
        node.disk.entries[:] = node.fetched_entries[1]
        node.disk.start_offset = node.disk.durable_end = snapshot.end_offset
        node.disk.snapshots.append(snapshot)

    def _finish_later(self, node: SimulatedNode, snapshot: SnapshotId) -> None:
        life, entries = node.life, node.fetched_entries[1]
        voters = Disk(entries=entries, bootstrap_voters=node.disk.bootstrap_voters).voters_at(snapshot.end_offset)
        self.at(
            self.random.randint(1, 30),
            lambda: self._on(node, life, lambda raft: raft.snapshot_ready(snapshot, voters, now_ms=self.now_ms)),
        )

    def _flush_later(self, node: SimulatedNode) -> None:
        life, end_offset = node.life, len(node.disk.entries)
        last = node.disk.entries[-1]

        def flush() -> None:
            entries = node.disk.entries
            if node.life == life and node.raft is not None and entries[end_offset - 1 : end_offset] == [last]:
                node.disk.durable_end = max(node.disk.durable_end, end_offset)
            self._on(node, life, lambda raft: raft.flushed(end_offset, epoch=last.epoch, now_ms=self.now_ms))

        self.at(self.random.randint(1, 20), flush)

    def _schedule_tick(self, node: SimulatedNode) -> None:
        assert node.raft is not None
        deadline_ms = node.raft.deadline_ms
        if deadline_ms is None or (node.tick_at_ms is not None and self.now_ms < node.tick_at_ms <= deadline_ms):
            return
        life = node.life
        node.tick_at_ms = deadline_ms

        def tick() -> None:
            if node.life == life and node.tick_at_ms == deadline_ms:
                node.tick_at_ms = None
                self._on(node, life, lambda raft: raft.tick(self.now_ms))

        self.at(max(deadline_ms - self.now_ms, 0), tick)

    # The network

    def _travels(self, sender: int, receiver: int) -> bool:
        return frozenset((sender, receiver)) not in self.cut and self.random.random() >= self.loss

    def _delay_ms(self) -> int:
        return self.random.randint(1, self.max_delay_ms)

    def _send(self, node: SimulatedNode, outgoing: OutgoingRequest) -> None:
        wire = Wire(node.key.node_id, node.life, outgoing.request_id, outgoing.to, outgoing.request)
        if self._travels(wire.sender, wire.to):
            self.at(self._delay_ms(), lambda: self._arrive(wire))

    def _arrive(self, wire: Wire) -> None:
        receiver, sender = self.nodes[wire.to], self.nodes[wire.sender]
        if receiver.raft is None:
            self.at(
                self._delay_ms(),
                lambda: self._on(
                    sender, wire.life, lambda raft: raft.request_failed(wire.to, wire.request_id, now_ms=self.now_ms)
                ),
            )
            return
        size = 1 if isinstance(wire.request, FetchSnapshotRequest) else 0
        self._on(
            receiver,
            receiver.life,
            lambda raft: raft.receive(wire.request, wire, now_ms=self.now_ms, snapshot_size_bytes=size),
        )

    def _reply(self, node: SimulatedNode, reply: Reply) -> None:
        wire, response = reply.token, reply.response
        assert isinstance(wire, Wire)
        entries: list[Entry] = []
        if isinstance(response, FetchResponse) and reply.read_from is not None:
            start = reply.read_from
            entries = node.disk.entries[start : start + (1 if self.is_aimed else self.random.randint(1, 8))]
            batches = tuple(batches_of(start, entries))
            response = msgspec.structs.replace(response, batches=batches)
        elif isinstance(response, FetchSnapshotResponse) and response.refusal is None:
            assert response.snapshot is not None
            entries = node.disk.entries[: response.snapshot.end_offset]
            response = msgspec.structs.replace(response, length_bytes=1)
        payload = Payload(response, entries)
        if self._travels(wire.to, wire.sender):
            self.at(self._delay_ms(), lambda: self._answer(wire, payload))

    def _answer(self, wire: Wire, payload: Payload) -> None:
        sender = self.nodes[wire.sender]

        def step(raft: RaftNode) -> Output:
            sender.fetched_entries[0] = payload.entries
            return raft.receive_response(wire.to, wire.request_id, payload.response, now_ms=self.now_ms)

        self._on(sender, wire.life, step)

    # What is asked of nodes

    def running(self) -> Iterator[SimulatedNode]:
        """The nodes that are up."""
        return (node for node in self.nodes.values() if node.raft is not None)

    def leading(self) -> list[SimulatedNode]:
        """Those that believe to lead."""
        return [node for node in self.running() if node.raft is not None and isinstance(node.raft.role, Leader)]

    def append(self, node: SimulatedNode, value: str) -> None:
        """Have a leader write a record, if it is one and does not hang."""
        raft = node.raft
        if raft is None or not isinstance(raft.role, Leader) or node.paused_until_ms > self.now_ms:
            return
        epoch = raft.quorum.epoch
        node.disk.entries.append(Entry(epoch, value))
        self._flush_later(node)
        self._perform(node, raft.appended(len(node.disk.entries), epoch=epoch, now_ms=self.now_ms))

    def take_snapshot(self, node: SimulatedNode) -> None:
        """Have a node take a snapshot of what is committed, and perhaps forget the log before it."""
        raft, disk = node.raft, node.disk
        if raft is None or raft.high_watermark <= disk.start_offset or raft.high_watermark > disk.durable_end:
            return
        end_offset = raft.high_watermark
        require(raft.voters.at(end_offset) == self._voters_at(node, end_offset), "a snapshot has the wrong voters")
        snapshot = SnapshotId(end_offset, disk.entries[end_offset - 1].epoch)
        if snapshot in disk.snapshots:
            return
        disk.snapshots.append(snapshot)
        if self.random.random() < 0.7:
            disk.start_offset = end_offset
            disk.snapshots[:-1] = []
        self._perform(
            node,
            raft.snapshots_kept(disk.snapshots, log_start_offset=disk.start_offset, now_ms=self.now_ms),
        )

    def change_voters(self, node: SimulatedNode) -> None:
        """Ask a leader to add or remove one."""
        raft = node.raft
        if raft is None:
            return
        voters = raft.voters.current
        other = self.random.choice(list(self.nodes.values()))
        if voters.find(other.key) is None:
            self._on(node, node.life, lambda raft: raft.add_voter(Voter(other.key), "add", now_ms=self.now_ms))
        elif len(voters.voters) > 1:
            self._on(node, node.life, lambda raft: raft.remove_voter(other.key, "remove", now_ms=self.now_ms))

    # What must hold

    def _voters_at(self, node: SimulatedNode, end_offset: int) -> VoterSet:
        return self.static_voters if self.static_voters.voters else node.disk.voters_at(end_offset)

    def _check(self, node: SimulatedNode, output: Output) -> None:
        raft, disk = node.raft, node.disk
        assert raft is not None
        node_id = node.key.node_id
        require(
            raft.log.end_offset == len(disk.entries), f"the log of {node_id} does not end where Raft thinks it does"
        )
        if output.operations:
            require(raft.log.durable_end <= disk.durable_end, f"{node_id} counts records that are not on disk")
            require(raft.voters.current == self._voters_at(node, len(disk.entries)), f"{node_id} has the wrong voters")
        if isinstance(raft.role, Leader):
            self._check_leader(node, raft, raft.role)
        if output.high_watermark is not None:
            self._check_committed(node, raft, output.high_watermark)

    def _check_leader(self, node: SimulatedNode, raft: RaftNode, role: Leader) -> None:
        node_id, epoch = node.key.node_id, raft.quorum.epoch
        confirmed_ms = raft.confirmed_ms(self.now_ms)
        later = [heard_ms for other, heard_ms in self.heard_before_ms.items() if other > epoch]
        require(
            confirmed_ms is None or not later or confirmed_ms <= min(later),
            f"{node_id} is sure to have led epoch {epoch} at {confirmed_ms}, and those who elected later leaders had "
            f"heard of none since {later}",
        )
        if self.leaders.get(epoch) == node_id:
            return
        require(epoch not in self.leaders, f"{node_id} and {self.leaders.get(epoch)} lead epoch {epoch}")
        self.leaders[epoch] = node_id
        require(role.heard_ms <= self.now_ms, f"{node_id} was elected by somebody who heard a leader in the future")
        self.heard_before_ms[epoch] = role.heard_ms
        # A node that hung may learn late that it was elected: it need not have what later epochs have committed.
        end = max((end for before, end in self.committed_in.items() if before < epoch), default=0)
        is_complete = node.disk.entries[:end] == self.committed[:end]
        require(is_complete, f"{node_id} leads epoch {epoch} without all that is committed")
        if self.is_aimed and self.random.random() < 0.7:
            self._crash_soon(node, within_ms=40, down_ms=400)

    def _check_committed(self, node: SimulatedNode, raft: RaftNode, high_watermark: int) -> None:
        node_id, known = node.key.node_id, len(self.committed)
        entries = node.disk.entries
        require(high_watermark <= len(entries), f"{node_id} calls committed what it has not got")
        require(
            entries[: min(known, high_watermark)] == self.committed[:high_watermark],
            f"{node_id} calls something else committed than others did",
        )
        if high_watermark <= known:
            return
        new = entries[:high_watermark]
        voters = raft.voters.current
        holders = [
            one
            for one in self.nodes.values()
            if voters.find(one.key) is not None
            and one.disk.durable_end >= high_watermark
            and one.disk.entries[:high_watermark] == new
        ]
        require(len(holders) >= voters.majority, f"{node_id} commits {high_watermark}, which a minority has on disk")
        self.committed = new
        self.committed_in[raft.quorum.epoch] = high_watermark

    def check_logs_match(self) -> None:
        """Logs that have the same epoch at an offset are the same up to there."""
        nodes = list(self.nodes.values())
        for index, one in enumerate(nodes):
            for other in nodes[index + 1 :]:
                a, b = one.disk.entries, other.disk.entries
                end = min(len(a), len(b))
                same = [i for i in range(end) if a[i].epoch == b[i].epoch]
                if same:
                    require(a[: same[-1] + 1] == b[: same[-1] + 1], "logs with the same last epoch differ")
