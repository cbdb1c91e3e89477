"""SaslHandshake, versions 0 and 1: where nobody logs in, or has to do so again, it is ILLEGAL_SASL_STATE.

A login itself is in `edge.kafka.authenticating`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.errors import IllegalSaslState
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import SASL_HANDSHAKE

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import sasl_handshake as message


@serves(SASL_HANDSHAKE, 0, 1, on=On.ALL)
async def handle(
    _broker: Broker, _request: message.SaslHandshakeRequest, _asked: Asked
) -> message.SaslHandshakeResponse:
    """See the module."""
    return {"error_code": IllegalSaslState.kafka_code, "mechanisms": []}
