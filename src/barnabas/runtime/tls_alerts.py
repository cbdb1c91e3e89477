"""The server's side of TLS handshakes that tells a client why it is refused: by the alert that OpenSSL has written.

Event loops close the connection of a handshake that fails, and leave the alert unsent. A client takes that for a
network that broke, and tries again for as long as it may. Here the handshake claims once that it waits for the client,
upon which the loop sends what there is to send. Clients hang up when they read an alert; one that does not is closed at
the next thing it sends, or when the time for the handshake is over.
"""

import ssl
from contextvars import ContextVar
from typing import Final

REFUSED: Final[ContextVar[list[ssl.SSLError]]] = ContextVar("REFUSED")
"""Takes the reason of a handshake that fails. Set by the task that has the loop shake hands."""


class AlertingContext(ssl.SSLContext):
    """A context whose handshakes send their alerts."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, _AlertingObject)
        made.outgoing, made.refused = outgoing, REFUSED.get([])
        return made


class _AlertingObject(ssl.SSLObject):
    outgoing: ssl.MemoryBIO
    refused: list[ssl.SSLError]

    def do_handshake(self) -> None:
        if self.refused:
            raise self.refused[0]
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self.refused.append(error)
            if not self.outgoing.pending:
                raise
            raise ssl.SSLWantReadError("the alert is to be sent") from None


AlertingContext.sslobject_class = _AlertingObject
