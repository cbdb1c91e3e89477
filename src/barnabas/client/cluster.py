"""The brokers of a cluster as an administrator's tool reaches them: each one, a coordinator, the leader of a partition.

Owns connections for the time of a question, and trying again while leaders and coordinators move.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from barnabas.client.connection import FIND_COORDINATOR, METADATA, Connection, make
from barnabas.client.errors import Refused, Unreachable, refusal_of
from barnabas.client.settings import Settings, parse_bootstrap
from barnabas.core.errors import BarnabasError, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition

_T = TypeVar("_T")

_RETRY_S: Final = 0.1
_OF_TRANSACTIONS: Final = 1
# A coordinator or a leader that moved or is not ready, a transaction that is still being ended.
_PASSING: Final = frozenset({5, 6, 7, 9, 14, 15, 16, 51})


@dataclass(frozen=True, slots=True)
class ClusterBroker:
    node_id: int
    host: str
    port: int


class Passing(BarnabasError):
    """A refusal that another attempt may cure."""


class Cluster:
    """Connections to the brokers of a cluster, kept until the end of a `with` block; for one thread."""

    def __init__(self, settings: Settings, timeout_s: float) -> None:
        if not settings.is_plaintext:
            raise Refused("the administration of transactions goes over plaintext only", 35)
        self._bootstrap = parse_bootstrap(settings.bootstrap)
        self._client_id = settings.client_id
        self._timeout_s = timeout_s
        self._connections: dict[tuple[str, int], Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def trying(self, attempt: Callable[[], _T]) -> _T:
        """What an attempt gives; tried again, over new connections, while it fails for a reason that may pass."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return attempt()
            except (Passing, Unreachable) as error:
                self.close()
                if time.monotonic() > deadline:
                    raise (error.__cause__ or error) from None
                time.sleep(_RETRY_S)

    def brokers(self) -> list[ClusterBroker]:
        return self._metadata(()).brokers

    def leaders(self, topics: Iterable[str] | None = None) -> dict[TopicPartition, ClusterBroker]:
        """Who leads each partition of these topics, or of all; without those that nobody leads."""
        return self._metadata(None if topics is None else tuple(topics)).leaders

    def leader(self, key: TopicPartition) -> ClusterBroker:
        found = self.leaders([key.topic]).get(key)
        if found is None:
            raise UnknownTopicOrPartition(f"partition {key} does not exist or has no leader")
        return found

    def coordinator(self, transactional_id: str) -> ClusterBroker:
        connection = self._any_connection()
        messages = connection.messages(FIND_COORDINATOR)
        request = make(messages.FindCoordinatorRequest, key=transactional_id, key_type=_OF_TRANSACTIONS)
        answer = connection.call(request)
        check(answer.error_code, f"find the coordinator of {transactional_id!r}")
        return ClusterBroker(int(answer.node_id), str(answer.host), int(answer.port))

    def connect(self, broker: ClusterBroker) -> Connection:
        return self._connect((broker.host, broker.port))

    def _metadata(self, topics: tuple[str, ...] | None) -> "_Metadata":
        connection = self._any_connection()
        messages = connection.messages(METADATA)
        wanted = None if topics is None else tuple(make(messages.MetadataRequestTopic, name=each) for each in topics)
        answer = connection.call(
            make(
                messages.MetadataRequest,
                topics=wanted,
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )
        )
        brokers = {int(b.node_id): ClusterBroker(int(b.node_id), str(b.host), int(b.port)) for b in answer.brokers}
        for topic in answer.topics:
            check(topic.error_code, f"read topic {str(topic.name)!r}")
        leaders = {
            TopicPartition(str(topic.name), int(each.partition_index)): brokers[int(each.leader_id)]
            for topic in answer.topics
            for each in topic.partitions
            if int(each.leader_id) in brokers
        }
        return _Metadata(sorted(brokers.values(), key=lambda broker: broker.node_id), leaders)

    def _any_connection(self) -> Connection:
        problem: BarnabasError = Unreachable("no broker address was given")
        for address in [*self._connections, *self._bootstrap]:
            try:
                return self._connect(address)
            except BarnabasError as error:
                problem = error
        raise problem

    def _connect(self, address: tuple[str, int]) -> Connection:
        if address not in self._connections:
            self._connections[address] = Connection(*address, self._client_id)
        return self._connections[address]


@dataclass(frozen=True, slots=True)
class _Metadata:
    brokers: list[ClusterBroker]
    leaders: dict[TopicPartition, ClusterBroker]


def check(code: Any, doing: str) -> None:
    """Raise what an error code means, if it is one."""
    number = int(code)
    if number == 0:
        return
    name = getattr(code, "name", str(number))
    refusal = refusal_of(number, f"cannot {doing}: {name.replace('_', ' ')}")
    if number in _PASSING:
        raise Passing(str(refusal)) from refusal
    raise refusal
