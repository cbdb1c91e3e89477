"""The way from a node to the active controller, which is another node: whoever leads the quorum now.

The leadership may move at any time, and for a moment nobody leads. A request is repeated until a controller has taken
it or the time is over; one that may have been carried out is not repeated unless the caller says that it may be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.errors import NotController, PeerError
from barnabas.runtime.cluster_metadata import ClusterMetadata

if TYPE_CHECKING:
    from barnabas.runtime.peers import Peers

NOT_CONTROLLER: Final = NotController.kafka_code
RETRY_S: Final = 0.05
ATTEMPT_S: Final = 2.0
"""How long one attempt of a request that may be repeated takes: the node asked may be gone, and another lead."""
PURPOSE: Final = "controller"
NO_LEADER: Final = "the quorum has no leader"


class ControllerLink:
    """Asks the active controller. `node_id` is this node's own."""

    def __init__(self, metadata: ClusterMetadata, peers: Peers, *, node_id: int) -> None:
        self._metadata = metadata
        self._peers = peers
        self._node_id = node_id

    @property
    def is_here(self) -> bool:
        """Whether this node is the active controller: then nobody has to be asked."""
        return self._metadata.is_active

    async def ask(
        self,
        api_key: int,
        values: Mapping[str, Any],
        *,
        timeout_s: float,
        purpose: str = PURPOSE,
        may_repeat: bool = False,
        search_s: float | None = None,
    ) -> Any:
        """The answer of the active controller, whatever else it refuses. `search_s`: how long to look for one that
        takes the request, if that is less than the time for all of it.

        `NotController` if none took the request in time or this node has become the controller meanwhile; another
        `PeerError` if the answer is lost, unless the request may be repeated.
        """
        begun = asyncio.get_running_loop().time()
        search_until = begun + (timeout_s if search_s is None else min(search_s, timeout_s))
        why = NO_LEADER
        while (now := asyncio.get_running_loop().time()) < search_until:
            left_s, leader_id = begun + timeout_s - now, self._metadata.quorum.leader_id
            if leader_id == self._node_id:
                if self.is_here:
                    raise NotController("this node has become the controller; try again")
            elif leader_id >= 0:
                attempt_s = min(left_s, ATTEMPT_S) if may_repeat else left_s
                try:
                    answer = await self._peers.to(leader_id).call(api_key, values, timeout_s=attempt_s, purpose=purpose)
                except PeerError as error:
                    if error.may_be_done and not may_repeat:
                        raise
                    why = f"node {leader_id}, which led the quorum last, does not answer ({error})"
                else:
                    if getattr(answer, "error_code", 0) != NOT_CONTROLLER:
                        return answer
                    why = f"node {leader_id} is not the active controller"
            else:
                why = NO_LEADER
            await asyncio.sleep(RETRY_S)
        raise NotController(f"no active controller: {why}; see 'barnabas cluster status'")
