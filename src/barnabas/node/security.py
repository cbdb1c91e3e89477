"""The security of one node: certificates, the cluster's secret, who clients are, and how it proves itself to others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.core.errors import InvalidConfig
from barnabas.core.metadata.credentials import RESERVED_PREFIX
from barnabas.node.ports import Ports
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.grpc_settings import LOOPBACK
from barnabas.services.settings.catalogue.http_settings import (
    is_loopback,
    parse_http_listener,
    requires_metrics_login,
)
from barnabas.services.settings.catalogue.listener import PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL
from barnabas.services.settings.catalogue.security_settings import PKCS12, SecuritySettings
from barnabas.storage.small_file import read_file

if TYPE_CHECKING:
    from barnabas.core.access.cluster_secret import ClusterSecret
    from barnabas.runtime.cluster_metadata import ImageSource
    from barnabas.runtime.peers.channel import Authenticate, TlsContext
    from barnabas.runtime.tls import Tls, TlsConfig
    from barnabas.services.authentication import Authentication

LOOK_S: Final = 5.0
"""How often the files of certificates are looked at."""
_CLIENT_AUTH: Final = "ssl.client.auth"


class PeerSecurity(NamedTuple):
    """How connections to a listener of other nodes begin."""

    tls: TlsContext | None = None
    authenticate: Authenticate | None = None


def check_protected(config: BrokerConfig) -> None:
    """Refuse to listen for other machines where clients need not say who they are, unless that is wanted."""
    _check_metrics(config)
    if config.security.allow_anonymous:
        return
    _check_grpc(config)
    for listener in config.listeners:
        if not config.asks_clients(listener.name) and not listener.is_local:
            raise InvalidConfig(
                f"the listener {listener} can be reached from other machines, and does not ask who its clients are. "
                f"Have them log in (listener.security.protocol.map={listener.name}:SASL_SSL; 'barnabas security init' "
                "makes all that this needs, see docs/security.md), listen on 127.0.0.1 alone, or set "
                "allow.anonymous=true if the network itself keeps others out"
            )


def _check_metrics(config: BrokerConfig) -> None:
    """Refuse metrics that nobody could log in to read."""
    address = parse_http_listener(config.http.http_listener)
    if address is None or config.http.metrics_token_file is not None:
        return
    is_local, allows_anonymous = is_loopback(address[0]), config.security.allow_anonymous
    if not requires_metrics_login(config.http, is_local=is_local, allows_anonymous=allows_anonymous):
        return
    clients = [each.name for each in config.listeners if not config.is_for_controllers(each.name)]
    if any(config.protocol_of(name) in (SASL_PLAINTEXT, SASL_SSL) for name in clients):
        return
    raise InvalidConfig(
        f"http.listener is {config.http.http_listener}, and nobody could log in to read /metrics there: clients of "
        "this node have no passwords. Write a token to a file (openssl rand -hex 32) and set metrics.token.file, "
        "listen on 127.0.0.1 alone, or set metrics.authentication=none, or allow.anonymous=true, if the network itself "
        "keeps others out"
    )


def _check_grpc(config: BrokerConfig) -> None:
    grpc = config.grpc
    if grpc.address is None or grpc.address[0] in LOOPBACK or grpc.grpc_tls_client_ca_file is not None:
        return
    if not any(config.asks_clients(each.name) for each in config.listeners if not config.is_for_controllers(each.name)):
        raise InvalidConfig(
            f"grpc.listener is {grpc.grpc_listener}, where everybody could read and write without logging in: clients "
            "of this node do not log in. Listen on 127.0.0.1, or set grpc.tls.client.ca.file"
        )


class NodeSecurity:
    """Made before anything else of a node: what cannot work is refused then."""

    def __init__(self, config: BrokerConfig, ports: Ports) -> None:
        self._config = config
        self._ports = ports
        self._secret = self._read_secret()
        self._served = [listener.name for listener in config.listeners]
        self.tls: dict[str, Tls] = {
            name: _tls(config, name) for name in self._served if config.protocol_of(name) in (SSL, SASL_SSL)
        }
        self._outward: dict[str, Tls] = {}

    def _read_secret(self) -> ClusterSecret | None:
        path = self._config.security.cluster_secret_file
        if path is None:
            return None
        data = read_file(self._ports.disk, path)
        if data is None:
            raise InvalidConfig(f"cluster.secret.file is {path}, which does not exist")
        from barnabas.core.access.cluster_secret import ClusterSecret  # noqa: PLC0415 - few nodes have one

        return ClusterSecret(data.decode(errors="replace"))

    def authentication(self, metadata: ImageSource) -> Authentication | None:
        """Who clients are; None if no listener asks."""
        if not any(self._config.protocol_of(name) != PLAINTEXT for name in self._served):
            return None
        from barnabas.services.authentication import Authentication  # noqa: PLC0415 - few nodes ask their clients
        from barnabas.services.authentication.users import Users  # noqa: PLC0415

        users = Users(metadata, self._ports.dice, self._secret)
        ports = self._ports
        return Authentication(self._config, users, clock=ports.clock, dice=ports.dice, threads=ports.threads)

    def peers_of(self, listener: str, *, is_for_controllers: bool) -> PeerSecurity:
        """How to connect to this listener of other nodes."""
        config, protocol = self._config, self._config.protocol_of(listener)
        tls, authenticate = None, None
        if protocol in (SSL, SASL_SSL):
            held = self.tls.get(listener) or self._outward.get(listener)
            if held is None:
                held = self._outward[listener] = _tls(config, listener, is_server=False)
            tls = _client_context_of(held)
        if protocol in (SASL_PLAINTEXT, SASL_SSL):
            settings = config.security_of(listener)
            mechanism = (
                settings.sasl_mechanism_controller_protocol
                if is_for_controllers
                else settings.sasl_mechanism_inter_broker_protocol
            )
            if self._secret is None:
                raise InvalidConfig(
                    f"nodes log in to the listener {listener} of each other, and they share no secret: write one to a "
                    "file (openssl rand -hex 32), the same on all nodes, and set cluster.secret.file"
                )
            if listener in self._served and mechanism not in settings.sasl_enabled_mechanisms:
                raise InvalidConfig(
                    f"nodes log in to the listener {listener} by {mechanism}, and its sasl.enabled.mechanisms does not "
                    "include that"
                )
            user = f"{RESERVED_PREFIX}{config.node_id}"
            from barnabas.runtime.peers.login import NodeLogin  # noqa: PLC0415 - few nodes log in

            authenticate = NodeLogin(self._secret, user, mechanism, self._ports.dice)
        return PeerSecurity(tls, authenticate)

    def check_super_user(self, listener: str) -> None:
        """Refuse a node that the others would not let do its work: known by no secret, it has to be a super user."""
        config, protocol = self._config, self._config.protocol_of(listener)
        access = config.access
        if access.authorizer_class_name is None or access.allow_everyone_if_no_acl_found:
            return
        from barnabas.core.access.certificates import parse_mapping_rules, user_of  # noqa: PLC0415 - few nodes need it
        from barnabas.runtime.tls import own_subject  # noqa: PLC0415
        from barnabas.services.formation import place_of  # noqa: PLC0415
        from barnabas.services.session import ANONYMOUS, Principal  # noqa: PLC0415

        if place_of(config).is_alone or protocol in (SASL_PLAINTEXT, SASL_SSL):
            return
        tls = _tls_config(config, listener)
        subject = own_subject(tls) if protocol == SSL and tls.client_auth != "none" else None
        rules = parse_mapping_rules(config.security_of(listener).ssl_principal_mapping_rules)
        principal = ANONYMOUS if subject is None else Principal("User", user_of(subject, rules))
        if str(principal) not in access.super_user_names:
            by = "which does not ask who they are" if subject is None else "by its certificate"
            raise InvalidConfig(
                f"this node is {principal} to the others on the listener {listener}, {by}, and {principal} is not in "
                "super.users: with an authorizer they would refuse its work. Name all nodes in super.users, on every "
                "node, with a ; between them (ssl.principal.mapping.rules makes names shorter; an ACL would not do, "
                "since nodes need it to read where it is), or have nodes log in with SASL and cluster.secret.file"
            )

    def begin(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Begin to look at the files of certificates regularly, if there are any."""
        used = (*self.tls.values(), *self._outward.values())
        return [tasks.create_task(self._watch_files())] if any(tls.config.files for tls in used) else []

    async def _watch_files(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for tls in (*self.tls.values(), *self._outward.values()):
                await self._ports.threads.background.run(tls.look)


def _client_context_of(held: Tls) -> TlsContext:
    return lambda: held.client


def _tls(config: BrokerConfig, listener: str, *, is_server: bool = True) -> Tls:
    from barnabas.runtime.tls import Tls  # noqa: PLC0415 - few listeners have TLS

    return Tls(_tls_config(config, listener), is_server=is_server)


def _tls_config(config: BrokerConfig, listener: str) -> TlsConfig:
    from barnabas.runtime.tls import TlsConfig  # noqa: PLC0415

    settings = config.security_of(listener)
    is_asked = config.protocol_of(listener) == SSL or _CLIENT_AUTH in config.of_listeners.get(listener.lower(), {})
    return TlsConfig(
        keystore_file=settings.ssl_keystore_location,
        is_keystore_pkcs12=_is_pkcs12(settings.ssl_keystore_location, settings.ssl_keystore_type),
        keystore_password=settings.ssl_keystore_password,
        certificate_chain=settings.ssl_keystore_certificate_chain,
        key=settings.ssl_keystore_key,
        key_password=settings.ssl_key_password,
        truststore_file=settings.ssl_truststore_location,
        is_truststore_pkcs12=_is_pkcs12(settings.ssl_truststore_location, settings.ssl_truststore_type),
        truststore_password=settings.ssl_truststore_password,
        trusted=settings.ssl_truststore_certificates,
        client_auth=settings.ssl_client_auth if is_asked else "none",
        protocols=settings.ssl_enabled_protocols or SecuritySettings().ssl_enabled_protocols,
        ciphers=settings.ssl_cipher_suites,
        checks_hosts=bool(settings.ssl_endpoint_identification_algorithm),
        handshake_timeout_s=settings.ssl_handshake_timeout_ms / 1000,
    )


def _is_pkcs12(location: str | None, kind: str | None) -> bool:
    if kind is not None:
        return kind.upper() == PKCS12
    return (location or "").lower().endswith((".p12", ".pfx"))
