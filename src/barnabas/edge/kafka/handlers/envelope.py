"""Envelope, version 0: a request that another node was asked, with its caller, for the active controller.

The answer names in a field of our own the offset up to which this node had applied the metadata when the request was
carried out. NOT_CONTROLLER says that nothing was done, and that the other node may look for the controller: so an
answer in which the leadership was lost before anything was changed becomes that. Any other refusal is the sender's
fault, and is not told to the client as its own.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, InvalidRequest, NotController, PrincipalDeserializationFailure
from barnabas.edge.kafka.answering import MAX_REQUEST_BYTES, carry_out, read, write
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.envelopes import NODE_ITSELF, codes_in, is_not_taken
from barnabas.edge.kafka.registry import FORWARDED, SERVED, On, serves
from barnabas.services.broker import Broker
from barnabas.services.session import Principal, Session
from barnabas.wire.apis import ENVELOPE
from barnabas.wire.errors import MalformedRequest
from barnabas.wire.frame import LENGTH_SIZE, RequestHeader, read_request_header
from barnabas.wire.principal import read_principal

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import envelope as message

_KEY_SIZE: Final = 2
_UNKNOWN_PORT: Final = 0


@serves(ENVELOPE, 0, 0, on=On.CONTROLLERS)
async def handle(broker: Broker, request: message.EnvelopeRequest, asked: Asked) -> message.EnvelopeResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.CLUSTER_ACTION, CLUSTER)
        session = _caller(request, asked.session)
        header = _header(request.request_data)
        session.client_id = header.client_id
        session.request = header.api.name
        if not _leads(broker):
            raise NotController("this node is not the active controller")
        inner = await read(header, request.request_data)
        values = await carry_out(broker, header, inner, Asked(header.version, session))
        if not _leads(broker) and is_not_taken(codes_in(values)):
            raise NotController("this node is no longer the active controller")
    except BarnabasError as error:
        return {"error_code": error.kafka_code}
    applied_offset = broker.metadata.applied_offset
    answer = b"".join(await write(header, inner, values))
    return {"error_code": 0, "response_data": answer[LENGTH_SIZE:], "metadata_offset": applied_offset}


def _leads(broker: Broker) -> bool:
    return broker.metadata.is_active


def _caller(request: message.EnvelopeRequest, sender: Session) -> Session:
    """The client that asked the node that sent this."""
    try:
        principal = read_principal(request.request_principal or b"")
    except MalformedRequest as error:
        raise PrincipalDeserializationFailure(str(error)) from None
    try:
        host = str(ipaddress.ip_address(request.client_host_address))
    except ValueError:
        raise InvalidRequest("an address has 4 or 16 bytes") from None
    session = Session(
        listener=sender.listener,
        peer=(host, _UNKNOWN_PORT),
        local=sender.local,
        is_for_controllers=sender.is_for_controllers,
    )
    session.principal = Principal(principal.kind, principal.name)
    session.is_forwarded = True
    session.is_node = session.principal == NODE_ITSELF.principal
    return session


def _header(data: bytes) -> RequestHeader:
    key = int.from_bytes(data[:_KEY_SIZE], "big")
    if key not in FORWARDED:
        raise InvalidRequest(f"API {key} is not for the controller: it cannot be in an envelope")
    if len(data) > MAX_REQUEST_BYTES:
        raise InvalidRequest(f"a request of {len(data)} bytes in an envelope; the maximum is {MAX_REQUEST_BYTES}")
    return read_request_header(memoryview(data), 0, len(data), {key: SERVED[key]})
