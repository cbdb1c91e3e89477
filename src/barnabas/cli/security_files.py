"""What `barnabas security init` writes: a private CA, a certificate for each node, a secret, an admin, settings.

Files are readable for their owner alone, and none is replaced.
"""

import datetime
import ipaddress
import os
import secrets
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from barnabas.core.errors import InvalidConfig
from barnabas.core.uuids import id_text

CA_DAYS: Final = 3650
NODE_DAYS: Final = 825
ADMIN: Final = "admin"
_LOCAL: Final = ("127.0.0.1", "localhost", "::1")


class NodeAt(NamedTuple):
    """A node, and where it listens for clients; for controllers it listens on the next port."""

    node_id: int
    host: str
    port: int


class Made(NamedTuple):
    """What was written."""

    cluster_id: str
    configs: list[Path]
    users: Path
    client: Path


def parse_node(node_id: int, text: str) -> NodeAt:
    """A node of ``--node HOST[:PORT]``."""
    host, _, port = text.rpartition(":") if ":" in text and not text.endswith("]") else (text, "", "9092")
    if not host or not port.isdecimal() or not 0 < int(port) < 65535:
        raise InvalidConfig(f"--node takes HOST or HOST:PORT, not {text!r}")
    return NodeAt(node_id, host.strip("[]"), int(port))


def make_files(directory: Path, nodes: Sequence[NodeAt]) -> Made:
    """Write everything into a directory, which is made; refused if something is there already."""
    if directory.exists() and any(directory.iterdir()):
        raise InvalidConfig(f"{directory} is not empty: name another directory, or remove it")
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    directory.chmod(0o700)
    authority = _Authority()
    password, cluster_id = secrets.token_urlsafe(24), id_text(uuid.uuid4())
    _write(directory / "ca.pem", authority.certificate.public_bytes(Encoding.PEM))
    _write(directory / "ca.key", _pem_of(authority.key))
    _write(directory / "cluster.secret", f"{secrets.token_hex(32)}\n".encode())
    users = directory / "users"
    lines = [f"{mechanism}=[name={ADMIN},password={password}]\n" for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
    _write(users, "".join(lines).encode())
    configs = []
    for node in nodes:
        home = directory / f"node-{node.node_id}"
        home.mkdir(mode=0o700)
        _write(home / "node.pem", authority.issue(node))
        configs.append(home / "server.properties")
        _write(configs[-1], _server_properties(directory, node, nodes, cluster_id).encode())
    client = directory / "client.properties"
    _write(client, _client_properties(directory, nodes, password).encode())
    return Made(cluster_id, configs, users, client)


class _Authority:
    """A private CA, which signs certificates of nodes."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(f"Barnabas CA {secrets.token_hex(4)}")
        identifier = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        self.certificate = (
            _builder(self._name, self._name, self.key, CA_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(is_authority=True), critical=True)
            .add_extension(identifier, critical=False)
            .sign(self.key, hashes.SHA256())
        )

    def issue(self, node: NodeAt) -> bytes:
        """The certificate of a node and its key, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = dict.fromkeys((node.host, *_LOCAL) if node.host in (*_LOCAL, "0.0.0.0", "::") else (node.host,))
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _builder(_name(f"node-{node.node_id}"), self._name, key, NODE_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return certificate.public_bytes(Encoding.PEM) + _pem_of(key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _server_properties(directory: Path, node: NodeAt, nodes: Sequence[NodeAt], cluster_id: str) -> str:
    voters = ",".join(f"{each.node_id}@{_shown(each.host)}:{each.port + 1}" for each in nodes)
    home = directory / f"node-{node.node_id}"
    host = _shown(node.host)
    return f"""\
# A node that clients and other nodes log in to, over TLS. Made by 'barnabas security init'.
node.id={node.node_id}
cluster.id={cluster_id}
log.dirs={home / "data"}
listeners=CLIENTS://{host}:{node.port},CONTROLLER://{host}:{node.port + 1}
listener.security.protocol.map=CLIENTS:SASL_SSL,CONTROLLER:SASL_SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENTS
controller.quorum.voters={voters}
ssl.keystore.location={home / "node.pem"}
ssl.truststore.location={directory / "ca.pem"}
cluster.secret.file={directory / "cluster.secret"}
sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512
authorizer.class.name=acl
super.users=User:{ADMIN}
"""


def _client_properties(directory: Path, nodes: Sequence[NodeAt], password: str) -> str:
    addresses = ",".join(f"{_shown(each.host)}:{each.port}" for each in nodes)
    return f"""\
# How to reach the cluster, as its admin. Made by 'barnabas security init'.
bootstrap.servers={addresses}
security.protocol=SASL_SSL
ssl.ca.location={directory / "ca.pem"}
sasl.mechanism=SCRAM-SHA-512
sasl.username={ADMIN}
sasl.password={password}
"""


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
