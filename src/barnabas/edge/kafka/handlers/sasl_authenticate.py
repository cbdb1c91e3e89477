"""SaslAuthenticate, versions 0 to 2: where nobody logs in it is ILLEGAL_SASL_STATE.

A login itself is in `edge.kafka.authenticating`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.errors import IllegalSaslState
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import SASL_AUTHENTICATE

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import sasl_authenticate as message


@serves(SASL_AUTHENTICATE, 0, 2, on=On.ALL)
async def handle(
    _broker: Broker, _request: message.SaslAuthenticateRequest, _asked: Asked
) -> message.SaslAuthenticateResponse:
    """See the module."""
    return {**refused(IllegalSaslState("SaslAuthenticate without a SaslHandshake before it")), "auth_bytes": b""}
