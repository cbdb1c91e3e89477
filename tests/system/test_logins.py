"""Logins over real sockets, request by request: what is answered before a client is known, what ends a connection."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import os
import random
import struct
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from barnabas.core.access.attempts import MAX_HELD
from barnabas.edge.kafka import authenticating
from barnabas.edge.kafka.registry import On, served_on
from barnabas.testing.embedded import EmbeddedBroker
from barnabas.testing.wire_client import WireClient
from barnabas.wire.apis import (
    ALTER_USER_SCRAM_CREDENTIALS,
    API_VERSIONS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from barnabas.wire.requests import frame_request

MAX_BYTES = 65_536
SALT = b"0123456789abcdef"
SALTED = hashlib.pbkdf2_hmac("sha256", b"secret", SALT, 4096)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SHORT://127.0.0.1:0",
        "listener.security.protocol.map": "SHORT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.server.max.receive.size": str(MAX_BYTES),
        "connection.failed.authentication.delay.ms": "0",
        "listener.name.short.plain.connections.max.reauth.ms": "1500",
    }
    with EmbeddedBroker(settings) as broker:
        for user in ("ann", "bob"):
            asyncio.run(_make_user(broker, user))
        yield broker


async def _make_user(broker: EmbeddedBroker, user: str) -> None:
    client = await connect(broker, "PLAINTEXT")
    upsertion = {"name": user, "mechanism": 1, "iterations": 4096, "salt": SALT, "salted_password": SALTED}
    answer = await client.ask(ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": [upsertion]})
    assert [(each.user, int(each.error_code)) for each in answer.results] == [(user, 0)]
    client.close()


async def connect(broker: EmbeddedBroker, listener: str = "SASL_PLAINTEXT") -> WireClient:
    host, _, port = broker.bootstrap_of(listener).rpartition(":")
    return await WireClient.connect(host, int(port))


async def open_connection(broker: EmbeddedBroker) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = broker.bootstrap_of("SASL_PLAINTEXT").rpartition(":")
    return await asyncio.open_connection(host, int(port))


Talk = Callable[[WireClient], Awaitable[None]]


def talk(broker: EmbeddedBroker, say: Talk, listener: str = "SASL_PLAINTEXT") -> None:
    async def run() -> None:
        client = await connect(broker, listener)
        try:
            async with asyncio.timeout(20):
                await say(client)
        finally:
            client.close()

    asyncio.run(run())


async def log_in(client: WireClient, user: str = "ann", *, version: int = 2) -> Any:
    handshake = await client.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
    assert int(handshake.error_code) == 0
    return await client.ask(SASL_AUTHENTICATE, version, {"auth_bytes": f"\0{user}\0secret".encode()})


async def is_served(client: WireClient) -> None:
    answer = await client.ask(METADATA, 1, {"topics": []})
    assert len(answer.brokers) == 1


async def is_closed(client: WireClient) -> None:
    with pytest.raises(ConnectionError):
        await client.ask(METADATA, 1, {"topics": []})


def test_a_client_is_served_once_it_has_logged_in(broker: EmbeddedBroker) -> None:
    async def say(client: WireClient) -> None:
        await client.ask(API_VERSIONS, 3, {"client_software_name": "x", "client_software_version": "1"})
        answer = await log_in(client)
        assert (int(answer.error_code), answer.session_lifetime.total_seconds()) == (0, 0)
        await is_served(client)

    talk(broker, say)


@pytest.mark.parametrize("api_key", sorted(set(served_on(On.CLIENTS)) - {17, 18}))
def test_no_api_is_answered_before_that(broker: EmbeddedBroker, api_key: int) -> None:
    served = served_on(On.CLIENTS)[api_key]

    async def run() -> None:
        reader, writer = await open_connection(broker)
        head = struct.pack(">hhih", api_key, served.max_version, 7, -1) + b"\0" * 40
        writer.write(struct.pack(">i", len(head)) + head)
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()

    asyncio.run(run())


def test_versions_are_told_once(broker: EmbeddedBroker) -> None:
    async def say(client: WireClient) -> None:
        await client.ask(API_VERSIONS, 0, {})
        with pytest.raises(ConnectionError):
            await client.ask(API_VERSIONS, 0, {})

    talk(broker, say)


def test_an_unknown_mechanism_is_answered_with_those_there_are_and_closes(broker: EmbeddedBroker) -> None:
    async def say(client: WireClient) -> None:
        answer = await client.ask(SASL_HANDSHAKE, 1, {"mechanism": "GSSAPI"})
        assert (int(answer.error_code), list(answer.mechanisms)) == (33, ["PLAIN", "SCRAM-SHA-256"])
        await is_closed(client)

    talk(broker, say)


def test_a_second_handshake_is_an_illegal_state_and_closes(broker: EmbeddedBroker) -> None:
    async def say(client: WireClient) -> None:
        await client.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        answer = await client.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert int(answer.error_code) == 34
        await is_closed(client)

    talk(broker, say)


@pytest.mark.parametrize("token", [b"\0ann\0wrong", b"\0nobody\0secret", b"", b"\xff", b"\0$node-1\0secret"])
def test_whoever_cannot_prove_who_it_is_hears_the_same_and_is_closed(broker: EmbeddedBroker, token: bytes) -> None:
    async def say(client: WireClient) -> None:
        await client.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        answer = await client.ask(SASL_AUTHENTICATE, 2, {"auth_bytes": token})
        assert int(answer.error_code) == 58
        assert answer.error_message == "Authentication failed: invalid credentials"
        await is_closed(client)

    talk(broker, say)


def test_where_many_failures_of_an_address_are_held_the_next_tells_nothing_and_keeps_nobody_out(
    broker: EmbeddedBroker,
) -> None:
    """Whose password is right is let in at once; who fails is closed, whoever it claims to be."""
    assert broker.broker is not None
    assert broker.broker.authentication is not None
    failed = broker.broker.authentication._failed

    async def fail(client: WireClient, token: bytes) -> None:
        await client.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        with pytest.raises(ConnectionError):
            await client.ask(SASL_AUTHENTICATE, 2, {"auth_bytes": token})

    async def get_in(client: WireClient) -> None:
        assert int((await log_in(client)).error_code) == 0
        await is_served(client)

    for _ in range(MAX_HELD):
        failed.hold("127.0.0.1")
    try:
        for token in (b"\0ann\0wrong", b"\0nobody\0secret", b"\0$node-1\0secret", b"\xff"):
            talk(broker, partial(fail, token=token))
        talk(broker, get_in)
    finally:
        for _ in range(MAX_HELD):
            failed.release("127.0.0.1")


def test_an_unknown_user_is_asked_as_a_known_one_is(broker: EmbeddedBroker) -> None:
    async def challenge_of(user: str) -> dict[str, str]:
        client = await connect(broker)
        await client.ask(SASL_HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
        answer = await client.ask(SASL_AUTHENTICATE, 2, {"auth_bytes": f"n,,n={user},r=abc".encode()})
        client.close()
        assert int(answer.error_code) == 0
        return dict(part.partition("=")[::2] for part in answer.auth_bytes.decode().split(","))

    async def run() -> None:
        known, unknown, again = await challenge_of("ann"), await challenge_of("nobody"), await challenge_of("nobody")
        assert known.keys() == unknown.keys()
        assert len(known["s"]) == len(unknown["s"])
        assert known["i"] == unknown["i"]
        assert unknown["s"] == again["s"]

    asyncio.run(run())


def test_after_a_handshake_of_version_0_tokens_are_bare(broker: EmbeddedBroker) -> None:
    host, _, port = broker.bootstrap_of("SASL_PLAINTEXT").rpartition(":")

    async def run() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))

        async def exchange(message: bytes) -> bytes:
            writer.write(message)
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            return await reader.readexactly(size)

        def framed(token: bytes) -> bytes:
            return struct.pack(">i", len(token)) + token

        request = frame_request(17, 0, {"mechanism": "SCRAM-SHA-256"}, correlation_id=1, client_id="x")
        assert (await exchange(request))[4:6] == b"\0\0"
        opening = "n=ann,r=abc"
        challenge = (await exchange(framed(f"n,,{opening}".encode()))).decode()
        nonce = challenge.partition(",")[0]
        transcript = f"{opening},{challenge},c=biws,{nonce}".encode()
        client_key = hmac.digest(SALTED, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client_key).digest(), transcript, "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
        verdict = await exchange(framed(f"c=biws,{nonce},p={proof}".encode()))
        assert verdict.startswith(b"v=")
        answer = await exchange(frame_request(18, 0, {}, correlation_id=2, client_id="x"))
        assert answer[:4] == b"\0\0\0\2"
        writer.close()

    asyncio.run(run())


def test_a_message_that_is_too_long_closes_the_connection(broker: EmbeddedBroker) -> None:
    async def say(client: WireClient) -> None:
        await client.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        with pytest.raises(ConnectionError):
            await client.ask(SASL_AUTHENTICATE, 2, {"auth_bytes": b"x" * MAX_BYTES})

    talk(broker, say)


def test_garbage_harms_nobody(broker: EmbeddedBroker) -> None:
    """Before and during a login: nothing of it is answered by more than an error, and others are served."""
    host, _, port = broker.bootstrap_of("SASL_PLAINTEXT").rpartition(":")
    chance = random.Random(int(os.environ.get("TEST_FIRST_SEED", "7")))
    handshakes = [
        frame_request(17, version, {"mechanism": mechanism}, correlation_id=1, client_id="x")
        for version in (0, 1)
        for mechanism in ("PLAIN", "SCRAM-SHA-256")
    ]

    async def one() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            if chance.random() < 0.8:
                writer.write(chance.choice(handshakes))
            for _ in range(chance.randrange(1, 4)):
                data = chance.randbytes(chance.choice((0, 1, 7, 100, 3000)))
                writer.write(struct.pack(">i", chance.choice((len(data), len(data) + 5, -1, 2**31 - 1))) + data)
            writer.write_eof()
            await reader.read()
        except OSError:
            pass  # it has closed the connection
        finally:
            writer.close()

    async def run() -> None:
        for _ in range(int(os.environ.get("TEST_SEEDS", "60"))):
            async with asyncio.timeout(20):
                await one()

    asyncio.run(run())

    async def say(client: WireClient) -> None:
        await log_in(client)
        await is_served(client)

    talk(broker, say)


def test_where_nobody_logs_in_a_handshake_is_an_illegal_state(broker: EmbeddedBroker) -> None:
    async def say(client: WireClient) -> None:
        answer = await client.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert int(answer.error_code) == 34
        answer = await client.ask(SASL_AUTHENTICATE, 2, {"auth_bytes": b"x"})
        assert int(answer.error_code) == 34
        await is_served(client)

    talk(broker, say, "PLAINTEXT")


def test_a_login_that_does_not_end_is_not_repeated(broker: EmbeddedBroker) -> None:
    async def say(client: WireClient) -> None:
        await log_in(client)
        answer = await client.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert int(answer.error_code) == 34
        await is_served(client)

    talk(broker, say)


def test_a_login_that_ends_is_repeated_on_the_same_connection(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticating, "MIN_INTERVAL_S", 0.0)

    async def say(client: WireClient) -> None:
        answer = await log_in(client)
        assert answer.session_lifetime.total_seconds() == 1.5
        answer = await log_in(client)
        assert int(answer.error_code) == 0
        await is_served(client)
        with contextlib.suppress(ConnectionError):  # once its time is over
            while True:
                await client.ask(METADATA, 1, {"topics": []})
        assert not client.is_open

    talk(broker, say, "SHORT")


def test_a_login_is_repeated_at_most_once_a_second(broker: EmbeddedBroker) -> None:
    async def say(client: WireClient) -> None:
        await log_in(client)
        answer = await client.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert int(answer.error_code) == 34
        await is_served(client)

    talk(broker, say, "SHORT")


@pytest.mark.parametrize("way", ["another user", "another mechanism"])
def test_who_logs_in_again_must_be_the_same(broker: EmbeddedBroker, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authenticating, "MIN_INTERVAL_S", 0.0)

    async def say(client: WireClient) -> None:
        await log_in(client)
        if way == "another user":
            answer = await log_in(client, "bob")
        else:
            await client.ask(SASL_HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-256"})
            answer = await client.ask(SASL_AUTHENTICATE, 2, {"auth_bytes": b"n,,n=ann,r=abc"})
        assert int(answer.error_code) == 58
        await is_closed(client)

    talk(broker, say, "SHORT")


def test_credentials_are_described_without_secrets(broker: EmbeddedBroker) -> None:
    async def say(client: WireClient) -> None:
        users = [{"name": name} for name in ("ann", "nobody", "bob", "bob")]
        answer = await client.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": users})
        assert [(each.user, int(each.error_code)) for each in answer.results] == [
            ("ann", 0),
            ("nobody", 91),
            ("bob", 92),
        ]
        assert [(each.mechanism, each.iterations) for each in answer.results[0].credential_infos] == [(1, 4096)]
        answer = await client.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None})
        assert [each.user for each in answer.results] == ["ann", "bob"]

    talk(broker, say, "PLAINTEXT")


def test_a_connection_that_does_not_log_in_is_closed_and_only_so_many_wait() -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "connection.authentication.timeout.ms": "300",
        "max.connections.authenticating": "3",
    }
    with EmbeddedBroker(settings) as broker:

        async def run() -> None:
            opened = [await open_connection(broker) for _ in range(4)]
            async with asyncio.timeout(10):
                for reader, writer in opened:  # the first makes room for the last, the others take too long
                    with contextlib.suppress(ConnectionResetError):
                        assert await reader.read() == b""
                    writer.close()

        asyncio.run(run())


def test_whoever_opens_connections_and_says_nothing_keeps_nobody_out() -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "max.connections.authenticating": "3",
    }
    with EmbeddedBroker(settings) as broker:
        asyncio.run(_make_user(broker, "ann"))

        async def run() -> None:
            silent = [await open_connection(broker) for _ in range(10)]
            client = await connect(broker)
            assert int((await log_in(client)).error_code) == 0
            await is_served(client)
            for _, writer in silent:
                writer.close()
            client.close()

        asyncio.run(run())
