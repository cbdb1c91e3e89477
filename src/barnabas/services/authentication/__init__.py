"""Authentication: who the client of a connection is. One module for each mechanism of SASL.

An edge asks `Authentication` for an exchange by the mechanism that a client has chosen, passes each message of the
client to it, and gets back what to answer, until it has the client's identity or a refusal.
"""

from barnabas.services.authentication.authentication import Authentication
from barnabas.services.authentication.callers import Callers
from barnabas.services.authentication.exchange import Exchange, Identity, Reply

__all__ = ["Authentication", "Callers", "Exchange", "Identity", "Reply"]
