"""SCRAM (RFC 5802, RFC 7677): a login that never sends the password, and in which the broker proves that it knows it.

Owns the client's side of the exchange, without channel binding, which Kafka does not have. Names and passwords go as
they are, in UTF-8: Kafka does not prepare them (RFC 4013) either.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Generator
from typing import Final, TypeAlias

from barnabas.core.errors import BarnabasError

# What a client says, and in return for each of its messages what the broker answers.
Exchange: TypeAlias = Generator[bytes, bytes, None]

DIGESTS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# Kafka's own least. Below, a password could be guessed from an overheard login; far above, a login is an attack.
LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 1_000_000
_NO_BINDING: Final = "n,,"


class LoginFailed(BarnabasError):
    """A broker that refuses the login, or that could not prove its identity. A retry would fail the same way."""

    kafka_code = 58


def scram(mechanism: str, username: str, password: str, nonce: str) -> Exchange:
    """Log in by a mechanism of `DIGESTS`; the nonce must be fresh and unpredictable."""
    digest = DIGESTS[mechanism]
    opening = f"n={_escaped(username)},r={nonce}"
    challenge = yield f"{_NO_BINDING}{opening}".encode()
    said = _fields(challenge)
    salt, iterations = _checked(said, nonce)
    key = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    ending = f"c={base64.b64encode(_NO_BINDING.encode()).decode()},r={said['r']}"
    transcript = b",".join((opening.encode(), challenge, ending.encode()))
    verdict = _fields((yield f"{ending},p={_proof(digest, key, transcript)}".encode()))
    if "e" in verdict:
        raise LoginFailed(f"it refused the login: {verdict['e']}")
    signature = _mac(digest, _mac(digest, key, b"Server Key"), transcript)
    if not hmac.compare_digest(_decoded(verdict.get("v", "")), signature):
        raise LoginFailed("it could not prove that it knows the password: it is not the broker it claims to be")


def _checked(said: dict[str, str], nonce: str) -> tuple[bytes, int]:
    """Salt and iterations of the broker's challenge."""
    if "e" in said:
        raise LoginFailed(f"it refused the login: {said['e']}")
    if "m" in said:
        raise LoginFailed("it requires an unknown extension of SCRAM")
    if not said.get("r", "").startswith(nonce) or said["r"] == nonce:
        raise LoginFailed("it answered with the nonce of another login")
    salt, count = _decoded(said.get("s", "")), said.get("i", "")
    if not salt or not count.isdecimal() or len(count) > 9:
        raise LoginFailed("its challenge has no salt or no number of iterations")
    if not LEAST_ITERATIONS <= int(count) <= MOST_ITERATIONS:
        raise LoginFailed(f"it asks for {count} iterations; allowed: {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
    return salt, int(count)


def _proof(digest: str, key: bytes, transcript: bytes) -> str:
    client_key = _mac(digest, key, b"Client Key")
    signature = _mac(digest, hashlib.new(digest, client_key).digest(), transcript)
    return base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()


def _mac(digest: str, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, digest)


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _fields(message: bytes) -> dict[str, str]:
    try:
        parts = [part.partition("=") for part in message.decode().split(",")]
    except UnicodeDecodeError:
        raise LoginFailed("its part of the login is not SCRAM") from None
    if any(len(name) != 1 or not equals for name, equals, _ in parts):
        raise LoginFailed("its part of the login is not SCRAM")
    return {name: value for name, _, value in parts}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
