"""The buffers of sockets: as large as they are set to, or as the system makes them."""

from socket import SO_RCVBUF, SO_SNDBUF, SOL_SOCKET

from tests.unit.runtime.connections.support import Run, Server, first_connections, serving

SIZE = 50_000


async def sizes(server: Server) -> tuple[int, int]:
    """Of the send and the receive buffer of a new connection, in the words of the system."""
    await server.connect()
    (connection,) = await first_connections(server, 1)
    sock = connection._transport.get_extra_info("socket")
    return sock.getsockopt(SOL_SOCKET, SO_SNDBUF), sock.getsockopt(SOL_SOCKET, SO_RCVBUF)


def test_a_connection_has_the_buffers_that_are_set(run: Run) -> None:
    async def scenario() -> None:
        async with serving(send_buffer_bytes=SIZE, receive_buffer_bytes=2 * SIZE) as server:
            assert await sizes(server) == (2 * SIZE, 4 * SIZE)  # Linux counts what it needs itself, too

    run(scenario)


def test_buffers_that_are_not_set_are_left_to_the_system(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            left = await sizes(server)
        async with serving(send_buffer_bytes=SIZE) as server:
            set_one = await sizes(server)
        assert set_one[0] == 2 * SIZE != left[0]
        assert set_one[1] == left[1]

    run(scenario)
