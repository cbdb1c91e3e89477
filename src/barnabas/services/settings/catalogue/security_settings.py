"""The settings of who may connect, and how that is proved, under Kafka's names: a part of `BrokerConfig`.

Each can be set for one listener, as in ``listener.name.external.ssl.client.auth``, and those of SASL for one mechanism
of it, as in ``listener.name.external.oauthbearer.connections.max.reauth.ms``.
"""

from typing import Annotated, Final

import msgspec

from barnabas.core.access.certificates import parse_mapping_rules
from barnabas.core.errors import BarnabasError
from barnabas.services.settings.catalogue.field import About
from barnabas.services.settings.catalogue.setting import InvalidSetting, SettingType

BOOLEAN, INT, LIST, LONG, PASSWORD, STRING = (
    SettingType.BOOLEAN,
    SettingType.INT,
    SettingType.LIST,
    SettingType.LONG,
    SettingType.PASSWORD,
    SettingType.STRING,
)
SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = ("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER")
PEM, PKCS12 = "PEM", "PKCS12"
_JKS: Final = (
    "a Java keystore cannot be read here; convert it: keytool -importkeystore -srckeystore old.jks -destkeystore "
    "new.p12 -deststoretype PKCS12, and set {} to PKCS12"
)


class SecuritySettings(msgspec.Struct, frozen=True, kw_only=True):
    """TLS and SASL: of all listeners, or of one."""

    allow_anonymous: Annotated[
        bool,
        About(
            BOOLEAN,
            "Barnabas only. Whether a listener that can be reached from other machines may let clients in that do not "
            "prove who they are. Without it such a node does not start.",
        ),
    ] = False
    cluster_secret_file: Annotated[
        str | None,
        About(
            STRING,
            "Barnabas only. A file with a secret of at least 32 characters, the same on all nodes: with it they log in "
            "to each other by SCRAM, without a user in the metadata.",
        ),
    ] = None

    ssl_keystore_location: Annotated[
        str | None,
        About(STRING, "The file with the certificate and the key of this node: PEM, both in one file, or PKCS12."),
    ] = None
    ssl_keystore_type: Annotated[
        str | None, About(STRING, "PEM or PKCS12. Unset: as the name of the file says, else PEM.")
    ] = None
    ssl_keystore_password: Annotated[str | None, About(PASSWORD, "The password of a PKCS12 keystore.")] = None
    ssl_keystore_certificate_chain: Annotated[
        str | None, About(PASSWORD, "The certificate of this node and those above it, as PEM, instead of a file.")
    ] = None
    ssl_keystore_key: Annotated[
        str | None, About(PASSWORD, "The key of this node, PKCS8 as PEM, instead of a file.")
    ] = None
    ssl_key_password: Annotated[str | None, About(PASSWORD, "The password of the key.")] = None
    ssl_truststore_location: Annotated[
        str | None,
        About(
            STRING, "The file with the certificates that are trusted, PEM or PKCS12: of clients, and of other nodes."
        ),
    ] = None
    ssl_truststore_type: Annotated[
        str | None, About(STRING, "PEM or PKCS12. Unset: as the name of the file says, else PEM.")
    ] = None
    ssl_truststore_password: Annotated[str | None, About(PASSWORD, "The password of a PKCS12 truststore.")] = None
    ssl_truststore_certificates: Annotated[
        str | None, About(PASSWORD, "The certificates that are trusted, as PEM, instead of a file.")
    ] = None
    ssl_client_auth: Annotated[
        str,
        About(
            STRING,
            "Whether clients show a certificate: required, requested or none. With SASL_SSL it counts only if it is "
            "set for the listener.",
            choices=("none", "requested", "required"),
        ),
    ] = "none"
    ssl_enabled_protocols: Annotated[
        tuple[str, ...], About(LIST, "The versions of TLS.", choices=("TLSv1.2", "TLSv1.3"))
    ] = ("TLSv1.2", "TLSv1.3")
    ssl_cipher_suites: Annotated[
        tuple[str, ...],
        About(LIST, "The cipher suites of TLS 1.2, by OpenSSL's names. Unset: forward secret ones with AEAD."),
    ] = ()
    ssl_principal_mapping_rules: Annotated[
        str,
        About(STRING, "How the distinguished name of a certificate becomes a user: RULE:pattern/replacement/[LU],.."),
    ] = "DEFAULT"
    ssl_endpoint_identification_algorithm: Annotated[
        str | None,
        About(STRING, "https: the certificate of another node must be for its address. Empty: it need not."),
    ] = "https"
    ssl_handshake_timeout_ms: Annotated[
        int,
        About(INT, "Barnabas only. A connection whose TLS handshake takes longer is closed.", at_least=100),
    ] = 10_000

    sasl_enabled_mechanisms: Annotated[
        tuple[str, ...],
        About(
            LIST,
            "The mechanisms by which clients log in. Kafka's default, GSSAPI, is not supported.",
            choices=MECHANISMS,
        ),
    ] = SCRAM_MECHANISMS
    sasl_server_max_receive_size: Annotated[
        int, About(INT, "The largest message of a client that has not logged in yet.", at_least=1024)
    ] = 524_288
    connections_max_reauth_ms: Annotated[
        int,
        About(
            LONG,
            "A client that logged in must do so again after this long, or its connection is closed. 0: never.",
            at_least=0,
        ),
    ] = 0
    connection_failed_authentication_delay_ms: Annotated[
        int,
        About(
            INT,
            "How long a client waits for the answer that its login failed; longer after many of its address.",
            at_least=0,
            at_most=60_000,
        ),
    ] = 100
    connection_authentication_timeout_ms: Annotated[
        int,
        About(INT, "Barnabas only. A connection that has not logged in after this long is closed.", at_least=100),
    ] = 30_000
    max_connections_authenticating: Annotated[
        int,
        About(
            INT,
            "Barnabas only. The most connections that have not logged in, TLS handshakes included. For one more the "
            "oldest is closed of the address that has the most.",
            at_least=1,
        ),
    ] = 1000
    sasl_mechanism_inter_broker_protocol: Annotated[
        str,
        About(
            STRING,
            "The mechanism by which brokers log in to each other, with the cluster's secret.",
            choices=SCRAM_MECHANISMS,
        ),
    ] = "SCRAM-SHA-256"
    sasl_mechanism_controller_protocol: Annotated[
        str,
        About(
            STRING,
            "The mechanism by which nodes log in to controllers, with the cluster's secret.",
            choices=SCRAM_MECHANISMS,
        ),
    ] = "SCRAM-SHA-256"
    sasl_oauthbearer_jwks_endpoint_url: Annotated[
        str | None, About(STRING, "Where the keys are that sign tokens: an https or file address of a JWKS document.")
    ] = None
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Annotated[
        int, About(LONG, "How often the keys are fetched again.", at_least=1000)
    ] = 3_600_000
    sasl_oauthbearer_expected_issuer: Annotated[
        str | None, About(STRING, "Who must have issued a token. Unset: anybody whose key is known.")
    ] = None
    sasl_oauthbearer_expected_audience: Annotated[
        tuple[str, ...], About(LIST, "For whom tokens must be: one of these. Unset: for anybody.")
    ] = ()
    sasl_oauthbearer_required_scope: Annotated[
        tuple[str, ...], About(LIST, "Barnabas only. The scopes that a token must have, all of them.")
    ] = ()
    sasl_oauthbearer_scope_claim_name: Annotated[str, About(STRING, "The claim with the scopes of a token.")] = "scope"
    sasl_oauthbearer_sub_claim_name: Annotated[str, About(STRING, "The claim with the user of a token.")] = "sub"
    sasl_oauthbearer_clock_skew_seconds: Annotated[
        int, About(INT, "By how much the clocks of the issuer and of this node may differ.", at_least=0, at_most=600)
    ] = 30

    def __post_init__(self) -> None:
        for name, kind in (
            ("ssl.keystore.type", self.ssl_keystore_type),
            ("ssl.truststore.type", self.ssl_truststore_type),
        ):
            if kind is not None and kind.upper() == "JKS":
                raise InvalidSetting(name, f"{name} is JKS: {_JKS.format(name)}")
            if kind is not None and kind.upper() not in (PEM, PKCS12):
                raise InvalidSetting(name, f"{name} cannot be {kind!r}; allowed: PEM, PKCS12")
        for name, location in (
            ("ssl.keystore", self.ssl_keystore_location),
            ("ssl.truststore", self.ssl_truststore_location),
        ):
            if location is not None and location.lower().endswith(".jks"):
                raise InvalidSetting(
                    f"{name}.location", f"{name}.location is {location}: {_JKS.format(name + '.type')}"
                )
        if (self.ssl_endpoint_identification_algorithm or "").lower() not in ("", "https"):
            name = "ssl.endpoint.identification.algorithm"
            raise InvalidSetting(name, f"{name} may be https or empty")
        try:
            parse_mapping_rules(self.ssl_principal_mapping_rules)
        except BarnabasError as refusal:
            raise InvalidSetting("ssl.principal.mapping.rules", str(refusal)) from None

    @property
    def has_certificate(self) -> bool:
        return bool(self.ssl_keystore_location or self.ssl_keystore_certificate_chain)
