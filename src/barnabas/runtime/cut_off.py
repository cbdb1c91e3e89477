"""Noticing that this node is cut off from the other nodes, though not from its clients (decision 25).

What it leads may then be led by another node, and it does not hear of that. A flag of each partition says so, and a
task turns it: requests only read it. Whether too few replicas fetch, `core.replica.leader` decides.
"""

import asyncio
from typing import Final

from barnabas.runtime.broker_lease import BrokerLease
from barnabas.runtime.led_replicas import LedReplicas
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.turns import in_turns

log = get_logger("barnabas.replicas")

LOOKS_PER_SESSION: Final = 20
LONGEST_S: Final = 0.5
"""How long nobody looks, at most."""


class CutOffWatch:
    """Looks whether what is led here is cut off; `run` is its task."""

    def __init__(
        self, replicas: LedReplicas, lease: BrokerLease, *, session_timeout_ms: int, fetch_wait_max_ms: int
    ) -> None:
        """`session_timeout_ms`: of a broker with the controller. `fetch_wait_max_ms`: how long the fetch of a follower
        that has everything may wait.
        """
        self._replicas = replicas
        self._lease = lease
        # Half a session: the lease ends after most of one, and by then followers must have been silent for long enough.
        self._silence_ms = max(session_timeout_ms // 2, 2 * fetch_wait_max_ms)
        self._look_s = min(session_timeout_ms / 1000 / LOOKS_PER_SESSION, LONGEST_S)

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            await asyncio.sleep(self._look_s)
            await self.look()

    async def look(self) -> None:
        """Look at everything that is led here, unless there is nothing to notice."""
        replicas = self._replicas
        if not replicas.cut_off and self._lease.holds():
            return
        before = len(replicas.cut_off)
        async for partition in in_turns(list(replicas.led)):
            partition.look_for_cut(has_lease=self._lease.holds(), now_ms=replicas.now_ms(), silence_ms=self._silence_ms)
        after = len(replicas.cut_off)
        if after and not before:
            log.warning(
                "%d partitions that this node leads take no records for now: no controller answers its heartbeats, and "
                "too few replicas fetch from it, so other nodes may lead them. Clients are sent to those. Check the "
                "network between this node and the others",
                after,
            )
        elif before and not after:
            log.warning("no partition that this node leads is cut off from the other nodes any more")
