"""Having leaders elected: the preferred ones again, or, at a price, any for partitions that have none."""

from collections.abc import Sequence
from typing import Final, Protocol

from barnabas.cli import output
from barnabas.cli.confirming import confirm
from barnabas.client.cluster_admin import ClusterAdmin, ClusterInfo
from barnabas.client.contact import reach
from barnabas.client.replica_admin import Elections, ReplicaAdmin
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition

NAMED: Final = 3


class Electing(Protocol):
    """What has leaders elected: `ReplicaAdmin`."""

    def elect(self, partitions: Sequence[TopicPartition], *, is_unclean: bool = False) -> Elections:
        """Have leaders elected."""
        ...


def elect_leaders(bootstrap: str, names: Sequence[str], *, is_unclean: bool, yes: bool) -> None:
    """Have leaders elected of these topics and partitions, or all, where that changes anything."""
    reach(bootstrap)
    settings = Settings(bootstrap, "barnabas-cli")
    info = ClusterAdmin(settings).describe()
    among = chosen(info, names)
    partitions = leaderless(info, among) if is_unclean else misled(info, among)
    if not partitions:
        output.say("every partition has a leader" if is_unclean else "every partition is led by its preferred leader")
        return
    if is_unclean:
        output.say(f"without a leader: {', '.join(map(str, partitions))}")
        confirm("Elect leaders that may lack records? What they lack is lost for good.", yes=yes)
    elect(ReplicaAdmin(settings), partitions, is_unclean=is_unclean)


def elect(admin: Electing, partitions: Sequence[TopicPartition], *, is_unclean: bool = False) -> None:
    """Have leaders elected, and say which; a refusal names those that could not be."""
    done = admin.elect(partitions, is_unclean=is_unclean)
    if done.elected:
        output.say(f"leaders elected: {len(done.elected)} ({some(done.elected)})")
    if done.refused:
        reasons = list(dict.fromkeys(done.refused.values()))
        words = "; ".join(reasons[:NAMED]) + ("; ..." if len(reasons) > NAMED else "")
        noun = "partition" if len(done.refused) == 1 else "partitions"
        raise BarnabasError(
            f"no leader was elected for {len(done.refused)} {noun} ({some(list(done.refused))}): {words}"
        )


def chosen(info: ClusterInfo, names: Sequence[str]) -> set[TopicPartition]:
    """The partitions that names stand for: topics, or partitions as topic-number; without names, all."""
    known = {each.partition for each in info.partitions}
    if not names:
        return known
    found: set[TopicPartition] = set()
    for name in names:
        topic, _, number = name.rpartition("-")
        of_topic = {each for each in known if each.topic == name}
        one = {TopicPartition(topic, int(number))} & known if number.isdecimal() else set[TopicPartition]()
        if not of_topic and not one:
            raise BarnabasError(f"there is no topic or partition '{name}'")
        found |= of_topic or one
    return found


def misled(info: ClusterInfo, among: set[TopicPartition] | None = None) -> list[TopicPartition]:
    """The partitions that another than the preferred leader leads, or nobody."""
    return sorted(
        each.partition
        for each in info.partitions
        if each.replicas and each.leader != each.replicas[0] and (among is None or each.partition in among)
    )


def leaderless(info: ClusterInfo, among: set[TopicPartition]) -> list[TopicPartition]:
    """The partitions that nobody leads."""
    return sorted(each.partition for each in info.partitions if each.leader is None and each.partition in among)


def some(partitions: Sequence[TopicPartition]) -> str:
    """The first few of them."""
    return ", ".join(map(str, partitions[:NAMED])) + (", ..." if len(partitions) > NAMED else "")
