"""A connection is counted once, whatever becomes of its TLS handshake."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme

from barnabas.runtime.connections import Connection, ConnectionLimits, Connections
from barnabas.runtime.tls import Tls, TlsConfig
from tests.unit.runtime.connections.support import Client, Handler, Run, Server, wait_until


class Ending(Handler):
    """Ends the handshake of the first connection right after it was let in, before its task knows that it is done."""

    connections: Connections

    def accept(self, connection: Connection) -> "Handler":
        if self.connections.accepted == 1:
            for newcomer in self.connections.newcomers.older_than(float("inf")):
                newcomer.close()
        return self


@pytest.fixture
def keystore(tmp_path: Path) -> str:
    root = trustme.CA(key_type=trustme.KeyType.ECDSA)
    leaf = root.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
    (tmp_path / "node.pem").write_bytes(leaf.private_key_and_cert_chain_pem.bytes())
    return str(tmp_path / "node.pem")


@asynccontextmanager
async def serving_tls(keystore: str) -> AsyncIterator[Server]:
    async with asyncio.TaskGroup() as tasks:
        handler = Ending()
        connections = Connections(handler, ConnectionLimits(max_connections=1), tasks)
        handler.connections = connections
        _, port = await connections.bind("127.0.0.1", 0, listener="SSL", tls=Tls(TlsConfig(keystore_file=keystore)))
        await connections.serve()
        server = Server(handler, connections, port)
        try:
            yield server
        finally:
            await server.close()


def test_one_whose_handshake_is_ended_after_it_was_let_in_is_counted_once(run: Run, keystore: str) -> None:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

    async def connect(server: Server) -> Client:
        return await server.connect(ssl=trusting)

    async def scenario() -> None:
        problems: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        async with serving_tls(keystore) as server:
            connections = server.connections
            with suppress(OSError):
                await (await connect(server)).wait_closed_by_server()
            await wait_until(lambda: connections.accepted == 1 and not connections.open and not connections.newcomers)
            client = await connect(server)
            await client.send(b"e1")
            assert await client.receive() == b"e1"
            with suppress(OSError):  # one is the maximum, so this one is closed, in its handshake or after it
                assert await (await connect(server)).wait_closed_by_server() == b""
            assert connections.refused == 1
        assert problems == []

    run(scenario)
