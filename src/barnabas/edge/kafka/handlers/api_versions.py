"""ApiVersions, versions 0 to 4: what this broker serves.

Differs from Kafka: an unknown version is answered with the whole list, not with the versions of ApiVersions alone, so
that a client that reads on needs no second request. A feature is there once what stands behind it is.
"""

import re
from typing import Any, Final

from barnabas.core.errors import InvalidRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.services.broker import Broker
from barnabas.services.features import SUPPORTED_FEATURES, finalized_features
from barnabas.wire.apis import API_VERSIONS, APIS
from barnabas.wire.errors import UnsupportedVersion
from barnabas.wire.frame import RequestHeader, answer_head
from barnabas.wire.responses import Values, write_response

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_API_KEYS: Final = [
    {
        "api_key": api.key,
        "min_version": api.min_version if api.advertised_from is None else api.advertised_from,
        "max_version": api.max_version,
    }
    for api in sorted(APIS.values())
]


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    if asked.version >= 3 and not _is_software(request.client_software_name, request.client_software_version):
        return {"error_code": InvalidRequest.kafka_code}
    return {
        "error_code": 0,
        "api_keys": _API_KEYS,
        "throttle_time": 0,
        "supported_features": [
            {"name": name, "min_version": lowest, "max_version": highest}
            for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            if lowest > 0 or asked.version >= 4  # older clients cannot read a lowest level of 0
        ],
        "finalized_features_epoch": max(broker.metadata.high_watermark - 1, 0),
        "finalized_features": [
            {"name": name, "min_version_level": level, "max_version_level": level}
            for name, level in sorted(finalized_features(broker.image).items())
        ],
    }


def _is_software(name: str, version: str) -> bool:
    return _SOFTWARE.fullmatch(name) is not None and _SOFTWARE.fullmatch(version) is not None


def answer_unknown_version(header: RequestHeader) -> list[bytes]:
    """The framed answer to a version that is not served: version 0, which every client can read."""
    body = bytes(
        write_response(API_VERSIONS.key, 0, {"error_code": UnsupportedVersion.kafka_code, "api_keys": _API_KEYS})
    )
    return [answer_head(header, len(body)) + body]
