"""SCRAM, the side that logs in: for a node that logs in to another one."""

import base64
import binascii
import hashlib
import hmac
from typing import Final, NamedTuple

from barnabas.core.access.scram import DIGESTS
from barnabas.core.errors import SaslAuthenticationFailed

_NO_BINDING: Final = "n,,"
_BINDING: Final = base64.b64encode(_NO_BINDING.encode()).decode()


class ClientProof(NamedTuple):
    """The last message of a login, and what the other side must answer to prove that it knows the password, too."""

    message: bytes
    expected: bytes


def first_message(user: str, nonce: str) -> bytes:
    """The first message; the nonce must be fresh and unpredictable."""
    return f"{_NO_BINDING}{_bare(user, nonce)}".encode()


def _bare(user: str, nonce: str) -> str:
    return f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"


def prove(
    mechanism: str, user: str, nonce: str, challenge: bytes, *, salted: bytes, salt: bytes, iterations: int
) -> ClientProof:
    """The answer to a challenge, which must be for this salt: the salted password was made before."""
    try:
        fields = dict(part.partition("=")[::2] for part in challenge.decode("ascii").split(","))
        is_own_salt = base64.b64decode(fields.get("s", ""), validate=True) == salt
    except (UnicodeDecodeError, binascii.Error, ValueError):
        raise SaslAuthenticationFailed("its challenge is not one of SCRAM") from None
    together = fields.get("r", "")
    if not together.startswith(nonce) or together == nonce:
        raise SaslAuthenticationFailed("it answered with the nonce of another login")
    if not is_own_salt or fields.get("i") != str(iterations):
        raise SaslAuthenticationFailed("it does not have the secret of this cluster")
    digest = DIGESTS[mechanism]
    ending = f"c={_BINDING},r={together}"
    transcript = b",".join((_bare(user, nonce).encode(), challenge, ending.encode()))
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), transcript, digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    server_key = hmac.digest(salted, b"Server Key", digest)
    expected = b"v=" + base64.b64encode(hmac.digest(server_key, transcript, digest))
    return ClientProof(f"{ending},p={proof}".encode(), expected)


def check_verdict(proof: ClientProof, verdict: bytes) -> None:
    """Refuse another side that lets us in without knowing the password."""
    if not hmac.compare_digest(verdict, proof.expected):
        raise SaslAuthenticationFailed("it could not prove that it has the secret of this cluster")
