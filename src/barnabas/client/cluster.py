"""The brokers of a cluster, for administration: each broker, a coordinator, the leader of a partition.

Owns connections for the duration of a call, and retries while leaders and coordinators move.
"""

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from barnabas.client.brokers import Brokers, ClusterBroker, CoordinatorKind
from barnabas.client.connection import BrokerConnection
from barnabas.client.errors import Passing, Unreachable, check
from barnabas.client.settings import Settings
from barnabas.core.errors import UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.wire.writing import Values

_T = TypeVar("_T")

_RETRY_S: Final = 0.1
_NO_LEADER: Final = 5


class Cluster:
    """Connections to the brokers of a cluster, kept until the end of a `with` block; for one thread."""

    def __init__(self, settings: Settings, timeout_s: float) -> None:
        self._brokers = Brokers(settings)
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._brokers.close()

    def trying(self, attempt: Callable[[], _T]) -> _T:
        """The result of an attempt; retried over new connections while it fails with a retriable error."""
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
        return self._brokers.metadata(()).brokers

    def leaders(self, topics: Iterable[str] | None = None) -> dict[TopicPartition, ClusterBroker]:
        """The leader of each partition of these topics, or of all; without partitions that have none."""
        return {key: leader for key, leader in self._leaders(topics).items() if leader is not None}

    def leader(self, key: TopicPartition) -> ClusterBroker:
        leaders = self._leaders([key.topic])
        if key not in leaders:
            raise UnknownTopicOrPartition(f"partition {key} does not exist")
        found = leaders[key]
        if found is None:
            check(_NO_LEADER, f"find the leader of {key}")
        assert found is not None
        return found

    def coordinator(self, transactional_id: str) -> ClusterBroker:
        code, broker = self._brokers.coordinator(transactional_id, CoordinatorKind.TRANSACTION)
        check(code, f"find the coordinator of {transactional_id!r}")
        return broker

    def group_coordinator(self, group: str) -> ClusterBroker:
        code, broker = self._brokers.coordinator(group, CoordinatorKind.GROUP)
        check(code, f"find the coordinator of group {group!r}")
        return broker

    def ask(self, api_key: int, values: Values) -> Any:
        """The answer of any broker, within the time of this cluster."""
        return self._brokers.any().call(api_key, values, timeout_s=self._timeout_s)

    def connect(self, broker: ClusterBroker) -> BrokerConnection:
        return self._brokers.at(broker.address)

    def _leaders(self, topics: Iterable[str] | None) -> dict[TopicPartition, ClusterBroker | None]:
        found = self._brokers.metadata(topics).topics
        for name, topic in found.items():
            check(topic.error_code, f"read topic {name!r}")
        return {
            TopicPartition(name, id_): leader for name, topic in found.items() for id_, leader in topic.leaders.items()
        }
