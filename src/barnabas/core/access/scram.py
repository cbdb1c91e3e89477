"""SCRAM (RFC 5802, RFC 7677), the broker's side: what is stored of a password, and the exchange that proves it.

Owns the arithmetic and the messages, without channel binding, which Kafka does not have. Salt, nonce and the secret
that hides who exists are arguments. Names and passwords are used as they are, in UTF-8: Kafka does not prepare them
(RFC 4013) either.

Must not know: where credentials are kept, nor how messages travel.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final, NamedTuple

from barnabas.core.errors import SaslAuthenticationFailed

SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
DIGESTS: Final = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
NUMBERS: Final = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
"""The mechanisms as they are numbered in the protocol and in records."""

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
DEFAULT_ITERATIONS: Final = 4096
MAX_NAME_CHARS: Final = 1024
MAX_MESSAGE_BYTES: Final = 8192
_MAX_NONCE_CHARS: Final = 1024
_BINDING: Final = base64.b64encode(b"n,,").decode()
_REFUSED: Final = "the SCRAM message is not valid"


class Credential(NamedTuple):
    """What is stored of a password. It cannot be computed from this, nor can anybody log in with it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class ClientFirst(NamedTuple):
    """The first message of a client."""

    user: str
    nonce: str
    bare: str  # what of the message is part of the proof


class Challenge(NamedTuple):
    """What a client is asked, and what its proof is checked against."""

    credential: Credential
    nonce: str
    transcript: str
    message: bytes


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """The slow step, which makes guessing slow: milliseconds."""
    return hashlib.pbkdf2_hmac(DIGESTS[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: str, salted: bytes, *, salt: bytes, iterations: int) -> Credential:
    """What is stored of a salted password."""
    digest = DIGESTS[mechanism]
    client_key = hmac.digest(salted, b"Client Key", digest)
    return Credential(
        salt, hashlib.new(digest, client_key).digest(), hmac.digest(salted, b"Server Key", digest), iterations
    )


def is_password(mechanism: str, credential: Credential, password: str) -> bool:
    """Whether a password is the one that a credential was made of; takes milliseconds."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    made = credential_of(mechanism, salted, salt=credential.salt, iterations=credential.iterations)
    return hmac.compare_digest(made.stored_key, credential.stored_key)


def stand_in(mechanism: str, user: str, secret: bytes) -> Credential:
    """A credential for a user who does not exist: always the same for one name, and no password is its own."""
    digest = DIGESTS[mechanism]
    made = hmac.digest(secret, f"{mechanism}:{user}".encode(), digest)
    salt = hmac.digest(secret, b"salt:" + made, digest)[:16]
    return Credential(
        salt,
        hmac.digest(secret, b"stored:" + made, digest),
        hmac.digest(secret, b"server:" + made, digest),
        DEFAULT_ITERATIONS,
    )


def read_first(message: bytes) -> ClientFirst:
    """The first message of a client, checked."""
    text = _text(message)
    flag, _, rest = text.partition(",")
    authorization, comma, bare = rest.partition(",")
    if flag != "n" or not comma:
        raise SaslAuthenticationFailed(f"{_REFUSED}: channel binding is not supported")
    fields = bare.split(",")
    if len(fields) < 2 or not fields[0].startswith("n=") or not fields[1].startswith("r="):
        raise SaslAuthenticationFailed(_REFUSED)
    user, nonce = _unescaped(fields[0][2:]), fields[1][2:]
    if not user or len(user) > MAX_NAME_CHARS or not _is_nonce(nonce):
        raise SaslAuthenticationFailed(_REFUSED)
    if authorization and (not authorization.startswith("a=") or _unescaped(authorization[2:]) != user):
        raise SaslAuthenticationFailed("a user can log in only as itself")
    if "tokenauth=true" in fields[2:]:
        raise SaslAuthenticationFailed("delegation tokens are not supported")
    return ClientFirst(user, nonce, bare)


def challenge(first: ClientFirst, credential: Credential, *, nonce: str) -> Challenge:
    """What a client is asked; the nonce must be fresh and unpredictable."""
    together = first.nonce + nonce
    salt = base64.b64encode(credential.salt).decode()
    message = f"r={together},s={salt},i={credential.iterations}"
    return Challenge(credential, together, f"{first.bare},{message}", message.encode())


def verify(mechanism: str, asked: Challenge, message: bytes) -> bytes | None:
    """The broker's own proof, if the client's last message proves that it knows the password; else None."""
    text = _text(message)
    ending, _, proof = text.rpartition(",p=")
    fields = ending.split(",")
    if len(fields) < 2 or fields[0] != f"c={_BINDING}":
        raise SaslAuthenticationFailed(_REFUSED)
    digest, stored_key = DIGESTS[mechanism], asked.credential.stored_key
    transcript = f"{asked.transcript},{ending}".encode()
    signature = hmac.digest(stored_key, transcript, digest)
    try:
        given = base64.b64decode(proof, validate=True)
    except (binascii.Error, ValueError):
        raise SaslAuthenticationFailed(_REFUSED) from None
    if len(given) != len(signature):
        raise SaslAuthenticationFailed(_REFUSED)
    client_key = bytes(a ^ b for a, b in zip(given, signature, strict=True))
    is_proved = hmac.compare_digest(hashlib.new(digest, client_key).digest(), stored_key)
    is_same_login = hmac.compare_digest(fields[1].encode(), f"r={asked.nonce}".encode())
    if not (is_proved and is_same_login):
        return None
    return b"v=" + base64.b64encode(hmac.digest(asked.credential.server_key, transcript, digest))


def _text(message: bytes) -> str:
    if len(message) > MAX_MESSAGE_BYTES:
        raise SaslAuthenticationFailed(_REFUSED)
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise SaslAuthenticationFailed(_REFUSED) from None


def _is_nonce(text: str) -> bool:
    return 0 < len(text) <= _MAX_NONCE_CHARS and text.isascii() and text.isprintable()


def _unescaped(text: str) -> str:
    if text.count("=") != text.count("=2C") + text.count("=3D"):
        raise SaslAuthenticationFailed(_REFUSED)
    return text.replace("=2C", ",").replace("=3D", "=")
