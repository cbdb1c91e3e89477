"""Whether the addresses that a node advertises lead to the node itself.

A node asks at each of them as a client would, with a word that nobody else knows. If the word arrives at its own
listeners, the address is right. If it does not, clients and other nodes that are told to connect there fail, or talk to
somebody else: the operator is told, once, and the node goes on. It may be that only the node itself cannot use it.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from barnabas.core.errors import BarnabasError
from barnabas.runtime.log_lines import get_logger
from barnabas.wire.apis import API_VERSIONS
from barnabas.wire.writing import Values

log = get_logger("barnabas.node", is_limited=False)

ATTEMPTS: Final = 3
RETRY_S: Final = 1.0
TIMEOUT_S: Final = 3.0
_SOFTWARE_FROM: Final = 3  # of ApiVersions


class Advertised(NamedTuple):
    """An address that others are told to connect to."""

    listener: str
    host: str
    port: int
    is_for_controllers: bool = False


class Peer(Protocol):
    """Whoever is at an address."""

    async def call(self, api_key: int, values: Values, *, timeout_s: float, min_version: int = 0) -> Any:
        """The answer to a request."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class Peers(Protocol):
    """The way to any address."""

    def once(self, host: str, port: int) -> Peer:
        """Whoever is at an address, for a single question."""
        ...


class OwnAddresses:
    """Checks the addresses of one node. Its listeners `note` what arrives at them."""

    def __init__(self) -> None:
        self._sent: set[str] = set()
        self._arrived: set[str] = set()

    def note(self, word: str) -> None:
        """Somebody has connected who says this of itself."""
        if word in self._sent:
            self._arrived.add(word)

    async def check(self, addresses: Sequence[Advertised], peers: Peers, *, word: str) -> None:
        """Ask at each address, a few times if need be, and say which does not lead here. `word`: nobody else has it."""
        for number, address in enumerate(addresses):
            own, why = f"{word}-{number}", None
            for attempt in range(ATTEMPTS):
                if attempt:
                    await asyncio.sleep(RETRY_S)
                why = await self._ask(address, peers, own)
                if why is None:
                    break
            _tell(address, why, is_here=own in self._arrived)

    async def _ask(self, address: Advertised, peers: Peers, word: str) -> BarnabasError | None:
        self._sent.add(word)
        values: Values = {"client_software_name": "barnabas", "client_software_version": word}
        peer = peers.once(address.host, address.port)
        try:
            await peer.call(API_VERSIONS.key, values, timeout_s=TIMEOUT_S, min_version=_SOFTWARE_FROM)
        except BarnabasError as error:
            return error
        finally:
            peer.close()
        return None


def _tell(address: Advertised, why: BarnabasError | None, *, is_here: bool) -> None:
    whom = "other controllers" if address.is_for_controllers else "clients and other nodes"
    where = f"{address.host}:{address.port}"
    if why is not None:
        log.warning(
            "nobody answers at %s, where the listener %s is advertised: %s. Unless only this machine cannot use that "
            "address, %s cannot connect to this node: correct advertised.listeners, the name or the firewall",
            where,
            address.listener,
            why,
            whom,
        )
    elif not is_here:
        log.error(
            "%s, where the listener %s is advertised, is the address of another process: %s are sent to that one "
            "instead of this node. Correct advertised.listeners",
            where,
            address.listener,
            whom,
        )
