"""A partition on a few nodes, with the real decisions: leader, followers, and a controller that is always there.

Messages travel when they are told to, and may be lost. A node hears of the metadata late. A crash loses what is not
synced. After every step `check` compares what must hold with what is: the invariants of a replicated log.
"""

from collections.abc import Sequence
from uuid import UUID

from barnabas.core.errors import BarnabasError, FencedLeaderEpoch, NotLeaderOrFollower, OffsetOutOfRange
from barnabas.core.metadata import Image, NewTopic, create_topic
from barnabas.core.metadata.brokers import Heartbeat, Registration, fence, heartbeat, register
from barnabas.core.metadata.image import PartitionState
from barnabas.core.metadata.isr import IsrChange, alter_partitions
from barnabas.core.metadata.reassignments import alter
from barnabas.core.metadata.records import MIN_INSYNC_REPLICAS, NO_LEADER, Endpoint, MetadataRecord
from barnabas.core.replica.follower import (
    Action,
    Append,
    AskOffsets,
    FetchAnswer,
    FetchedBatch,
    Follower,
    Reset,
    Retry,
    Truncate,
)
from barnabas.core.replica.leader import Leader
from tests.unit.core.replica.partition_parts import (
    AnswerMail,
    Disk,
    Entry,
    FetchMail,
    Mail,
    Node,
    ProposalMail,
    View,
    Write,
    diverging_end,
    holds,
    words,
)

TOPIC = UUID(int=1)
SERVED = 2  # records in an answer


class World:
    """The cluster, and what is known to be true about it."""

    def __init__(self, nodes: int = 3, *, min_insync_replicas: int = 2, replicas: int | None = None) -> None:
        self.image = Image()
        self.nodes = {node_id: Node(node_id, Disk()) for node_id in range(1, nodes + 1)}
        self.mail: list[Mail] = []
        self.now_ms = 0
        self.views: list[View] = []
        self.said: list[str] = []
        self.acked: list[tuple[int, Entry]] = []
        self.committed: list[Entry] = []
        self._offset = 0
        self._leaders: dict[int, int] = {}
        for node in self.nodes.values():
            self._register(node)
        topic = NewTopic(
            "t", assignments={0: tuple(self.nodes)[:replicas]}, configs={MIN_INSYNC_REPLICAS: str(min_insync_replicas)}
        )
        for node_id in self.nodes:
            self._beat(node_id)
        self.min_insync_replicas = min_insync_replicas
        self._commit(create_topic(self.image, topic, topic_id=TOPIC).records)
        for node_id in self.nodes:
            self.hear(node_id)

    # The controller

    @property
    def state(self) -> PartitionState:
        return self.image.get_topic("t").get_partition(0)

    def _commit(self, records: object) -> None:
        assert isinstance(records, list | tuple)
        for record in records:
            self._apply(record)
        self._offset += len(records)
        if "t" in self.image.topics:
            active = {node_id: node.epoch for node_id, node in self.image.nodes.items() if node.is_active}
            self.views.append(View(self.state, active))

    def _apply(self, record: MetadataRecord) -> None:
        self.image.apply(record)

    def _register(self, node: Node) -> None:
        self._offset += 1
        registration = Registration(
            node_id=node.node_id,
            incarnation=UUID(int=100 * node.node_id + node.life),
            directory_id=UUID(int=100 * node.node_id + len(node.replaced)),
            endpoints=(Endpoint("PLAINTEXT", "h", node.node_id),),
        )
        decision = register(self.image, registration, epoch=self._offset, has_session=False)
        self._commit(decision.records)
        node.broker_epoch = decision.reply

    def _beat(self, node_id: int) -> None:
        node = self.nodes[node_id]
        beat = Heartbeat(node_id=node_id, epoch=node.broker_epoch, metadata_offset=self._offset + 1000)
        self._commit(heartbeat(self.image, beat, is_known_to_leave=False).records)

    def fence(self, node_id: int) -> None:
        """The session of a node ends, whether it runs or not."""
        if not self.image.nodes[node_id].is_fenced:
            self._commit(fence(self.image, node_id).records)

    def let_in(self, node_id: int) -> None:
        """A node that runs sends a heartbeat."""
        if self.nodes[node_id].is_up and self.image.nodes[node_id].is_fenced:
            self._beat(node_id)

    def move(self, target: Sequence[int] | None) -> None:
        """Move the partition to these nodes; None cancels."""
        self._commit(alter(self.image, "t", 0, target).records)

    # Nodes

    def crash(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if node.is_up:
            node.is_up, node.role, node.writes = False, None, []
            node.disk.lose_power()
            node.high_watermark = node.disk.high_watermark

    def restart(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if not node.is_up:
            node.is_up, node.life = True, node.life + 1
            self._register(node)

    def replace_disk(self, node_id: int) -> None:
        """A node starts again with an empty disk. Only if somebody else has everything: else it is lost in truth."""
        node = self.nodes[node_id]
        if set(self.state.isr) | set(self.state.elr) <= {node_id}:
            return
        self.crash(node_id)
        node.replaced.append(node.disk)
        node.disk, node.high_watermark = Disk(), 0
        self.restart(node_id)

    def hear(self, node_id: int, versions: int = 1_000_000) -> None:
        """A node catches up by so many versions of the metadata, and takes its role in the last of them."""
        node = self.nodes[node_id]
        if node.is_up:
            known = min(node.known + versions, len(self.views))
            if known > node.known:
                node.known = known
                self._take_role(node, self.views[known - 1])

    def _take_role(self, node: Node, view: View) -> None:
        state, role, disk = view.state, node.role, node.disk
        if state.leader == node.node_id and node.broker_epoch == view.active.get(node.node_id):
            if not isinstance(role, Leader) or role.epoch != state.leader_epoch:
                role = node.role = self._new_leader(node, state)
            role.note_active(view.active)
            role.note_isr(
                isr=state.isr, replicas=state.replicas, partition_epoch=state.partition_epoch, now_ms=self.now_ms
            )
            self._settle(node, role)
        elif node.node_id not in state.replicas:
            self._delete_log(node)
        elif state.leader in (NO_LEADER, node.node_id):
            node.role, node.writes = None, []
        elif not isinstance(role, Follower) or role.epoch != state.leader_epoch:
            node.writes = []
            node.role = Follower(
                epoch=state.leader_epoch,
                epochs=disk.epochs,
                start_offset=disk.start,
                end_offset=disk.end,
                durable_end_offset=disk.durable_end,
                high_watermark=node.high_watermark,
            )

    def _delete_log(self, node: Node) -> None:
        """The partition has moved away from a node."""
        node.replaced.append(node.disk)
        node.disk, node.high_watermark, node.role, node.writes = Disk(), 0, None, []

    def _new_leader(self, node: Node, state: PartitionState) -> Leader:
        disk = node.disk
        disk.epochs.assign(state.leader_epoch, disk.end)
        node.writes = []
        leader = Leader(
            node.node_id,
            epoch=state.leader_epoch,
            start_offset=disk.end,
            high_watermark=node.high_watermark,
            replicas=state.replicas,
            isr=state.isr,
            partition_epoch=state.partition_epoch,
            min_insync_replicas=self.min_insync_replicas,
            now_ms=self.now_ms,
        )
        leader.note_own(end_offset=disk.end, durable_end_offset=disk.durable_end)
        assert self._leaders.setdefault(state.leader_epoch, node.node_id) == node.node_id, "two leaders in one epoch"
        return leader

    def write(self, node_id: int, value: str, *, is_acked: bool = True) -> None:
        """A client writes to a node that believes to lead, with acks=all or, if not `is_acked`, with acks=1."""
        node = self.nodes[node_id]
        if isinstance(node.role, Leader):
            if is_acked:
                node.role.check_in_sync()
                node.writes.append(Write(node.disk.end + 1, node.role.epoch, value))
            node.disk.append([Entry(node.role.epoch, value)])
            node.role.note_own(end_offset=node.disk.end, durable_end_offset=node.disk.durable_end)

    def sync(self, node_id: int) -> None:
        """The disk of a node is done with all that was written."""
        node = self.nodes[node_id]
        if not node.is_up:
            return
        disk, role = node.disk, node.role
        disk.durable_end, disk.high_watermark = disk.end, node.high_watermark
        if isinstance(role, Leader):
            role.note_own(end_offset=disk.end, durable_end_offset=disk.durable_end)
            self._settle(node, role)
        elif role is not None:
            role.note_flushed(disk.end, generation=role.generation)

    def delete_records(self, node_id: int) -> None:
        """The leader removes the oldest record that is committed."""
        node = self.nodes[node_id]
        if isinstance(node.role, Leader) and node.disk.start < node.role.high_watermark <= node.disk.durable_end:
            node.disk.start += 1
            node.disk.epochs.truncate_before(node.disk.start)

    def _settle(self, node: Node, leader: Leader) -> None:
        """Acknowledge what is acknowledged, and note what is committed."""
        node.high_watermark = leader.high_watermark
        for offset in range(len(self.committed), node.high_watermark):
            self.committed.append(node.disk.entries[offset])
        for write in [each for each in node.writes if leader.is_acked(each.end_offset, leader_epoch=each.epoch)]:
            node.writes.remove(write)
            entry = Entry(write.epoch, write.value)
            self.acked.append((write.end_offset - 1, entry))
            # A disk that was thrown away after its node had told that it has the record counts: nobody could know.
            holders = [
                other
                for other in self.nodes.values()
                if any(holds(disk, write.end_offset - 1, entry) for disk in (other.disk, *other.replaced))
            ]
            needed = min(self.min_insync_replicas, len(leader._followers) + 1)
            assert len(holders) >= needed, f"{write} is acknowledged and on {len(holders)} disks"

    # Messages

    def fetch(self, node_id: int) -> None:
        """A follower fetches, if it may."""
        node = self.nodes[node_id]
        if isinstance(node.role, Follower):
            fetch = node.role.next_fetch()
            if fetch is None and node.role.owes_durable_end:
                fetch = node.role.replace_fetch()
            leader = self.views[node.known - 1].state.leader
            if fetch is not None:
                self.mail.append(FetchMail(node_id, node.life, node.broker_epoch, leader, fetch))

    def propose(self, node_id: int, *, after_ms: int = 0) -> None:
        """A leader proposes another ISR, or repeats what it has proposed."""
        node = self.nodes[node_id]
        self.now_ms += after_ms
        if isinstance(node.role, Leader):
            proposal = node.role.propose(now_ms=self.now_ms) or node.role.proposal
            self._settle(node, node.role)
            if proposal is not None:
                self.mail.append(ProposalMail(node_id, node.life, node.broker_epoch, proposal))

    def deliver(self, index: int) -> None:
        mail = self.mail.pop(index)
        if isinstance(mail, FetchMail):
            self._deliver_fetch(mail)
        elif isinstance(mail, AnswerMail):
            self._deliver_answer(mail)
        else:
            self._deliver_proposal(mail)

    def lose(self, index: int) -> None:
        mail = self.mail.pop(index)
        if isinstance(mail, FetchMail | AnswerMail):
            asker = self.nodes[mail.sender if isinstance(mail, FetchMail) else mail.to]
            if isinstance(asker.role, Follower) and asker.life == mail.life:
                asker.role.give_up(mail.fetch)

    def _deliver_fetch(self, mail: FetchMail) -> None:
        leader = self.nodes[mail.to]
        if leader.is_up:
            try:
                answer, entries = self._serve(leader, mail)
            except BarnabasError as error:
                answer, entries = FetchAnswer(error=error), []
            self.mail.append(AnswerMail(mail.to, mail.sender, mail.life, mail.fetch, answer, entries))
        else:
            self.mail.append(mail)
            self.lose(len(self.mail) - 1)

    def _serve(self, node: Node, mail: FetchMail) -> tuple[FetchAnswer, list[Entry]]:
        role, disk, fetch = node.role, node.disk, mail.fetch
        if not isinstance(role, Leader):
            raise NotLeaderOrFollower("not the leader")
        role.check_epoch(fetch.leader_epoch)
        diverging = diverging_end(disk, fetch)
        if diverging is not None:
            return FetchAnswer(role.high_watermark, disk.start, diverging=diverging), []
        if not disk.start <= fetch.fetch_offset <= disk.end:
            error = OffsetOutOfRange(f"{fetch.fetch_offset} is not in {disk.start}..{disk.end}")
            return FetchAnswer(log_start_offset=disk.start, error=error), []
        role.note_fetch(
            mail.sender,
            leader_epoch=fetch.leader_epoch,
            log_end_offset=fetch.fetch_offset,
            durable_end_offset=fetch.durable_end_offset,
            broker_epoch=mail.broker_epoch,
            now_ms=self.now_ms,
        )
        self._settle(node, role)
        entries = disk.entries[fetch.fetch_offset : fetch.fetch_offset + SERVED]
        batches = [
            FetchedBatch(offset, offset + 1, entry.epoch) for offset, entry in enumerate(entries, fetch.fetch_offset)
        ]
        return FetchAnswer(role.high_watermark, disk.start, batches), entries

    def _deliver_answer(self, mail: AnswerMail) -> None:
        node = self.nodes[mail.to]
        if node.is_up and node.life == mail.life and isinstance(node.role, Follower):
            self._perform(node, node.role, node.role.receive(mail.fetch, mail.answer), mail.entries)

    def _perform(self, node: Node, follower: Follower, action: Action, entries: list[Entry]) -> None:
        disk = node.disk
        self.said.append(f"{node.node_id} {words(action)}")
        if isinstance(action, Append):
            disk.append(entries)
            follower.note_appended(disk.end)
        elif isinstance(action, Truncate):
            assert not action.loses_committed, "committed records are truncated"
            disk.truncate(action.end_offset)
            follower.note_truncated(disk.end)
        elif isinstance(action, Reset):
            assert not action.loses_committed, "committed records are removed"
            disk.reset(action.start_offset)
            follower.note_reset()
        elif isinstance(action, AskOffsets):
            leader = self.nodes[self.views[node.known - 1].state.leader].disk
            self._perform(
                node, follower, follower.note_leader_offsets(start_offset=leader.start, end_offset=leader.end), []
            )
        elif isinstance(action, Retry):
            assert not action.is_wrong, action.reason
        node.high_watermark = follower.high_watermark
        disk.start = follower.start_offset
        disk.epochs.truncate_before(disk.start)

    def _deliver_proposal(self, mail: ProposalMail) -> None:
        proposal, node = mail.proposal, self.nodes[mail.sender]
        change = IsrChange(TOPIC, 0, proposal.leader_epoch, proposal.partition_epoch, proposal.isr)
        try:
            decision = alter_partitions(self.image, mail.sender, broker_epoch=mail.broker_epoch, changes=[change])
        except BarnabasError as error:
            self.said.append(f"the controller refuses, {type(error).__name__}: {error}")
            return
        self._commit(decision.records)
        (reply,) = decision.reply
        if isinstance(reply, BarnabasError):
            self.said.append(f"the controller refuses, {type(reply).__name__}: {reply}")
        else:
            self.said.append(f"the ISR is {list(reply.isr)}, the ELR {list(reply.elr)}")
        is_refused = isinstance(reply, BarnabasError) and not isinstance(reply, FencedLeaderEpoch)
        if is_refused and node.life == mail.life and isinstance(node.role, Leader):
            if proposal.partition_epoch == self.state.partition_epoch:  # certainly: nothing has come of it
                node.role.refuse(proposal)
            self._settle(node, node.role)

    # What must hold

    def check(self) -> None:
        """Everything that must hold after every step."""
        state = self.state
        assert not set(state.isr) & set(state.elr), "ISR and ELR overlap"
        assert set(state.isr) | set(state.elr) <= set(state.replicas)
        assert state.leader == NO_LEADER or state.leader in state.isr
        for node_id in (*state.isr, *state.elr):
            for offset, entry in self.acked:
                assert holds(self.nodes[node_id].disk, offset, entry), f"{entry} is not on the disk of {node_id}"
        for node in self.nodes.values():
            assert node.high_watermark <= node.disk.end
            assert node.high_watermark <= len(self.committed), "a watermark above all that leaders had"
            for offset in range(node.disk.start, node.high_watermark):
                assert node.disk.entries[offset] == self.committed[offset], f"node {node.node_id} differs at {offset}"
        for node in self.nodes.values():
            if isinstance(node.role, Leader) and node.role.epoch == state.leader_epoch:
                held = node.disk.entries[node.disk.start : len(self.committed)]
                assert held == self.committed[node.disk.start :], "the leader lacks committed records"

    def heal(self) -> None:
        """Everything runs and travels again, and comes to rest with equal logs."""
        self.mail.clear()
        for node in self.nodes.values():
            self.restart(node.node_id)
            if isinstance(node.role, Follower) and node.role._fetch is not None:
                node.role.give_up(node.role._fetch)
        for _ in range(60):
            for node_id in self.nodes:
                self.let_in(node_id)
                self.hear(node_id)
                self.fetch(node_id)
                self.propose(node_id, after_ms=10)
                while self.mail:
                    self.deliver(0)
                self.sync(node_id)
            self.check()
        assert self.state.leader != NO_LEADER, "nobody leads"
        assert not self.state.is_being_reassigned, "a move does not end"
        assert set(self.state.isr) == set(self.state.replicas), f"{self.state.isr} are in sync"
        replicas = [self.nodes[node_id] for node_id in self.state.replicas]
        ends = {(node.disk.end, node.high_watermark) for node in replicas}
        assert len(ends) == 1, f"logs end at {sorted(ends)}"
        assert all(end == high_watermark for end, high_watermark in ends)
        self.check()
