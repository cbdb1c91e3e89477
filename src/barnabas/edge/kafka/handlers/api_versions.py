"""ApiVersions, versions 0 to 4: what this broker serves.

Differs from Kafka: an unknown version is answered with the whole list, not with the versions of ApiVersions alone, so
that a client that reads on needs no second request. A feature is listed once it is implemented.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from barnabas.core.errors import InvalidRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import On, listeners_of, served_on, serves
from barnabas.services.broker import Broker
from barnabas.services.features import SUPPORTED_FEATURES, finalized_features
from barnabas.services.session import Software
from barnabas.wire.apis import API_VERSIONS
from barnabas.wire.errors import UnservedVersion
from barnabas.wire.frame import RequestHeader, answer_head
from barnabas.wire.responses import write_response

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import api_versions as message

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_FROM: Final = 3


@cache
def _api_keys(listeners: On) -> list[message.ApiVersion]:
    """The APIs served on listeners of a kind."""
    return [
        {"api_key": key, "min_version": served.advertised_from, "max_version": served.max_version}
        for key, served in served_on(listeners).items()
    ]


@serves(API_VERSIONS, 0, 4, on=On.ALL)
async def handle(broker: Broker, request: message.ApiVersionsRequest, asked: Asked) -> message.ApiVersionsResponse:
    """See the module."""
    if asked.version >= _SOFTWARE_FROM:
        software = Software(request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(each) for each in software):
            return {"error_code": InvalidRequest.kafka_code}
        asked.session.software = software
        broker.own_addresses.note(software.version)
    kraft_version = 0 if broker.quorum is None else broker.quorum.kraft_version
    return {
        "error_code": 0,
        "api_keys": _api_keys(listeners_of(asked.session)),
        "supported_features": [
            {"name": name, "min_version": lowest, "max_version": highest}
            for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            if lowest > 0 or asked.version >= 4  # older clients cannot read a lowest level of 0
        ],
        "finalized_features_epoch": max(broker.metadata.applied_offset - 1, 0),
        "finalized_features": [
            {"name": name, "min_version_level": level, "max_version_level": level}
            for name, level in sorted(finalized_features(broker.image, kraft_version=kraft_version).items())
        ],
    }


def answer_unknown_version(header: RequestHeader, listeners: On) -> list[bytes]:
    """The framed answer to a version that is not served: version 0, which every client can read."""
    values = {"error_code": UnservedVersion.kafka_code, "api_keys": _api_keys(listeners)}
    body = bytes(write_response(API_VERSIONS.key, 0, values))
    return [answer_head(header, len(body)) + body]
