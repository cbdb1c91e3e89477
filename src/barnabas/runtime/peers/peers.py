"""The other nodes of the cluster: by their ids, with addresses that change, or by an address alone.

Each purpose has its own connection, so that a heartbeat does not wait behind a long fetch: a node answers the
requests of one connection one after another.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from barnabas.core.errors import BarnabasError, PeerUnreachable
from barnabas.runtime.dice import Dice
from barnabas.runtime.peers.channel import Address, Authenticate, Channel, TlsContext, connect
from barnabas.runtime.peers.connection import PeerConnection
from barnabas.runtime.peers.limits import PeerLimits
from barnabas.wire.writing import Values

CONTROL: Final = "control"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Making:
    """What every channel is made of."""

    tasks: asyncio.TaskGroup
    loop: asyncio.AbstractEventLoop
    dice: Dice
    limits: PeerLimits
    client_id: str
    authenticate: Authenticate | None
    tls: TlsContext | None

    def channel(self, address: Address) -> Channel:
        return Channel(
            address,
            tasks=self.tasks,
            loop=self.loop,
            dice=self.dice,
            limits=self.limits,
            client_id=self.client_id,
            authenticate=self.authenticate,
            tls=self.tls,
        )


class Peer:
    """One other node."""

    def __init__(self, making: _Making, name: str, address: Address | None) -> None:
        self._making = making
        self._name = name
        self._address = address
        self._channels: dict[str, Channel] = {}
        self._is_closed = False

    @property
    def address(self) -> Address | None:
        return self._address

    async def call(
        self,
        api_key: int,
        values: Values,
        *,
        timeout_s: float,
        purpose: str = CONTROL,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Any:
        """The answer to a request, as the kio entity of the newest version that both sides support and that is allowed.

        Raises a `PeerError` if there is no answer, `UnsupportedVersion` if there is no such version, `InvalidRequest`
        if the values cannot be sent. A request that was sent is not undone if the caller is cancelled. Concurrent calls
        may be carried out in any order.
        """
        if self._is_closed:
            raise PeerUnreachable(f"the connections to {self._name} are closed")
        if self._address is None:
            raise PeerUnreachable(f"the address of {self._name} is not known")
        if purpose not in self._channels:
            self._channels[purpose] = self._making.channel(self._address)
        channel = self._channels[purpose]
        return await channel.call(
            api_key, values, timeout_s=timeout_s, min_version=min_version, max_version=max_version
        )

    def move(self, address: Address) -> None:
        """The node has this address now: calls to any other address end."""
        if address != self._address:
            self._end_channels()
            self._address = address

    def close(self) -> None:
        """End every call; any further one is refused."""
        self._is_closed = True
        self._end_channels()

    def _end_channels(self) -> None:
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()


class Peers:
    """All other nodes. The tasks that keep connections are in `tasks`, and end with `close`."""

    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        loop: asyncio.AbstractEventLoop,
        dice: Dice,
        limits: PeerLimits | None = None,
        *,
        client_id: str = "barnabas",
        authenticate: Authenticate | None = None,
        tls: TlsContext | None = None,
    ) -> None:
        self._making = _Making(
            tasks=tasks,
            loop=loop,
            dice=dice,
            limits=limits or PeerLimits(),
            client_id=client_id,
            authenticate=authenticate,
            tls=tls,
        )
        self._by_id: dict[int, Peer] = {}
        self._by_address: dict[Address, Peer] = {}
        self._is_closed = False

    def to(self, node_id: int) -> Peer:
        """The node of an id, wherever it is; its calls fail until its address is known."""
        if node_id not in self._by_id:
            self._by_id[node_id] = self._new(f"node {node_id}", None)
        return self._by_id[node_id]

    def at(self, host: str, port: int) -> Peer:
        """The node at an address, as named in the configuration."""
        address = (host, port)
        if address not in self._by_address:
            self._by_address[address] = self._new(f"{host}:{port}", address)
        return self._by_address[address]

    def once(self, host: str, port: int) -> Peer:
        """Whoever is at an address, for a single question: the caller closes it."""
        return self._new(f"{host}:{port}", (host, port))

    @property
    def is_secured(self) -> bool:
        """Whether a connection begins with more than its greeting."""
        return self._making.authenticate is not None or self._making.tls is not None

    async def hold(self, host: str, port: int) -> PeerConnection:
        """A connection over which nothing more is sent, for the caller to end; an `OSError` if there is none."""
        making, name = self._making, f"{host}:{port}"
        connection = PeerConnection(making.loop, name, making.client_id, making.limits)
        try:
            await connect(connection, (host, port), loop=making.loop, tls=making.tls, authenticate=making.authenticate)
        except BarnabasError as error:
            connection.end(str(error))
            raise ConnectionError(str(error)) from None
        except BaseException:
            connection.end("it is no longer needed")
            raise
        return connection

    def move(self, node_id: int, host: str, port: int) -> None:
        """A node has this address from now on."""
        self.to(node_id).move((host, port))

    def forget(self, node_id: int) -> None:
        """A node has left the cluster: its connections end."""
        peer = self._by_id.pop(node_id, None)
        if peer is not None:
            peer.close()

    def close(self) -> None:
        """End every connection and every call."""
        self._is_closed = True
        for peer in (*self._by_id.values(), *self._by_address.values()):
            peer.close()

    def _new(self, name: str, address: Address | None) -> Peer:
        peer = Peer(self._making, name, address)
        if self._is_closed:
            peer.close()
        return peer
