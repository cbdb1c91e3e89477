"""How a node logs in to another one: by SCRAM, with what all nodes make of the cluster's secret."""

import base64
from typing import Final

from barnabas.core.access.cluster_secret import ClusterSecret
from barnabas.core.access.scram import DEFAULT_ITERATIONS
from barnabas.core.access.scram_client import check_verdict, first_message, prove
from barnabas.core.errors import SaslAuthenticationFailed
from barnabas.runtime.dice import Dice
from barnabas.runtime.peers.connection import PeerConnection
from barnabas.wire.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE

_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2


class NodeLogin:
    """Logs in over a new connection; an `Authenticate` of `Peers`."""

    def __init__(self, secret: ClusterSecret, user: str, mechanism: str, dice: Dice) -> None:
        self._secret = secret
        self._user = user
        self._mechanism = mechanism
        self._dice = dice

    async def __call__(self, connection: PeerConnection) -> None:
        mechanism = self._mechanism
        answer = await connection.ask(SASL_HANDSHAKE.key, _HANDSHAKE_VERSION, {"mechanism": mechanism})
        if int(answer.error_code):
            offered = ", ".join(answer.mechanisms) or "none"
            raise SaslAuthenticationFailed(f"it does not accept logins by {mechanism}; those it does: {offered}")
        nonce = base64.b64encode(self._dice.token_bytes(24)).decode()
        challenge = await self._send(connection, first_message(self._user, nonce))
        proof = prove(
            mechanism,
            self._user,
            nonce,
            challenge,
            salted=self._secret.salted(mechanism),
            salt=self._secret.salt(mechanism),
            iterations=DEFAULT_ITERATIONS,
        )
        check_verdict(proof, await self._send(connection, proof.message))

    async def _send(self, connection: PeerConnection, message: bytes) -> bytes:
        answer = await connection.ask(SASL_AUTHENTICATE.key, _AUTHENTICATE_VERSION, {"auth_bytes": message})
        if int(answer.error_code):
            raise SaslAuthenticationFailed(f"it refused the login of this node: {answer.error_message}")
        return bytes(answer.auth_bytes)
