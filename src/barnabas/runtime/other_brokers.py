"""The other brokers of the cluster: who leads what, and what their leaders are asked about transactions.

Which node leads comes from the metadata image at the moment of asking. A broker is reached at its listener for brokers;
its address may change with each registration.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.core.errors import LeaderNotAvailable
from barnabas.core.metadata.records import NO_LEADER
from barnabas.core.model import TopicPartition
from barnabas.runtime.cluster_metadata import ImageSource
from barnabas.wire.apis import ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS
from barnabas.wire.writing import Values

if TYPE_CHECKING:
    from barnabas.core.transactions.ending import TransactionEnd
    from barnabas.runtime.peers import Peer, Peers

Codes = dict[TopicPartition, int]
"""Kafka's error code for each partition that was answered for."""

TRANSACTIONS: Final = "transactions"
"""The purpose of a connection: requests about transactions wait for nothing else."""
HOLD_TIMEOUT_S: Final = 2.0
_BATCHED_FROM: Final = 4  # the version of AddPartitionsToTxn that brokers use among themselves


class Ask(Protocol):
    """The way to other brokers, for what only asks."""

    async def ask(
        self, node_id: int, api_key: int, values: Values, *, timeout_s: float, purpose: str, min_version: int = 0
    ) -> Any:
        """The answer of a broker to a request."""
        ...


class OtherBrokers:
    """Finds leaders, and asks them. Without `peers` this node is the only one."""

    def __init__(
        self, metadata: ImageSource, peers: Peers | None, *, node_id: int, listener: str | None = None
    ) -> None:
        self._metadata = metadata
        self._peers = peers
        self._node_id = node_id
        self._listener = listener  # that brokers use among themselves; None: the first for clients

    def leader_of(self, name: TopicPartition) -> int | None:
        """The node that leads a partition; None if the partition does not exist, `NO_LEADER` if nobody leads it."""
        topic = self._metadata.image.topics.get(name.topic)
        state = None if topic is None else topic.partitions.get(name.partition)
        return None if state is None else state.leader

    def is_here(self, node_id: int) -> bool:
        """Whether a node is this one."""
        return node_id == self._node_id

    async def write_markers(
        self, node_id: int, end: TransactionEnd, names: Sequence[TopicPartition], *, timeout_s: float
    ) -> Codes:
        """Have a broker end a transaction in partitions that it leads; returns when the markers are durable."""
        marker: Values = {
            "producer_id": end.producer_id,
            "producer_epoch": end.producer_epoch,
            "transaction_result": end.is_commit,
            "topics": [{"name": topic, "partition_indexes": indexes} for topic, indexes in _by_topic(names).items()],
            "coordinator_epoch": end.coordinator_epoch,
            "transaction_version": end.version,
        }
        answer = await self.ask(node_id, WRITE_TXN_MARKERS.key, {"markers": [marker]}, timeout_s=timeout_s)
        return {
            TopicPartition(topic.name, each.partition_index): int(each.error_code)
            for marker in answer.markers
            for topic in marker.topics
            for each in topic.partitions
        }

    async def admit(
        self,
        node_id: int,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        names: Sequence[TopicPartition],
        *,
        adds: bool,
        timeout_s: float,
    ) -> Codes:
        """Ask the coordinator of a transactional id whether partitions are part of its transaction, or add them."""
        transaction: Values = {
            "transactional_id": transactional_id,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "verify_only": not adds,
            "topics": [{"name": topic, "partitions": indexes} for topic, indexes in _by_topic(names).items()],
        }
        answer = await self.ask(
            node_id,
            ADD_PARTITIONS_TO_TXN.key,
            {"transactions": [transaction]},
            timeout_s=timeout_s,
            min_version=_BATCHED_FROM,
        )
        refused = int(answer.error_code)
        codes = dict.fromkeys(names, refused) if refused else {}
        for result in answer.results_by_transaction:
            for topic in result.topic_results:
                for each in topic.results_by_partition:
                    codes[TopicPartition(topic.name, each.partition_index)] = int(each.partition_error_code)
        return codes

    async def ask(
        self,
        node_id: int,
        api_key: int,
        values: Values,
        *,
        timeout_s: float,
        purpose: str = TRANSACTIONS,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Any:
        """The answer of a broker; `LeaderNotAvailable` if it is not there, a `PeerError` if it does not answer."""
        host, port = self._address(node_id)
        assert self._peers is not None
        peer = self._peers.at(host, port)
        return await peer.call(
            api_key, values, timeout_s=timeout_s, purpose=purpose, min_version=min_version, max_version=max_version
        )

    def _address(self, node_id: int) -> tuple[str, int]:
        node = None if node_id == NO_LEADER else self._metadata.image.nodes.get(node_id)
        if node is None or node.is_fenced or self._peers is None:
            raise LeaderNotAvailable(f"broker {node_id} is not available")
        endpoint = node.endpoint(self._listener) if self._listener is not None else node
        return endpoint.host, endpoint.port

    def at(self, node_id: int) -> Peer:
        """A broker, at the address it has now: to be asked at once."""
        host, port = self._address(node_id)
        assert self._peers is not None
        return self._peers.at(host, port)

    def once(self, node_id: int) -> Peer:
        """A way to a broker for one caller alone, who closes it."""
        host, port = self._address(node_id)
        assert self._peers is not None
        return self._peers.once(host, port)

    async def hold(self, node_id: int) -> asyncio.Future[None]:
        """Connect to a broker, and ask nothing; the future is done when the connection has ended, and ends it when it
        is cancelled. An `OSError` if that fails.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        async with asyncio.timeout(HOLD_TIMEOUT_S):
            if self._peers is not None and self._peers.is_secured:
                held = await self._peers.hold(*self._address(node_id))
                held.ended.add_done_callback(lambda _: _finish(ended))
                ended.add_done_callback(lambda _: held.end("it is no longer needed"))
                return ended
            await loop.create_connection(lambda: _Held(ended), *self._address(node_id))
        return ended


class _Held(asyncio.Protocol):
    """A connection over which nothing is sent."""

    def __init__(self, ended: asyncio.Future[None]) -> None:
        self._ended = ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Whoever waits for its end no longer wants it once it waits no more.
        self._ended.add_done_callback(lambda _: transport.close())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        _finish(self._ended)


def _finish(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def _by_topic(names: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for topic, partition in names:
        found[topic].append(partition)
    return found
