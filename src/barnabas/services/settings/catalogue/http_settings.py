"""The broker's settings of HTTP and metrics: a part of `BrokerConfig`. Kafka has none of them."""

import ipaddress
from contextlib import suppress
from typing import Annotated

import msgspec

from barnabas.services.settings.catalogue.field import About
from barnabas.services.settings.catalogue.setting import InvalidSetting, SettingType

BOOLEAN, INT, LIST, STRING = SettingType.BOOLEAN, SettingType.INT, SettingType.LIST, SettingType.STRING
OFF = "off"
NONE, REQUIRED = "none", "required"


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node serves HTTP, and what of it."""

    http_listener: Annotated[
        str | None,
        About(
            STRING,
            "Barnabas only. Where HTTP is served, as host:port: /metrics, /healthz, /readyz, and /api/v1 where "
            "barnabas[http] is installed. 'off': nowhere. Unset: barnabas serve takes 127.0.0.1:9644 if it is free; an "
            "embedded broker serves none.",
        ),
    ] = None
    http_api_enable: Annotated[
        bool,
        About(BOOLEAN, "Barnabas only. Whether /api/v1 is served. Without it only metrics and health are."),
    ] = True
    http_write_enable: Annotated[
        bool,
        About(
            BOOLEAN,
            "Barnabas only. Whether the API writes: produces records, creates, alters and deletes topics, resets "
            "groups. Reading and dry runs work either way.",
        ),
    ] = True
    http_export_enable: Annotated[
        bool, About(BOOLEAN, "Barnabas only. Whether the API exports records of a topic as a file.")
    ] = True
    http_allowed_hosts: Annotated[
        tuple[str, ...],
        About(
            LIST,
            "Barnabas only. The names under which this node may be called over HTTP, besides addresses and localhost.",
        ),
    ] = ()
    http_allowed_origins: Annotated[
        tuple[str, ...],
        About(
            LIST,
            "Barnabas only. The origins whose pages may call the API from a browser, as https://console.example.",
        ),
    ] = ()
    http_tls_certificate_file: Annotated[
        str | None,
        About(
            STRING,
            "Barnabas only. The certificate chain of HTTP, as PEM, read at the start. Unset: without TLS, and where "
            "clients have to log in the API is for this machine alone.",
        ),
    ] = None
    http_tls_key_file: Annotated[
        str | None, About(STRING, "Barnabas only. The private key of http.tls.certificate.file, as PEM.")
    ] = None
    http_token_lifetime_ms: Annotated[
        int,
        About(INT, "Barnabas only. How long a token is valid that is given for a log-in over HTTP.", at_least=1000),
    ] = 900_000
    metrics_max_series: Annotated[
        int,
        About(
            INT,
            "Barnabas only. The most numbers in one answer of /metrics. barnabas_metrics_series_dropped says how many "
            "were left out.",
            at_least=1,
        ),
    ] = 20_000
    metrics_partitions_enable: Annotated[
        bool,
        About(
            BOOLEAN,
            "Barnabas only. Whether /metrics has the numbers of each partition without being asked for them "
            "(?partitions=1).",
        ),
    ] = False
    metrics_authentication: Annotated[
        str | None,
        About(
            STRING,
            "Barnabas only. Whether who reads /metrics has to log in, by the password of a user or a token. Unset: "
            "where http.listener can be reached from other machines, unless allow.anonymous=true.",
            choices=(NONE, REQUIRED),
        ),
    ] = None
    metrics_token_file: Annotated[
        str | None,
        About(
            STRING,
            "Barnabas only. A file with a token, of at least 16 characters, by which /metrics can be read and nothing "
            "else (authorization: Bearer), read at the start.",
        ),
    ] = None
    is_given_by_default: bool = False  # the address is what `barnabas serve` takes by itself: not needed


def check_http(settings: HttpSettings) -> None:
    """Refuse settings that contradict each other."""
    parse_http_listener(settings.http_listener)
    if (settings.http_tls_certificate_file is None) != (settings.http_tls_key_file is None):
        raise InvalidSetting(
            "http.tls.key.file", "http.tls.certificate.file and http.tls.key.file are given together, or neither"
        )


def requires_metrics_login(settings: HttpSettings, *, is_local: bool, allows_anonymous: bool) -> bool:
    """Whether who reads the metrics has to log in; `is_local`: only this machine can reach the address."""
    if settings.metrics_authentication is not None:
        return settings.metrics_authentication == REQUIRED
    return not is_local and not allows_anonymous


def parse_http_listener(text: str | None) -> tuple[str, int] | None:
    """The host and the port of `http.listener`; None: HTTP is off."""
    if text is None or text.strip().lower() == OFF:
        return None
    host, colon, port = text.strip().rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise InvalidSetting("http.listener", f"http.listener cannot be {text!r}; allowed: host:port, or off")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
