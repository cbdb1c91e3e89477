"""The brokers of a cluster over our own connections: any broker, one by its address, the leaders.

Owns the connections, which are kept until they are dropped, and repeats a request if its connection turns out to be
closed. Retrying while leaders move is up to the caller, who knows for how long. For one thread.
"""

import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeAlias
from uuid import UUID

from barnabas.client.connection import ANSWER_S, BrokerConnection
from barnabas.client.errors import Unreachable
from barnabas.client.scram import LoginFailed
from barnabas.client.security import Security
from barnabas.client.settings import Settings, parse_bootstrap
from barnabas.core.errors import BarnabasError
from barnabas.wire.apis import FIND_COORDINATOR, METADATA
from barnabas.wire.writing import Values

Address: TypeAlias = tuple[str, int]
_RETRY_S: Final = 0.05


class CoordinatorKind(IntEnum):
    """What a broker coordinates; the numbers are the protocol's."""

    GROUP = 0
    TRANSACTION = 1


@dataclass(frozen=True, slots=True)
class ClusterBroker:
    node_id: int
    host: str
    port: int

    @property
    def address(self) -> Address:
        return self.host, self.port


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic as one broker knows it; a partition without a leader has None. Old brokers have no topic ids."""

    error_code: int
    leaders: Mapping[int, ClusterBroker | None]
    topic_id: str | None = None
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster according to one broker."""

    brokers: list[ClusterBroker]
    topics: Mapping[str, TopicMetadata]


class Brokers:
    """Connections to the brokers of one cluster; an answer is waited for `answer_s` seconds."""

    def __init__(self, settings: Settings, *, answer_s: float = ANSWER_S) -> None:
        self._settings = settings
        self._answer_s = answer_s
        self._security = Security.of(settings.config)
        self._bootstrap = parse_bootstrap(settings.bootstrap)
        self._known: list[Address] = []
        self._connections: dict[Address, BrokerConnection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def another(self) -> "Brokers":
        """The same cluster, over separate connections."""
        return Brokers(self._settings, answer_s=self._answer_s)

    def drop(self, address: Address) -> None:
        """Close the connection to one broker, if there is one."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def at(self, address: Address) -> BrokerConnection:
        """The connection to one broker; a new one if the login of the last expires."""
        if address in self._connections and self._connections[address].is_over:
            self.drop(address)
        if address not in self._connections:
            self._connections[address] = BrokerConnection(
                *address, self._settings.client_id, self._security, answer_s=self._answer_s
            )
        return self._connections[address]

    def any(self) -> BrokerConnection:
        """An open connection, or one to the first reachable broker: those given, then those in the metadata."""
        problem: BarnabasError = Unreachable("no broker address was given")
        for address in dict.fromkeys([*self._connections, *self._bootstrap, *self._known]):
            try:
                return self.at(address)
            except LoginFailed:
                raise  # the others know this user too, and too many failed logins lock one out
            except BarnabasError as error:
                # What will not pass says more than that somebody else is away.
                problem = error if isinstance(problem, Unreachable) else problem
        raise problem

    def wait_reachable(self, patience_s: float) -> None:
        """Return when a broker can be reached; for a cluster that may not be running at all."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                self.any()
                return
            except Unreachable as error:
                if time.monotonic() >= deadline:
                    raise Unreachable(f"{error}; is a broker running at that address?") from None
            time.sleep(_RETRY_S)

    def metadata(self, topics: Iterable[str] | None, *, create: bool = False) -> ClusterView:
        """The metadata of these topics, or of all, from any broker; `create` lets it create those that do not exist."""
        names = None if topics is None else list(topics)

        answer = self._ask(
            METADATA.key,
            {
                "topics": None if names is None else [{"name": each} for each in names],
                "allow_auto_topic_creation": create,
            },
        )
        brokers = {int(b.node_id): ClusterBroker(int(b.node_id), str(b.host), int(b.port)) for b in answer.brokers}
        self._known = [broker.address for broker in brokers.values()] or self._known
        found = {
            str(topic.name): TopicMetadata(
                int(topic.error_code),
                {int(each.partition_index): brokers.get(int(each.leader_id)) for each in topic.partitions},
                _id_text(getattr(topic, "topic_id", None)),
                bool(topic.is_internal),
            )
            for topic in answer.topics
        }
        return ClusterView(sorted(brokers.values(), key=lambda broker: broker.node_id), found)

    def coordinator(self, key: str, kind: CoordinatorKind) -> tuple[int, ClusterBroker]:
        """The coordinator of a group or of a transactional id, with the error code, 0 if it was found."""
        answer = self._ask(FIND_COORDINATOR.key, {"key": key, "key_type": int(kind)})
        broker = ClusterBroker(int(answer.node_id), str(answer.host), int(answer.port))
        return int(answer.error_code), broker

    def _ask(self, api_key: int, values: Values) -> Any:
        """The answer of any broker; of another one if the first closed the connection."""
        try:
            return self.any().call(api_key, values)
        except Unreachable:
            return self.any().call(api_key, values)


def _id_text(topic_id: UUID | None) -> str | None:
    """A topic id as Kafka's tools write it."""
    return None if topic_id is None else urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
