"""Noticing at once that a broker is gone: the active controller holds a connection to every broker that is active.

When a process ends its connections end with it, and new ones are refused: nobody listens there any more. Such a broker
is fenced without waiting for its session to run out, so that others lead in its place within moments. A broker that is
merely silent, paused or cut off, is not refused: of that one only its session tells.

Should a broker be refused that lives, its next heartbeat lets it in again, and from then on only its session counts.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from barnabas.core.errors import BarnabasError, LeaderNotAvailable
from barnabas.core.metadata.records import MetadataRecord, NodeRecord, RemoveNodeRecord
from barnabas.runtime.cluster_metadata import ClusterMetadata
from barnabas.runtime.log_lines import get_logger
from barnabas.services.controller import Controller

log = get_logger("barnabas.controller")

RETRY_S: Final = 1.0
TOLD_AFTER: Final = 10
"""So many attempts to connect fail before a broker that still sends heartbeats is called unreachable; cut off, it would
have lost its session by then."""


class Watched(NamedTuple):
    """A registration of a broker."""

    node_id: int
    epoch: int


class Brokers(Protocol):
    """The way to other brokers."""

    async def hold(self, node_id: int) -> "asyncio.Future[None]":
        """Connect, and send nothing; the future is done when the connection has ended. An `OSError` if that fails."""
        ...


class Watching:
    """Watches all other brokers while this node is the active controller; `run` is its task."""

    def __init__(self, metadata: ClusterMetadata, controller: Controller, brokers: Brokers, *, node_id: int) -> None:
        self._metadata = metadata
        self._controller = controller
        self._brokers = brokers
        self._node_id = node_id
        self._tasks: dict[Watched, asyncio.Task[None]] = {}
        self._fenced: dict[int, int] = {}  # the last registration of each node that was fenced here
        self._changed = asyncio.Event()
        metadata.subscribe(self._apply)
        metadata.follow_leadership(lambda _epoch: self._changed.set())

    def _apply(self, records: Sequence[MetadataRecord]) -> None:
        if any(isinstance(record, NodeRecord | RemoveNodeRecord) for record in records):
            self._changed.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._changed.clear()
                wanted = self._wanted()
                for each in [each for each in self._tasks if each not in wanted or self._tasks[each].done()]:
                    self._tasks.pop(each).cancel()
                for each in wanted:
                    if each not in self._tasks:
                        self._tasks[each] = tasks.create_task(self._watch(each), name=f"watch {each.node_id}")
                await self._changed.wait()

    def _wanted(self) -> set[Watched]:
        if not self._controller.is_active:
            return set()
        nodes = self._metadata.image.nodes.values()
        return {Watched(each.node_id, each.epoch) for each in nodes if each.is_active and each.node_id != self._node_id}

    async def _watch(self, watched: Watched) -> None:
        failed = 0
        while True:
            try:
                ended = await self._brokers.hold(watched.node_id)
            except ConnectionRefusedError:
                if self._fenced.get(watched.node_id) != watched.epoch and await self._fence(watched):
                    return
                failed += 1
            except (OSError, LeaderNotAvailable):
                failed += 1  # it may be cut off; a timeout is an OSError
            else:
                failed = 0
                await ended
                continue
            if failed == TOLD_AFTER:
                self._tell_unreachable(watched)
            await asyncio.sleep(RETRY_S)

    def _tell_unreachable(self, watched: Watched) -> None:
        node = self._metadata.image.nodes.get(watched.node_id)
        if node is not None:
            where = ", ".join(f"{each.listener}://{each.host}:{each.port}" for each in node.endpoints)
            log.error(
                "broker %d sends heartbeats, but cannot be reached where it says that it listens (%s): what it leads "
                "can be neither read nor written, and its followers fall behind. Correct advertised.listeners of that "
                "node, name resolution or the firewall",
                watched.node_id,
                where or f"{node.host}:{node.port}",
            )

    async def _fence(self, watched: Watched) -> bool:
        log.warning("broker %d is fenced: nobody listens where it did", watched.node_id)
        self._fenced[watched.node_id] = watched.epoch
        try:
            await self._controller.fence_gone(watched.node_id, epoch=watched.epoch)
        except BarnabasError as refusal:
            log.info("broker %d cannot be fenced: %s", watched.node_id, refusal)
            del self._fenced[watched.node_id]
            return False
        return True
