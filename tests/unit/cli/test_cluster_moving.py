"""Moving replicas from the command line: plans, files, and steps with progress."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from barnabas.cli.cluster.moving import carry_out, check_can_be_copied, plan_json, print_plan, read_file
from barnabas.client.cluster_admin import BrokerInfo, ClusterInfo, PartitionPlace
from barnabas.client.replica_admin import ReassignmentInfo, Throttles
from barnabas.core.errors import BarnabasError
from barnabas.core.metadata.rebalancing import Move
from barnabas.core.model import TopicPartition
from barnabas.testing.cluster.removing import check_replicas, left_short

MOVES = [Move("a", number, (1, 2), (3, 2)) for number in range(5)]


class FakeAdmin:
    """Moves of partitions, each of which is under way for two looks."""

    def __init__(self, *, not_led: Sequence[TopicPartition] = ()) -> None:
        self.asked: list[list[int]] = []
        self.looks: list[int] = []
        self.elected: list[TopicPartition] = []
        self._left: dict[TopicPartition, int] = {}
        self._not_led = not_led
        self.throttled: dict[tuple[str, ...], int] = {}

    def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        assert not self._left, "those before are done"
        assert all(target == (3, 2) for target in targets.values())
        self.asked.append([key.partition for key in targets])
        self._left = dict.fromkeys(targets, 2)

    def reassignments(self) -> list[ReassignmentInfo]:
        self._left = {key: left - 1 for key, left in self._left.items() if left > 0}
        other = ReassignmentInfo(TopicPartition("other", 0), (1, 2), (2,), ())
        return [other, *(ReassignmentInfo(key, (3, 2, 1), (3,), (1,)) for key in self._left)]

    def throttle(self, topics: Sequence[str], rate: int) -> Throttles:
        self.throttled[tuple(topics)] = rate
        return Throttles({}, {topic: {} for topic in topics})

    def restore(self, before: Throttles) -> None:
        del self.throttled[tuple(before.replicas)]

    def elect_preferred(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        self.elected = list(partitions)
        return list(self._not_led)


def test_partitions_are_moved_a_few_at_a_time_and_then_led_by_their_preferred_leaders(
    capsys: pytest.CaptureFixture[str],
) -> None:
    admin, slept = FakeAdmin(), list[float]()
    carry_out(admin, MOVES, at_once=2, sleep=slept.append)
    assert admin.asked == [[0, 1], [2, 3], [4]]
    assert len(slept) == 6
    assert [each.partition for each in admin.elected] == [0, 1, 2, 3, 4]
    assert capsys.readouterr().out.splitlines() == [
        "2 of 5 partitions moved",
        "4 of 5 partitions moved",
        "5 of 5 partitions moved",
    ]


def test_preferred_leaders_that_cannot_lead_yet_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    not_led = [TopicPartition("a", number) for number in range(5)]
    carry_out(FakeAdmin(not_led=not_led), MOVES, at_once=10, sleep=lambda _: None)
    assert "5 of them are not led by their preferred leader yet: a-0, a-1, a-2, ..." in capsys.readouterr().err


def test_moves_are_throttled_until_they_are_done() -> None:
    admin, during = FakeAdmin(), list[dict[tuple[str, ...], int]]()
    carry_out(admin, MOVES, at_once=10, throttle=1000, sleep=lambda _: during.append(dict(admin.throttled)))
    assert set(map(str, during)) == {str({("a",): 1000})}
    assert admin.throttled == {}


def test_moves_that_are_interrupted_stay_throttled(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    admin = FakeAdmin()
    with pytest.raises(KeyboardInterrupt):
        carry_out(admin, MOVES, at_once=10, throttle=1000, sleep=interrupt)
    assert admin.throttled == {("a",): 1000}
    assert "stays throttled" in capsys.readouterr().err


def test_nothing_to_move_asks_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    admin = FakeAdmin()
    carry_out(admin, [], at_once=10)
    print_plan([])
    assert (admin.asked, admin.elected) == ([], [])
    assert capsys.readouterr().out == "nothing to move\n"


def test_a_plan_says_where_partitions_will_be_and_what_is_copied(capsys: pytest.CaptureFixture[str]) -> None:
    print_plan([Move("a", 0, (1, 2), (2, 1)), Move("a", 1, (1, 2), (3, 2))])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["a-0", "1,2", "2,1", "-"]
    assert lines[2].split() == ["a-1", "1,2", "3,2", "3"]
    assert lines[-1] == "2 partitions to move; replicas to copy: 1"


def test_a_plan_is_a_file_of_kafkas_tool_and_is_read_as_one(tmp_path: Path) -> None:
    plan = plan_json(MOVES[:1])
    assert plan == {"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [3, 2]}]}
    path = tmp_path / "plan.json"
    path.write_text(
        '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[3,2],"log_dirs":["any","any"]}]}'
    )
    (found,) = read_file(path)
    assert (found.topic, found.partition, found.replicas) == ("a", 0, [3, 2])


@pytest.mark.parametrize("text", ["", "[]", '{"version":1}', '{"partitions":[{"topic":"a","partition":"x"}]}'])
def test_another_file_is_refused_in_words(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(BarnabasError, match=r'expected \{"version": 1'):
        read_file(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BarnabasError, match="No such file"):
        read_file(tmp_path / "none.json")


def cluster_of(*partitions: PartitionPlace, fenced: Sequence[int] = ()) -> ClusterInfo:
    brokers = [BrokerInfo(id_, "localhost", 9092, None, id_ in fenced) for id_ in (1, 2, 3)]
    return ClusterInfo("cluster", 1, brokers, partitions)


def test_a_replica_that_is_being_copied_is_no_other_replica() -> None:
    """A node whose partition was to be moved away could be removed before anything was copied."""
    moving = PartitionPlace(TopicPartition("a", 0), None, (1, 3), (3,))
    safe = PartitionPlace(TopicPartition("a", 1), 1, (1, 3), (1, 3))
    behind = PartitionPlace(TopicPartition("a", 2), None, (1, 3), ())

    assert cluster_of(moving, safe, behind).only_on(3) == ["a-0", "a-2"]
    with pytest.raises(
        BarnabasError, match=r"node 3 has the only replica in sync of 1 partition \(a-0\): records would"
    ):
        check_replicas(3, cluster_of(moving, safe))
    check_replicas(2, cluster_of(moving, safe))


def test_a_node_that_holds_replicas_is_not_removed_before_it_is_emptied() -> None:
    """Its partitions were left with a replica less, and nobody heard of it."""
    places = [PartitionPlace(TopicPartition("a", number), 1, (1, 3), (1, 3)) for number in range(4)]
    info = cluster_of(*places)
    with pytest.raises(BarnabasError, match=r"node 3 holds replicas of 4 partitions \(a-0, a-1, a-2, ...\).*decommiss"):
        check_replicas(3, info)
    assert left_short(2, info) is None
    assert "4 partitions (a-0, a-1, a-2, ...) had a replica on node 3" in str(left_short(3, info))


def test_what_nobody_can_copy_is_said_before_a_node_is_decommissioned() -> None:
    alone = PartitionPlace(TopicPartition("a", 0), None, (3,), (3,))
    with pytest.raises(BarnabasError, match=r"node 3 does not run, and has the only replica in sync of 1 partition"):
        check_can_be_copied(cluster_of(alone, fenced=(3,)), 3)
    check_can_be_copied(cluster_of(alone), 3)  # it runs, and can be copied from
    check_can_be_copied(cluster_of(alone, fenced=(2,)), 2)
