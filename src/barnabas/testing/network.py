"""A network in memory that delays, splits, resets and is cut: what `create_server` and `create_connection` of the
simulated loop stand on, all from one seed.

Owns the hosts, who listens where, and the connections. Code belongs to a host by a context variable (see `hosts`):

    network = SimulatedNetwork(loop, seed)
    network.host("node-1").start(node.run())    # listens as ("node-1", port), connects from "node-1"
    network.partition(["node-1"], ["node-2", "node-3"])
    network.heal()
    network.pause("node-1")                     # its peers see nothing, and neither does it, until `resume`
    network.crash("node-1")                     # its peers see resets, it sees nothing any more

Code that belongs to no host, as a test does, is on the host ``localhost``. The wildcard and loopback addresses mean the
caller's own host.

Invariants: see `link` for what happens to bytes. A host cut off is not told: attempts to connect go unanswered until
they time out or the partition heals. Must not know: what is said over connections.

Not simulated: TLS, UDP, UNIX sockets, name servers, loopback apart from the host's own name, limits of the backlog.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable
from contextvars import copy_context
from random import Random
from typing import Any, Final

from barnabas.testing.hosts import Host, current_life
from barnabas.testing.link import Link, NetworkConfig, throw_delay
from barnabas.testing.loop import SimulatedLoop
from barnabas.testing.server import SimulatedServer
from barnabas.testing.transport import SimulatedTransport

__all__ = ["LOCALHOST", "NetworkConfig", "SimulatedConnection", "SimulatedNetwork"]

LOCALHOST: Final = "localhost"
FIRST_PORT: Final = 32768  # of those given out

_OWN_ADDRESSES: Final = (None, "", "0.0.0.0", "::", "localhost", "127.0.0.1", "::1")
_REFUSED_OPTIONS: Final = ("ssl", "sock", "server_hostname")


class SimulatedConnection:
    """The two ends of a connection and the two links between them."""

    def __init__(
        self, network: "SimulatedNetwork", client: SimulatedTransport, server: SimulatedTransport, label: str
    ) -> None:
        self.label = label
        self.client = client
        self.server = server
        self.to_server = Link(network, client, server, f"{label} >")
        self.to_client = Link(network, server, client, f"{label} <")
        self.to_server.back, self.to_client.back = self.to_client, self.to_server
        client.outgoing = server.incoming = self.to_server
        server.outgoing = client.incoming = self.to_client

    def reset(self) -> None:
        """Reset the connection: both ends see a reset, each when it arrives."""
        self.to_server.break_off()
        self.to_client.break_off()

    def joins(self, one: str, other: str | None) -> bool:
        """Whether it is between these hosts; None is any host."""
        ends = (self.client.host_name, self.server.host_name)
        if other is None:
            return one in ends
        return ends in ((one, other), (other, one))

    def lose_host(self, name: str) -> None:
        """A host crashed: its ends are gone silently, an end elsewhere gets a reset."""
        for end in (self.client, self.server):
            if end.host_name == name:
                end.vanish()
                end.outgoing.break_off()

    def __repr__(self) -> str:
        return f"SimulatedConnection({self.label})"


class SimulatedNetwork:
    """Hosts, servers and connections of one simulated loop."""

    def __init__(self, loop: SimulatedLoop, seed: int | Random = 0, config: NetworkConfig | None = None) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self.random = seed if isinstance(seed, Random) else Random(seed)
        self.config = config or NetworkConfig()
        self.trace = loop.trace
        self._simulated_loop = loop
        self._hosts = {LOCALHOST: Host(LOCALHOST, loop)}
        self._listeners: dict[tuple[str, int], SimulatedServer] = {}
        self._connections: dict[SimulatedConnection, None] = {}  # by age
        self._ends: dict[SimulatedTransport, SimulatedConnection] = {}
        self._cuts: dict[tuple[str, str], bool] = {}  # whether bytes are dropped, by source and target
        self._slowness: dict[tuple[str, str], float] = {}  # seconds more at most, by source and target
        self._unanswered: list[asyncio.Future[None]] = []  # attempts to connect that wait for `heal`
        self._next_port = FIRST_PORT
        loop.attach(self)

    # Hosts and connections.

    def host(self, name: str) -> Host:
        """The host of that name, which is made when first asked for."""
        if name not in self._hosts:
            self._hosts[name] = Host(name, self.loop)
        return self._hosts[name]

    def connections(self, one: str | None = None, other: str | None = None) -> list[SimulatedConnection]:
        """The open connections, of one host or between two if named, oldest first."""
        return [each for each in self._connections if one is None or each.joins(one, other)]

    # Faults.

    def reset(self, connection: SimulatedConnection) -> None:
        """Break one connection."""
        self._note("break", connection.label)
        connection.reset()

    def reset_between(self, one: str, other: str | None = None) -> None:
        """Break every connection between two hosts, or of one host."""
        for connection in self.connections(one, other):
            self.reset(connection)

    def partition(
        self, some: Iterable[str], others: Iterable[str], *, drop: bool = False, one_way: bool = False
    ) -> None:
        """Let nothing through from `some` to `others`, nor back unless `one_way`, until `heal`.

        Bytes are held back and arrive after `heal`; with `drop` they are lost, and a connection that has lost
        some is reset after `heal`.
        """
        pairs = [(source, target) for source in sorted(some) for target in sorted(others) if source != target]
        if not one_way:
            pairs += [(target, source) for source, target in pairs]
        for pair in pairs:
            self._note("cut", *pair)
            self._cuts[pair] = drop
        for connection in self.connections():
            connection.to_server.kick()
            connection.to_client.kick()

    def isolate(self, name: str, *, drop: bool = False) -> None:
        """Cut a host off from every other that is known now."""
        self.partition([name], [other for other in self._hosts if other != name], drop=drop)

    def slow(self, some: Iterable[str], others: Iterable[str], delay_s: float) -> None:
        """Let all between these hosts take up to so much longer, until `heal`."""
        for source, target in [(one, other) for one in sorted(some) for other in sorted(others) if one != other]:
            self._note("slow", source, target)
            self._slowness[source, target] = self._slowness[target, source] = delay_s

    def heal(self) -> None:
        """End every partition; no way is slow any more."""
        self._note("heal")
        self._cuts.clear()
        self._slowness.clear()
        for connection in self.connections():
            connection.to_server.reopen()
            connection.to_client.reopen()
        unanswered, self._unanswered = self._unanswered, []
        for attempt in unanswered:
            if not attempt.done():
                attempt.set_result(None)

    def pause(self, name: str) -> None:
        """The host's process stands still: its connections stay and new ones are accepted, but nobody reads."""
        self._note("pause", name)
        self._simulated_loop.pause(self.host(name).life)

    def resume(self, name: str) -> None:
        """The host's process goes on, late with everything."""
        self._note("resume", name)
        self._simulated_loop.resume(self.host(name).life)

    def crash(self, name: str) -> None:
        """The host's process dies: not a line of its code runs any more, nobody listens, its peers see resets.

        The host can be used at once for the next life of the process.
        """
        if name not in self._hosts:
            raise ValueError(f"no host is called {name!r}")
        self._note("crash", name)
        host = self._hosts[name]
        self._simulated_loop.bury(host.end_life())
        for address in [address for address in self._listeners if address[0] == name]:
            del self._listeners[address]
        for connection in self.connections(name):
            connection.lose_host(name)

    def close(self) -> None:
        """The simulation is over: end every connection, so that tasks that wait for one can end as well."""
        self.heal()
        for connection in self.connections():
            for end in (connection.client, connection.server):
                end.lose(ConnectionAbortedError("the simulation is over"))
        self._listeners.clear()

    # What the loop calls.

    async def create_server(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: Any, port: Any, **options: Any
    ) -> SimulatedServer:
        """Listen on a port of the caller's host; port 0 takes the next free one."""
        _check_options(options)
        name = self._own_host(host)
        address = (name, self._free_port() if not port else int(port))
        server = SimulatedServer(self.loop, self, protocol_factory, address, copy_context())
        if options.get("start_serving", True):
            server.begin()
        return server

    async def create_connection(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: Any, port: Any, **options: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to a host that listens; raises the OSError a real network would."""
        _check_options(options)
        local_host, local_port = options.get("local_addr") or (None, 0)
        source = self._own_host(local_host)
        target = (source if host in _OWN_ADDRESSES else str(host), int(port))
        await self._wait_answer(source, target)
        server = self._find_listener(target)
        client = (source, local_port or self._free_port())
        connection = self._connect(server, client)
        protocol = protocol_factory()
        connected: asyncio.Future[None] = self.loop.create_future()
        connection.client.start(protocol, connected)
        try:
            await connected
        except BaseException:
            connection.client.close()
            raise
        return connection.client, protocol

    # What links and servers call.

    def is_cut(self, source: str, target: str) -> bool:
        """Whether nothing gets from one host to the other."""
        return (source, target) in self._cuts

    def loses_bytes(self, source: str, target: str) -> bool:
        """Whether what is sent meanwhile is lost."""
        return self._cuts.get((source, target), False)

    def slowness_s(self, source: str, target: str) -> float:
        """How much longer a way may take than others."""
        return self._slowness.get((source, target), 0.0)

    def add_listener(self, server: SimulatedServer) -> None:
        """`server` accepts connections from now on."""
        if server.address in self._listeners:
            raise OSError(errno.EADDRINUSE, f"address already in use: {server.address}")
        self._listeners[server.address] = server
        self._note("listen", *server.address)

    def remove_listener(self, server: SimulatedServer) -> None:
        """`server` accepts no more."""
        if self._listeners.get(server.address) is server:
            del self._listeners[server.address]

    def note_gone(self, transport: SimulatedTransport) -> None:
        """One end of a connection is over; with the second one the connection is."""
        connection = self._ends.pop(transport)
        if connection.client not in self._ends and connection.server not in self._ends:
            self._connections.pop(connection)

    # Connecting.

    def _own_host(self, host: Any) -> str:
        """The host for which the caller runs: said by the context, or else by the address it gives as its own."""
        life = current_life()
        if life is None:
            return LOCALHOST if host in _OWN_ADDRESSES else self.host(str(host)).name
        if host not in (*_OWN_ADDRESSES, life.host_name):
            raise OSError(errno.EADDRNOTAVAIL, f"{host!r} is not an address of {life.host_name!r}")
        return life.host_name

    async def _wait_answer(self, source: str, target: tuple[str, int]) -> None:
        """Return when the attempt has reached the target and its answer is back."""
        if target[0] not in self._hosts:
            raise socket.gaierror(socket.EAI_NONAME, f"no host is called {target[0]!r}")
        self._note("connect", source, *target)
        try:
            async with asyncio.timeout(self.config.connect_timeout_s):
                await asyncio.sleep(throw_delay(self, source, target[0]))
                while self.is_cut(source, target[0]) or self.is_cut(target[0], source):
                    healed: asyncio.Future[None] = self.loop.create_future()
                    self._unanswered.append(healed)
                    await healed
                    await asyncio.sleep(throw_delay(self, source, target[0]))
        except TimeoutError as error:
            raise TimeoutError(errno.ETIMEDOUT, f"no answer from {target}") from error

    def _find_listener(self, target: tuple[str, int]) -> SimulatedServer:
        server = self._listeners.get(target)
        chance = self.config.refuse_chance
        if server is None or (chance and self.random.random() < chance):
            self._note("refuse", *target)
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"connection refused by {target}")
        return server

    def _connect(self, server: SimulatedServer, client: tuple[str, int]) -> SimulatedConnection:
        context = copy_context()
        near = SimulatedTransport(
            self.loop, host_name=client[0], context=context, sockname=client, peername=server.address
        )
        far = SimulatedTransport(
            self.loop, host_name=server.address[0], context=server.context, sockname=server.address, peername=client
        )
        connection = SimulatedConnection(
            self, near, far, f"{client[0]}:{client[1]}-{server.address[0]}:{server.address[1]}"
        )
        self._connections[connection] = None
        for end in (near, far):
            self._ends[end] = connection
            end.owners.append(self)
        # Later: a client is connected before its server has accepted.
        delay_s = throw_delay(self, client[0], server.address[0])
        self.loop.call_later(delay_s, server.accept, far, context=server.context)
        return connection

    def _free_port(self) -> int:
        port, self._next_port = self._next_port, self._next_port + 1
        return port

    def _note(self, *event: str | int) -> None:
        self.trace.note(self.loop.time(), "net", *event)


def _check_options(options: dict[str, Any]) -> None:
    for name in _REFUSED_OPTIONS:
        if options.get(name) is not None:
            raise NotImplementedError(f"{name}: not part of the simulated network")
