"""Why a cluster does not answer what it is asked: what can be found out within seconds, for one line to a person.

A broker that runs and has no controller answers much, and lets the rest time out: that is the cause to look for first.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from barnabas.client.cluster_admin import BrokerInfo, ClusterAdmin, ClusterInfo, QuorumInfo
from barnabas.client.contact import answers_at
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError

PATIENCE_S: Final = 3.0
"""For each question."""
_NAMED: Final = 5


class Describing(Protocol):
    """What is asked of a cluster: of `ClusterAdmin`."""

    def describe(self) -> ClusterInfo: ...

    def quorum(self) -> QuorumInfo: ...


def what_is_wrong(bootstrap: str) -> str | None:
    """What is wrong with the cluster at these addresses; None if nothing is found."""
    admin = ClusterAdmin(Settings(bootstrap, "barnabas-diagnosis"), PATIENCE_S)
    return find_wrong(admin, lambda broker: answers_at(broker.host, broker.port, PATIENCE_S))


def find_wrong(admin: Describing, answers: Callable[[BrokerInfo], bool]) -> str | None:
    """The same, of what `admin` says and who `answers`."""
    try:
        info = admin.describe()
    except BarnabasError:
        return None  # whoever asks has the address, and why it cannot be reached
    silent = _silent(info.brokers, answers)
    try:
        admin.quorum()
    except BarnabasError:
        return f"the cluster has no active controller: more than half of its voters must run{silent}"
    return f"the cluster has an active controller{silent}" if silent else None


def _silent(brokers: Sequence[BrokerInfo], answers: Callable[[BrokerInfo], bool]) -> str:
    if not brokers:
        return ""
    with ThreadPoolExecutor(max_workers=min(len(brokers), 16)) as pool:
        found = [broker for broker, does in zip(brokers, pool.map(answers, brokers), strict=True) if not does]
    if not found:
        return ""
    names = ", ".join(f"{each.node_id} ({each.host}:{each.port})" for each in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"; no answer from node {names}{more}" if len(found) == 1 else f"; no answer from nodes {names}{more}"
