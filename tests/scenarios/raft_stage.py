"""The stage for scenarios of Raft: nodes on a table, and a person who carries the messages.

Every message has a name when it is sent (m1, m2, ...) and travels only when it is told to. Time passes when it is told
to. What a node asks of its driver is printed in the order in which it has to be done. Dice are loaded: node N draws its
election timeouts as 1000 + 100 * N ms, so node 1 is the first to lose patience.
"""

from collections.abc import Callable, Iterator
from uuid import UUID

import msgspec

from barnabas.core.raft.log_view import BOOTSTRAP_SNAPSHOT, EpochEnd, SnapshotId
from barnabas.core.raft.messages import FetchRequest, FetchResponse, FetchSnapshotResponse, Request, Response
from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.output import (
    AppendControl,
    AppendFetched,
    FinishSnapshot,
    OutgoingRequest,
    Output,
    ResetToSnapshot,
    Truncate,
    Voters,
    WriteSnapshotPart,
)
from barnabas.core.raft.state import BrokenQuorum, RaftConfig
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterEndpoint, VoterSet
from tests.scenarios.raft_words import (
    key_words,
    operation_words,
    quorum_words,
    request_words,
    response_words,
    state_words,
)
from tests.scenarios.transcript import Stage
from tests.unit.core.raft.disks import Disk, Entry, batches_of

CLUSTER = "castle"


class LoadedDice:
    """Draws the same number always, as far as it goes."""

    def __init__(self, number: int) -> None:
        self.number = number

    def randrange(self, stop: int, /) -> int:
        return self.number % stop


class Node(msgspec.Struct):
    """A node on the table."""

    key: ReplicaKey
    disk: Disk
    dice: LoadedDice
    raft: RaftNode | None = None
    is_slow: bool = False
    """Its disk syncs only when it is told to."""
    serves: int = 100
    """How many records it puts into an answer."""
    fetched: list[Entry] = []
    part: list[Entry] = []


class Message(msgspec.Struct):
    """A request on its way, or the answer to one."""

    name: str
    sender: int
    to: int
    request_id: int
    request: Request
    response: Response | None = None
    entries: list[Entry] = []

    @property
    def receiver(self) -> int:
        return self.to if self.response is None else self.sender


class RaftTable(Stage):
    """What all commands are made of: nodes, messages, time."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._mail: dict[str, Message] = {}
        self._is_cut: set[int] = set()
        self._now_ms = 0
        self._sent = 0
        self._static_voters = NO_VOTERS

    def _make(self, node_id: int, voters: VoterSet, *, is_static: bool) -> Node:
        disk = Disk(bootstrap_voters=None if is_static else voters)
        if not is_static:
            disk.snapshots.append(BOOTSTRAP_SNAPSHOT)
        node = Node(key=ReplicaKey(node_id, UUID(int=node_id)), disk=disk, dice=LoadedDice(100 * node_id))
        self._nodes[node_id] = node
        return node

    def _start(self, node: Node) -> Iterator[str]:
        node.raft = RaftNode(
            node.key,
            CLUSTER,
            node.disk.restored(),
            dice=node.dice,
            config=RaftConfig(bootstrap_ids=tuple(self._nodes)[:1]),
            static_voters=self._static_voters,
        )
        yield from self._step(node, lambda raft: raft.start(self._now_ms))

    def _running(self, node_id: int) -> Node:
        node = self._nodes[node_id]
        assert node.raft is not None, f"node {node_id} is down"
        return node

    def _step(self, node: Node, action: Callable[[RaftNode], Output]) -> Iterator[str]:
        """One step of a node, and all that it asks for."""
        assert node.raft is not None
        before = type(node.raft.role).__name__
        try:
            output = action(node.raft)
        except BrokenQuorum as error:
            node.raft = None
            yield f"{node.key.node_id} stops: {error}"
            return
        yield from self._perform(node, node.raft, output, before)

    def _perform(self, node: Node, raft: RaftNode, output: Output, before: str) -> Iterator[str]:
        node_id = node.key.node_id
        after = type(raft.role).__name__
        if after != before:
            yield f"{node_id} becomes {after.lower()}"
        if output.persist is not None:
            node.disk.quorum = output.persist
            yield f"{node_id} persists {quorum_words(output.persist)}"
        for operation in output.operations:
            yield f"{node_id} {operation_words(operation)}"
            yield from self._operate(node, operation)
        for outgoing in output.requests:
            yield from self._post(node_id, outgoing)
        for reply in output.replies:
            message = reply.token
            if isinstance(message, Message):
                yield from self._answer(node, message, reply.response, reply.read_from)
            else:
                yield f"{node_id} answers: {response_words(reply.response)}"
        if output.high_watermark is not None:
            yield f"{node_id} knows that all below {output.high_watermark} is committed"
        for change in output.changes:
            yield f"{node_id} {change.token}: {'done' if change.error is None else change.error}"
        for stranger in output.strangers:
            others = ", as does everybody else" if stranger.is_everybody else ""
            yield f"{node_id} finds that {stranger.peer} belongs to another cluster{others}"
        for note in output.notes:
            yield f"{node_id} notes: {note}"

    def _operate(self, node: Node, operation: object) -> Iterator[str]:
        disk = node.disk
        if isinstance(operation, AppendControl):
            for record in operation.records:
                voters = record.voters if isinstance(record, Voters) else None
                disk.entries.append(Entry(operation.epoch, type(record).__name__, voters))
        elif isinstance(operation, AppendFetched):
            disk.entries += node.fetched[: operation.end_offset - operation.base_offset]
        elif isinstance(operation, Truncate):
            del disk.entries[operation.end_offset :]
            disk.durable_end = min(disk.durable_end, operation.end_offset)
        elif isinstance(operation, WriteSnapshotPart):
            node.part = node.fetched
        elif isinstance(operation, FinishSnapshot) and not node.is_slow:
            yield from self._finish(node, operation.snapshot)
        elif isinstance(operation, ResetToSnapshot):
            disk.entries[:] = node.part or disk.entries[: operation.snapshot.end_offset]
            disk.start_offset = disk.durable_end = operation.snapshot.end_offset
            if operation.snapshot not in disk.snapshots:
                disk.snapshots.append(operation.snapshot)

    def _finish(self, node: Node, snapshot: SnapshotId) -> Iterator[str]:
        voters = Disk(entries=node.part, bootstrap_voters=node.disk.bootstrap_voters).voters_at(snapshot.end_offset)
        yield from self._step(node, lambda raft: raft.snapshot_ready(snapshot, voters, now_ms=self._now_ms))

    def _sync(self, node: Node) -> Iterator[str]:
        """Sync the log of a node, if there is anything to sync."""
        disk, end_offset = node.disk, len(node.disk.entries)
        if disk.durable_end == end_offset:
            return
        disk.durable_end = end_offset
        epoch = disk.entries[-1].epoch
        yield from self._step(node, lambda raft: raft.flushed(end_offset, epoch=epoch, now_ms=self._now_ms))

    # Messages

    def _name(self) -> str:
        self._sent += 1
        return f"m{self._sent}"

    def _post(self, node_id: int, outgoing: OutgoingRequest) -> Iterator[str]:
        message = Message(
            name=self._name(), sender=node_id, to=outgoing.to, request_id=outgoing.request_id, request=outgoing.request
        )
        self._mail[message.name] = message
        yield f"{node_id} -> {outgoing.to} {message.name}: {request_words(outgoing.request)}"

    def _answer(self, node: Node, message: Message, response: Response, read_from: int | None) -> Iterator[str]:
        answer = msgspec.structs.replace(message, name=self._name())
        if isinstance(response, FetchResponse) and read_from is not None:
            answer.entries = node.disk.entries[read_from : read_from + node.serves]
            response = msgspec.structs.replace(response, batches=tuple(batches_of(read_from, answer.entries)))
        elif isinstance(response, FetchSnapshotResponse) and response.refusal is None:
            assert response.snapshot is not None
            answer.entries = node.disk.entries[: response.snapshot.end_offset]
            length_bytes = min(60, response.size_bytes - response.position)
            response = msgspec.structs.replace(response, length_bytes=length_bytes)
        answer.response = response
        self._mail[answer.name] = answer
        yield f"{message.to} -> {message.sender} {answer.name}: {response_words(response)}"

    def _carry(self, message: Message) -> Iterator[str]:
        """Bring a message to its receiver, unless one of the two is cut off or the receiver is down."""
        del self._mail[message.name]
        receiver = self._nodes.get(message.receiver)
        if {message.sender, message.to} & self._is_cut:
            return
        if receiver is None or receiver.raft is None:
            sender = self._nodes[message.sender]
            if message.response is None and sender.raft is not None:
                yield from self._step(
                    sender, lambda raft: raft.request_failed(message.to, message.request_id, now_ms=self._now_ms)
                )
            return
        response = message.response
        if response is None:
            yield from self._step(
                receiver,
                lambda raft: raft.receive(message.request, message, now_ms=self._now_ms, snapshot_size_bytes=100),
            )
        else:
            receiver.fetched = message.entries
            yield from self._step(
                receiver,
                lambda raft: raft.receive_response(message.to, message.request_id, response, now_ms=self._now_ms),
            )

    def _ask(self, node_id: int, request: Request) -> Iterator[str]:
        """A request from nowhere; its answer is printed."""
        yield from self._step(
            self._running(node_id),
            lambda raft: raft.receive(request, "hand", now_ms=self._now_ms, snapshot_size_bytes=100),
        )

    def _describe(self, *node_ids: int) -> Iterator[str]:
        for node_id in node_ids or tuple(self._nodes):
            node = self._nodes[node_id]
            yield f"{node_id} down" if node.raft is None else f"{node_id} {state_words(node.raft)}"


class RaftCommands(RaftTable):
    """The commands about nodes, time and messages."""

    def cluster(self, *voters: str, observers: str = "", static: bool = False) -> Iterator[str]:
        """``cluster VOTER... [observers=N,N] [static=yes]``: start these nodes; what they ask at once is lost."""
        ids = [int(voter) for voter in voters]
        keys = [ReplicaKey(node_id, None if static else UUID(int=node_id)) for node_id in ids]
        voter_set = VoterSet.of(Voter(key) for key in keys)
        self._static_voters = voter_set if static else NO_VOTERS
        for node_id in [*ids, *(int(one) for one in observers.split(",") if one)]:
            self._make(node_id, voter_set, is_static=static)
        for node in list(self._nodes.values()):
            yield from (line for line in self._start(node) if "->" not in line)
        self._mail.clear()
        self._sent = 0
        yield from self._describe()

    def state(self, *nodes: str) -> Iterator[str]:
        """``state [NODE...]``"""
        yield from self._describe(*(int(node) for node in nodes))

    def wait(self, node: int, ms: int) -> Iterator[str]:
        """``wait NODE MS``: time passes, and this node notices."""
        self._now_ms += ms
        yield from self._step(self._running(node), lambda raft: raft.tick(self._now_ms))

    def wait_quietly(self, ms: int) -> None:
        """``wait-quietly MS``: time passes, and nobody notices yet."""
        self._now_ms += ms

    def deliver(self, *names: str) -> Iterator[str]:
        """``deliver MESSAGE...``: these messages arrive, in this order."""
        for name in names:
            yield from self._carry(self._mail[name])

    def drop(self, *names: str) -> None:
        """``drop [MESSAGE...]``: these messages, or all, are lost."""
        for name in names or tuple(self._mail):
            del self._mail[name]

    def settle(self) -> Iterator[str]:
        """``settle``: all messages arrive and all logs are synced, until nothing is left to do."""
        for _ in range(200):
            slow = [node for node in self._nodes.values() if node.raft is not None and not node.is_slow]
            lines = [line for node in slow for line in self._sync(node)]
            yield from lines
            if not self._mail and not lines:
                return
            for message in list(self._mail.values()):
                if message.name in self._mail:
                    yield from self._carry(message)
        raise AssertionError("this does not come to an end")

    def settle_quietly(self) -> Iterator[str]:
        """``settle-quietly``: the same, and only where everybody is then is printed."""
        for _ in self.settle():
            pass
        yield from self._describe()

    def run_for(self, ms: int) -> Iterator[str]:
        """``run-for MS``: time passes for all, messages travel, logs are synced; only what nodes become is printed."""
        for _ in range(ms // 50):
            self._now_ms += 50
            for node in list(self._nodes.values()):
                if node.raft is not None:
                    lines = [*self._step(node, lambda raft: raft.tick(self._now_ms)), *self.settle()]
                    yield from (line for line in lines if " becomes " in line or " stops" in line)

    def carry(self, one: int, other: int) -> Iterator[str]:
        """``carry NODE NODE``: the messages between these two arrive, answers and what follows from them too."""
        for _ in range(50):
            found = [message for message in self._mail.values() if {message.sender, message.to} == {one, other}]
            if not found:
                return
            for message in found:
                yield from self._carry(message)
        raise AssertionError("this does not come to an end")

    def cut_off(self, *nodes: str) -> None:
        """``cut-off NODE...``: messages from and to these nodes are lost from now on."""
        self._is_cut.update(int(node) for node in nodes)

    def reconnect(self, *nodes: str) -> None:
        """``reconnect NODE...``"""
        self._is_cut.difference_update(int(node) for node in nodes)

    def crash(self, *nodes: str) -> None:
        """``crash NODE...``: stop, and lose what is not synced."""
        for node_id in map(int, nodes):
            node = self._running(node_id)
            node.raft = None
            del node.disk.entries[node.disk.durable_end :]
            self._mail = {name: one for name, one in self._mail.items() if node_id not in (one.sender, one.to)}

    def restart(self, node: int) -> Iterator[str]:
        """``restart NODE``"""
        assert self._nodes[node].raft is None
        yield from self._start(self._nodes[node])
        yield from self._describe(node)

    def slow_disk(self, node: int) -> None:
        """``slow-disk NODE``: nothing is synced there but by ``sync``."""
        self._nodes[node].is_slow = True

    def serve_at_most(self, node: int, count: int) -> None:
        """``serve-at-most NODE COUNT``: so many records are in an answer of this node."""
        self._nodes[node].serves = count

    def sync(self, node: int) -> Iterator[str]:
        """``sync NODE``: its log is on disk now."""
        yield from self._sync(self._running(node))

    def append(self, node: int, count: int = 1) -> Iterator[str]:
        """``append NODE [COUNT]``: the leader writes records."""
        one = self._running(node)
        raft = one.raft
        assert raft is not None
        epoch = raft.quorum.epoch
        raft.check_leads(epoch)
        one.disk.entries += [Entry(epoch, "record")] * count
        end_offset = len(one.disk.entries)
        yield from self._step(one, lambda raft: raft.appended(end_offset, epoch=epoch, now_ms=self._now_ms))

    def resign(self, node: int) -> Iterator[str]:
        """``resign NODE``: it is about to stop."""
        yield from self._step(self._running(node), lambda raft: raft.resign(now_ms=self._now_ms))

    def snapshot(self, node: int) -> Iterator[str]:
        """``snapshot NODE``: take one of all that is committed, and forget the log before it."""
        one = self._running(node)
        raft, disk = one.raft, one.disk
        assert raft is not None
        end_offset = raft.high_watermark
        taken = SnapshotId(end_offset, disk.entries[end_offset - 1].epoch)
        disk.snapshots[:] = [taken]
        disk.start_offset = end_offset
        voters = raft.voters.at(end_offset).node_ids
        yield f"{node} snapshot {taken.end_offset}-{taken.epoch} with voters {key_words(voters)}"
        yield from self._step(
            one, lambda raft: raft.snapshots_kept([taken], log_start_offset=end_offset, now_ms=self._now_ms)
        )

    def add_voter(self, node: int, voter: int) -> Iterator[str]:
        """``add-voter LEADER NODE``"""
        key = self._nodes[voter].key
        yield from self._step(
            self._running(node),
            lambda raft: raft.add_voter(Voter(key), f"add voter {voter}", now_ms=self._now_ms),
        )

    def remove_voter(self, node: int, voter: int) -> Iterator[str]:
        """``remove-voter LEADER NODE``"""
        key = ReplicaKey(voter, UUID(int=voter))
        yield from self._step(
            self._running(node),
            lambda raft: raft.remove_voter(key, f"remove voter {voter}", now_ms=self._now_ms),
        )

    def update_voter(self, node: int, voter: int, *, port: int) -> Iterator[str]:
        """``update-voter LEADER NODE port=PORT``"""
        changed = Voter(ReplicaKey(voter, UUID(int=voter)), (VoterEndpoint("CONTROLLER", f"node{voter}", port),))
        yield from self._step(
            self._running(node),
            lambda raft: raft.update_voter(changed, f"update voter {voter}", now_ms=self._now_ms),
        )

    def answer_fetch(
        self, name: str, *, epoch: int, leader: int, diverging: str = "", snapshot: str = "", hw: int = -1
    ) -> Iterator[str]:
        """``answer-fetch MESSAGE epoch=E leader=N [diverging=EPOCH@END] [snapshot=END-EPOCH] [hw=H]``: by hand."""
        message = self._mail.pop(name)
        assert isinstance(message.request, FetchRequest)
        at = [int(part) for part in diverging.split("@")] if diverging else None
        of = [int(part) for part in snapshot.split("-")] if snapshot else None
        response = FetchResponse(
            epoch=epoch,
            leader_id=leader,
            high_watermark=hw,
            diverging=EpochEnd(*at) if at else None,
            snapshot=SnapshotId(*of) if of else None,
        )
        yield from self._step(
            self._running(message.sender),
            lambda raft: raft.receive_response(message.to, message.request_id, response, now_ms=self._now_ms),
        )
