"""Electing leaders from the command line: which partitions, and what is said of them."""

from collections.abc import Sequence

import pytest

from barnabas.cli.cluster.electing import chosen, elect, leaderless, misled
from barnabas.client.cluster_admin import ClusterInfo, PartitionPlace
from barnabas.client.replica_admin import Elections
from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition

A0, A1, A2, B0 = (TopicPartition(*key) for key in (("a", 0), ("a", 1), ("a", 2), ("a-1", 0)))
INFO = ClusterInfo(
    "cluster",
    1,
    (),
    [
        PartitionPlace(A0, 1, (1, 2), (1, 2)),
        PartitionPlace(A1, 2, (1, 2), (1, 2)),
        PartitionPlace(A2, None, (3,), ()),
        PartitionPlace(B0, 2, (1, 2), (2,)),
    ],
)


class FakeAdmin:
    """Elects nobody but for the first partition."""

    def __init__(self) -> None:
        self.asked: list[tuple[Sequence[TopicPartition], bool]] = []

    def elect(self, partitions: Sequence[TopicPartition], *, is_unclean: bool = False) -> Elections:
        self.asked.append((partitions, is_unclean))
        return Elections(partitions[:1], dict.fromkeys(partitions[1:], "not in sync"))


def test_those_are_elected_that_another_leads_or_nobody() -> None:
    assert misled(INFO) == [A1, A2, B0]
    assert leaderless(INFO, chosen(INFO, [])) == [A2]


def test_a_name_is_a_topic_or_a_partition() -> None:
    assert chosen(INFO, ["a"]) == {A0, A1, A2}
    assert chosen(INFO, ["a-2"]) == {A2}
    assert chosen(INFO, ["a-1"]) == {B0}  # a topic that is called like a partition
    assert misled(INFO, chosen(INFO, ["a-1-0", "a-0"])) == [B0]
    for name in ("b", "a-7", "a-x"):
        with pytest.raises(BarnabasError, match=f"no topic or partition '{name}'"):
            chosen(INFO, [name])


def test_who_was_elected_is_said_and_who_was_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    admin = FakeAdmin()
    with pytest.raises(BarnabasError, match=r"no leader was elected for 2 partitions \(a-2, a-1-0\): not in sync"):
        elect(admin, [A1, A2, B0])
    assert capsys.readouterr().out == "leaders elected: 1 (a-1)\n"
    elect(admin, [A2], is_unclean=True)
    assert admin.asked[1] == ([A2], True)
