"""The stage for scenarios of a replicated partition: nodes on a table, and a person who carries the messages.

Messages are named when they are sent (m1, m2, ...) and travel when they are told to. A node hears of the metadata when
it is told to; its disk syncs when it is told to. What a follower decides is printed, and every step is checked against
what must hold of any replicated log.
"""

from collections.abc import Iterator

from barnabas.core.metadata.elections import elect_preferred, elect_unclean
from barnabas.core.metadata.records import NO_LEADER, RECOVERING
from barnabas.core.metadata.topics import set_configs
from barnabas.core.replica.follower import FetchAnswer, Follower
from barnabas.core.replica.leader import Leader
from tests.scenarios.transcript import Stage
from tests.unit.core.replica.partition_parts import AnswerMail, FetchMail, Mail, Node
from tests.unit.core.replica.partition_world import World


class ReplicaStage(Stage):
    """One partition, ``t-0``."""

    def __init__(self) -> None:
        self._world = World()
        self._named: dict[str, Mail] = {}

    # The world

    def cluster(self, nodes: int, *, min: int = 2) -> Iterator[str]:  # noqa: A002 - a word of the transcripts
        """``cluster NODES [min=N]``: nodes 1 to N, all in sync, with `min.insync.replicas`."""
        self._world = World(nodes, min_insync_replicas=min)
        yield from self.state()

    def state(self, *nodes: str) -> Iterator[str]:
        """``state [NODE...]``: the partition as the controller knows it, and these nodes."""
        yield self._partition()
        yield from (self._node(self._world.nodes[int(node)]) for node in nodes or map(str, self._world.nodes))

    def write(self, node: int, *values: str, acks: str = "all") -> Iterator[str]:
        """``write NODE VALUE... [acks=1]``: clients write to a node."""
        for value in values:
            self._world.write(node, value, is_acked=acks == "all")
        yield from self._after()

    def sync(self, *nodes: str) -> Iterator[str]:
        """``sync NODE...``: the disks of these nodes are done."""
        for node in nodes:
            self._world.sync(int(node))
        yield from self._after()

    def crash(self, *nodes: str) -> Iterator[str]:
        """``crash NODE...``: these nodes lose power, and what was not synced. The controller does not know yet."""
        for node in nodes:
            self._world.crash(int(node))
        yield from self._after()

    def start(self, *nodes: str) -> Iterator[str]:
        """``start NODE...``: these nodes start again and register, each fenced by that."""
        for node in nodes:
            self._world.restart(int(node))
        yield self._partition()
        yield from self._after()

    def replace_disk(self, node: int) -> Iterator[str]:
        """``replace-disk NODE``: a node starts again with an empty disk."""
        self._world.replace_disk(node)
        yield self._partition()
        yield from self._after()

    def fence(self, *nodes: str) -> Iterator[str]:
        """``fence NODE...``: the sessions of these nodes end."""
        for node in nodes:
            self._world.fence(int(node))
        yield self._partition()
        yield from self._after()

    def let_in(self, *nodes: str) -> Iterator[str]:
        """``let-in NODE...``: fenced nodes send a heartbeat."""
        for node in nodes:
            self._world.let_in(int(node))
        yield self._partition()
        yield from self._after()

    def elect(self, *, unclean: bool = False) -> Iterator[str]:
        """``elect [unclean=yes]``: an operator asks for the preferred leader, or for any."""
        decide = elect_unclean if unclean else elect_preferred
        self._world._commit(decide(self._world.image, "t", 0).records)
        yield self._partition()
        yield from self._after()

    def set_min(self, value: int) -> Iterator[str]:
        """``set-min N``: `min.insync.replicas` of the topic."""
        self._world._commit(set_configs(self._world.image, 2, "t", {"min.insync.replicas": str(value)}).records)
        yield self._partition()

    def set_flush(self, policy: str) -> Iterator[str]:
        """``set-flush fsync|os``: `flush.policy` of the topic."""
        self._world._commit(set_configs(self._world.image, 2, "t", {"flush.policy": policy}).records)
        yield self._partition()

    def hear(self, *nodes: str, versions: int = 1000) -> Iterator[str]:
        """``hear NODE... [versions=N]``: these nodes hear of the metadata, or of the next versions alone."""
        for node in nodes:
            self._world.hear(int(node), versions)
            yield self._node(self._world.nodes[int(node)])
        yield from self._after()

    def delete(self, node: int) -> None:
        """``delete NODE``: the leader removes the oldest record."""
        self._world.delete_records(node)

    def wait(self, ms: int) -> None:
        """``wait MS``: time passes."""
        self._world.now_ms += ms

    # Messages

    def fetch(self, *nodes: str) -> Iterator[str]:
        """``fetch NODE...``: these followers fetch, if they may."""
        for node in nodes:
            self._world.fetch(int(node))
        yield from self._after()

    def propose(self, node: int) -> Iterator[str]:
        """``propose NODE``: a leader proposes another ISR, or repeats that."""
        self._world.propose(node)
        yield from self._after()

    def deliver(self, *names: str) -> Iterator[str]:
        """``deliver MESSAGE...``: these messages arrive, in this order."""
        for name in names:
            self._world.deliver(self._index(name))
            yield from self._after()

    def lose(self, *names: str) -> None:
        """``lose MESSAGE...``: these messages are lost."""
        for name in names:
            self._world.lose(self._index(name))

    def follow(self, *nodes: str, rounds: int = 1) -> Iterator[str]:
        """``follow NODE... [rounds=N]``: these followers fetch, and sync what they get; only decisions are printed."""
        for _ in range(rounds):
            for node in nodes:
                self._world.fetch(int(node))
                self._world.deliver(len(self._world.mail) - 1)
                self._world.deliver(len(self._world.mail) - 1)
                self._world.sync(int(node))
        yield from self._said()

    def heal(self) -> Iterator[str]:
        """``heal``: everything runs and travels; all logs are equal in the end."""
        self._world.heal()
        self._world.said.clear()
        self._world.mail.clear()
        yield from self.state()

    # Words

    def _index(self, name: str) -> int:
        return next(index for index, mail in enumerate(self._world.mail) if mail is self._named[name])

    def _after(self) -> Iterator[str]:
        self._world.check()
        yield from self._said()
        for mail in self._world.mail:
            if not any(mail is each for each in self._named.values()):
                name = f"m{len(self._named) + 1}"
                self._named[name] = mail
                yield f"{name}: {_mail_words(mail)}"

    def _said(self) -> Iterator[str]:
        yield from self._world.said
        self._world.said.clear()

    def _partition(self) -> str:
        state = self._world.state
        leader = "no leader" if state.leader == NO_LEADER else f"leader {state.leader}"
        last = f", last led by {state.last_known_elr[0]}" if state.last_known_elr else ""
        recovering = ", recovering" if state.recovery_state == RECOVERING else ""
        isr, elr = " ".join(map(str, state.isr)) or "none", " ".join(map(str, state.elr)) or "none"
        return f"t-0: {leader} in epoch {state.leader_epoch}, ISR {isr}, ELR {elr}{last}{recovering}"

    def _node(self, node: Node) -> str:
        disk = node.disk
        log = " ".join(f"{entry.value}/{entry.epoch}" for entry in disk.entries[disk.start :]) or "empty"
        start = f" from {disk.start}" if disk.start else ""
        unsynced = f", synced to {disk.durable_end}" if disk.durable_end < disk.end else ""
        role = "idle" if node.is_up else "down"
        if isinstance(node.role, Leader):
            acked = sum(1 for _, entry in self._world.acked if entry.epoch == node.role.epoch)
            role = f"leads in epoch {node.role.epoch}, {acked} acknowledged"
        elif isinstance(node.role, Follower):
            role = f"follows in epoch {node.role.epoch}"
        return f"{node.node_id} {role}: {log}{start}{unsynced}; watermark {node.high_watermark}"


def _mail_words(mail: Mail) -> str:
    if isinstance(mail, FetchMail):
        fetch = mail.fetch
        durable = f", synced to {fetch.durable_end_offset}" if fetch.durable_end_offset < fetch.fetch_offset else ""
        return (
            f"{mail.sender} -> {mail.to} fetch from {fetch.fetch_offset}{durable}, last epoch "
            f"{fetch.last_fetched_epoch}, in epoch {fetch.leader_epoch}"
        )
    if isinstance(mail, AnswerMail):
        return f"{mail.sender} -> {mail.to} {_answer_words(mail.answer)}"
    isr = " ".join(f"{node}@{epoch}" for node, epoch in mail.proposal.isr)
    return f"{mail.sender} -> controller ISR {isr}, in epoch {mail.proposal.leader_epoch}"


def _answer_words(answer: FetchAnswer) -> str:
    if answer.error is not None:
        return f"refused, {type(answer.error).__name__}"
    if answer.diverging is not None:
        diverging = answer.diverging
        return f"epoch {diverging.epoch} ended at {diverging.end_offset}; watermark {answer.high_watermark}"
    what = f"{answer.batches[0].base_offset}..{answer.batches[-1].end_offset}" if answer.batches else "nothing new"
    return f"{what}; watermark {answer.high_watermark}"
