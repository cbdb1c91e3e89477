"""Moving replicas: plans are shown, and carried out a few partitions at a time, with progress."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from barnabas.cli import output
from barnabas.cli.cluster.electing import elect, misled, some
from barnabas.client.cluster_admin import ClusterAdmin, ClusterInfo
from barnabas.client.contact import reach
from barnabas.client.replica_admin import ReassignmentInfo, ReplicaAdmin, Throttles
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError
from barnabas.core.metadata.rebalancing import Move, PartitionReplicas, Racks, empty_node, rebalance, with_factor
from barnabas.core.model import TopicPartition

POLL_S: Final = 0.5
NAMED: Final = 3


class _FilePartition(msgspec.Struct):
    """A partition in the file of `kafka-reassign-partitions.sh`."""

    topic: str
    partition: int
    replicas: list[int]
    log_dirs: list[str] | None = None


class _File(msgspec.Struct):
    """That file."""

    partitions: list[_FilePartition]
    version: int = 1


class Moves(Protocol):
    """What carries out moves: `ReplicaAdmin`."""

    def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Begin to move partitions."""
        ...

    def reassignments(self) -> list[ReassignmentInfo]:
        """The moves under way."""
        ...

    def elect_preferred(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Have preferred leaders lead; returns the partitions where they cannot."""
        ...

    def throttle(self, topics: Sequence[str], rate: int) -> Throttles:
        """Have replicas that are not in sync copied at so many bytes a second; returns what was set before."""
        ...

    def restore(self, before: Throttles) -> None:
        """Set what was set before."""
        ...


class Mover:
    """Plans for one cluster, and their execution."""

    def __init__(self, bootstrap: str) -> None:
        reach(bootstrap)
        settings = Settings(bootstrap, "barnabas-cli")
        self._cluster = ClusterAdmin(settings)
        self._replicas = ReplicaAdmin(settings)

    def plan_rebalance(self) -> list[Move]:
        """Even over nodes and racks."""
        info = self._cluster.describe()
        fenced = [each.node_id for each in info.brokers if each.is_fenced]
        if fenced:
            raise BarnabasError(
                f"node {fenced[0]} does not run: start it first, or move everything off it with 'barnabas cluster "
                f"decommission {fenced[0]}'"
            )
        self._check_nothing_moves()
        return rebalance(placed_in(info), racks_of(info))

    def plan_decommission(self, node_id: int) -> list[Move]:
        """Off a node, which need not run if others have what it holds."""
        info = self._cluster.describe()
        if node_id not in {each.node_id for each in info.brokers}:
            known = ", ".join(str(each.node_id) for each in info.brokers)
            raise BarnabasError(f"the cluster has no broker {node_id}: it has {known}")
        self._check_nothing_moves()
        check_can_be_copied(info, node_id)
        return empty_node(placed_in(info), racks_of(info), node_id)

    def is_running(self, node_id: int) -> bool:
        """Whether a broker is registered and not fenced."""
        return any(each.node_id == node_id and not each.is_fenced for each in self._cluster.describe().brokers)

    def plan_factor(self, topic: str, factor: int) -> list[Move]:
        """More or fewer replicas of a topic."""
        info = self._cluster.describe()
        partitions = placed_in(info)
        if not any(each.topic == topic for each in partitions):
            raise BarnabasError(f"topic '{topic}' does not exist")
        self._check_nothing_moves()
        return with_factor(partitions, racks_of(info), topic, factor)

    def plan_file(self, path: Path) -> list[Move]:
        """What a file of `kafka-reassign-partitions.sh` says; what is so already is left out."""
        before = {
            TopicPartition(each.topic, each.partition): each.replicas for each in placed_in(self._cluster.describe())
        }
        moves = []
        for each in read_file(path):
            key = TopicPartition(each.topic, each.partition)
            if key not in before:
                raise BarnabasError(f"{path}: partition {key} does not exist")
            if before[key] != tuple(each.replicas):
                moves.append(Move(each.topic, each.partition, before[key], tuple(each.replicas)))
        return moves

    def _check_nothing_moves(self) -> None:
        """Refuse to plan while partitions are moved: what is being copied would count as a replica."""
        under_way = self._replicas.reassignments()
        if under_way:
            names = _some([str(each.partition) for each in under_way])
            raise BarnabasError(
                f"{len(under_way)} {_noun(under_way)} being moved ({names}): wait until that is done, or cancel it "
                "with 'barnabas cluster reassign --cancel'"
            )

    def cancel(self) -> int:
        """Cancel all moves that are under way; returns how many."""
        under_way = self._replicas.reassignments()
        if under_way:
            self._replicas.reassign({each.partition: None for each in under_way})
            self._replicas.unthrottle(sorted({each.partition.topic for each in under_way}))
        return len(under_way)

    def lead_evenly(self, *, dry_run: bool) -> None:
        """Have preferred leaders lead, of all partitions; one that is not in sync yet does so later."""
        partitions = misled(self._cluster.describe())
        if not partitions:
            return
        if dry_run:
            output.say(f"leaders to elect: {len(partitions)} ({some(partitions)})")
            return
        try:
            elect(self._replicas, partitions)
        except BarnabasError as refusal:
            output.warn(f"{refusal}; what is moved stays so")

    def carry_out(self, moves: Sequence[Move], *, at_once: int, throttle: int | None = None) -> None:
        """Have partitions moved, so many at once; returns when all are where they are to be."""
        carry_out(self._replicas, moves, at_once=at_once, throttle=throttle)
        there = {(each.topic, each.partition): each.replicas for each in placed_in(self._cluster.describe())}
        missed = [each for each in moves if set(there.get((each.topic, each.partition), ())) != set(each.after)]
        if missed:
            raise BarnabasError(
                f"{len(missed)} partitions are not where they were to be, as somebody else moved or deleted them: "
                f"{_some([f'{each.topic}-{each.partition}' for each in missed])}"
            )


def check_can_be_copied(info: ClusterInfo, node_id: int) -> None:
    """Refuse to move everything off a node that does not run, and of whose partitions nobody else has all records."""
    if any(each.node_id == node_id and not each.is_fenced for each in info.brokers):
        return
    lost = info.only_on(node_id)
    if lost:
        raise BarnabasError(
            f"node {node_id} does not run, and has the only replica in sync of {len(lost)} partition(s) "
            f"({_some(lost)}): start it first; if it is lost for good, delete these topics, or go on with what other "
            "replicas have: 'barnabas cluster elect-leaders --unclean'"
        )


def carry_out(
    admin: Moves,
    moves: Sequence[Move],
    *,
    at_once: int,
    throttle: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Have partitions moved a few at a time, then have their preferred leaders lead.

    With `throttle` no broker sends or fetches more bytes a second for that. What is under way when this is interrupted
    stays throttled.
    """
    topics = sorted({each.topic for each in moves})
    if throttle is None or not moves:
        _move(admin, moves, at_once=at_once, sleep=sleep)
    else:
        before = admin.throttle(topics, throttle)
        try:
            _move(admin, moves, at_once=at_once, sleep=sleep)
        except (KeyboardInterrupt, BarnabasError):
            output.warn("what is under way stays throttled: run the command again, or cancel it with --cancel")
            raise
        admin.restore(before)
    led_by_others = (
        admin.elect_preferred([TopicPartition(each.topic, each.partition) for each in moves]) if moves else []
    )
    if led_by_others:
        names = _some([str(each) for each in led_by_others])
        output.warn(f"{len(led_by_others)} of them are not led by their preferred leader yet: {names}")


def _move(admin: Moves, moves: Sequence[Move], *, at_once: int, sleep: Callable[[float], None]) -> None:
    for first in range(0, len(moves), at_once):
        some = {TopicPartition(each.topic, each.partition): each for each in moves[first : first + at_once]}
        admin.reassign({key: move.after for key, move in some.items()})
        while any(each.partition in some for each in admin.reassignments()):
            sleep(POLL_S)
        output.say(f"{first + len(some)} of {len(moves)} partitions moved")


def read_file(path: Path) -> list[_FilePartition]:
    """The partitions of a file in the format of `kafka-reassign-partitions.sh`."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise BarnabasError(f"cannot read {path}: {error.strerror}") from None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BarnabasError(
            f'{path}: {error}; expected {{"version": 1, "partitions": [{{"topic": "a", "partition": 0, "replicas": '
            "[1, 2]}]}"
        ) from None
    return found.partitions


def print_plan(moves: Sequence[Move]) -> None:
    """The moves as a table, and how many replicas are copied."""
    if not moves:
        output.say("nothing to move")
        return
    rows = [(f"{each.topic}-{each.partition}", _ids(each.before), _ids(each.after), _ids(each.added)) for each in moves]
    output.print_table(("partition", "replicas", "will be", "copied to"), rows)
    copied = sum(len(each.added) for each in moves)
    noun = "partition" if len(moves) == 1 else "partitions"
    output.say(f"{len(moves)} {noun} to move; replicas to copy: {copied}")


def plan_json(moves: Sequence[Move]) -> dict[str, Any]:
    """The plan in the format of `kafka-reassign-partitions.sh`."""
    partitions = [{"topic": each.topic, "partition": each.partition, "replicas": list(each.after)} for each in moves]
    return {"version": 1, "partitions": partitions}


def placed_in(info: ClusterInfo) -> list[PartitionReplicas]:
    """The partitions of a cluster."""
    return [
        PartitionReplicas(each.partition.topic, each.partition.partition, each.replicas) for each in info.partitions
    ]


def racks_of(info: ClusterInfo) -> Racks:
    """The nodes that run, with their racks."""
    return {each.node_id: each.rack for each in info.brokers if not each.is_fenced}


def _noun(partitions: Sequence[object]) -> str:
    return "partition is" if len(partitions) == 1 else "partitions are"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


def _ids(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes)) or "-"
