"""The settings of the gRPC edge: a part of `BrokerConfig`. All of them are Barnabas's own."""

from typing import Annotated, Final

import msgspec

from barnabas.services.settings.catalogue.field import About
from barnabas.services.settings.catalogue.setting import InvalidSetting, SettingType

INT, STRING = SettingType.INT, SettingType.STRING
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_MAX_PORT: Final = 65535


class GrpcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where gRPC is served, and how much of it."""

    grpc_listener: Annotated[
        str | None,
        About(
            STRING,
            "Barnabas only. The address to serve gRPC on, as host:port; 127.0.0.1:9095 is usual. Port 0: any free one. "
            "Unset: gRPC is not served. Needs barnabas[grpc]. An address other than this machine's own needs "
            "grpc.tls.certificate.file, and clients who log in or have certificates (grpc.tls.client.ca.file).",
        ),
    ] = None
    grpc_max_request_bytes: Annotated[
        int,
        About(INT, "Barnabas only. The largest message that is accepted over gRPC.", at_least=1024, at_most=2**30),
    ] = 4 * 1024 * 1024
    grpc_max_streams: Annotated[
        int,
        About(INT, "Barnabas only. The most streams of gRPC that are open at once; any more are refused.", at_least=1),
    ] = 1000
    grpc_max_calls: Annotated[
        int,
        About(
            INT,
            "Barnabas only. The most calls of gRPC at once, streams included; any more are refused.",
            at_least=1,
        ),
    ] = 2000
    grpc_tls_certificate_file: Annotated[
        str | None,
        About(STRING, "Barnabas only. The certificate chain of gRPC, as PEM. Unset: without TLS."),
    ] = None
    grpc_tls_key_file: Annotated[
        str | None, About(STRING, "Barnabas only. The private key of grpc.tls.certificate.file, as PEM.")
    ] = None
    grpc_tls_client_ca_file: Annotated[
        str | None,
        About(
            STRING,
            "Barnabas only. Clients of gRPC must have a certificate that one of these authorities (PEM) has signed; "
            "its distinguished name is the principal, as in User:CN=alice; ssl.principal.mapping.rules shortens it.",
        ),
    ] = None

    @property
    def address(self) -> tuple[str, int] | None:
        """The host and port to listen on; None: gRPC is off."""
        if self.grpc_listener is None:
            return None
        host, _, port = self.grpc_listener.rpartition(":")
        host = host.strip("[]")
        if not host or not port.isdecimal() or int(port) > _MAX_PORT:
            raise InvalidSetting(
                "grpc.listener", f"grpc.listener is {self.grpc_listener!r}; allowed: host:port, as in 127.0.0.1:9095"
            )
        return host, int(port)

    def check(self) -> None:
        """Refuse settings that contradict each other."""
        if (self.grpc_tls_certificate_file is None) != (self.grpc_tls_key_file is None):
            raise InvalidSetting(
                "grpc.tls.key.file", "grpc.tls.certificate.file and grpc.tls.key.file are given together, or neither"
            )
        if self.grpc_tls_client_ca_file is not None and self.grpc_tls_certificate_file is None:
            raise InvalidSetting(
                "grpc.tls.client.ca.file", "grpc.tls.client.ca.file needs grpc.tls.certificate.file: it is about TLS"
            )
        address = self.address
        if address is not None and address[0] not in LOOPBACK and self.grpc_tls_certificate_file is None:
            raise InvalidSetting(
                "grpc.listener",
                f"grpc.listener is {self.grpc_listener}, where what is sent could be read on the way, passwords "
                "included; listen on 127.0.0.1, or set grpc.tls.certificate.file and grpc.tls.key.file",
            )
