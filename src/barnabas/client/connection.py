"""One plain connection to a broker: requests out, answers in, in the newest version both sides know.

Owns framing, correlation and versions. Only for what librdkafka does not do: reading at Arrow speed, where it would
make an object of every record, and the administration of transactions. Plaintext only. Answers are bounded, and a
broker that goes silent is given up on.
"""

import dataclasses
import io
import socket
import struct
from typing import Any, Final

from kio.index import load_payload_module, load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i32

from barnabas.client.errors import Refused, Unreachable
from barnabas.core.errors import CorruptRecord

FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
FIND_COORDINATOR: Final = 10
API_VERSIONS: Final = 18
INIT_PRODUCER_ID: Final = 22
WRITE_TXN_MARKERS: Final = 27
DESCRIBE_PRODUCERS: Final = 61
DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66

# What is spoken here: from kio's oldest up to the last version that names topics, not their ids.
_SPOKEN: Final = {
    FETCH: (4, 12),
    LIST_OFFSETS: (1, 7),
    METADATA: (1, 9),
    FIND_COORDINATOR: (1, 3),  # later ones ask for many at once
    API_VERSIONS: (0, 0),
    INIT_PRODUCER_ID: (0, 4),
    WRITE_TXN_MARKERS: (1, 2),
    DESCRIBE_PRODUCERS: (0, 0),
    DESCRIBE_TRANSACTIONS: (0, 0),
    LIST_TRANSACTIONS: (0, 2),
}
_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 30.0
_MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
_LENGTH: Final = struct.Struct(">i")


class Connection:
    """A socket to one broker, with at most one request under way."""

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self._address = f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        self._awaited: Any = None
        self._theirs: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection((host, port), _CONNECT_S)
        except OSError as error:
            raise Unreachable(f"cannot connect to {self._address}: {error}") from None
        self._socket.settimeout(_ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._theirs = self._ask_versions()
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def messages(self, api_key: int) -> Any:
        """kio's module with the classes of a request, in the version this broker is spoken to."""
        return load_payload_module(api_key, self.version(api_key), EntityType.request)

    def version(self, api_key: int) -> int:
        """The newest version of an API that both sides know."""
        oldest, newest = _SPOKEN[api_key]
        their_oldest, their_newest = self._theirs.get(api_key, (0, -1))
        version = min(newest, their_newest)
        if version < max(oldest, their_oldest):
            raise Refused(f"{self._address} speaks no version of API {api_key} that this client does", 35)
        return version

    def call(self, request: Any, answer_kind: Any = None) -> Any:
        """The answer to a request; as kio knows it, or read as another kind."""
        self.send(request)
        if answer_kind is not None:
            self._awaited = answer_kind
        return self.receive()

    def send(self, request: Any) -> None:
        assert self._awaited is None, "one request at a time"
        kind = type(request)
        self._correlation_id += 1
        header_kind = kind.__header_schema__
        header = header_kind(
            request_api_key=kind.__api_key__,
            request_api_version=kind.__version__,
            correlation_id=i32(self._correlation_id),
            client_id=self._client_id,
        )
        out = io.BytesIO()
        entity_writer(header_kind)(out, header)
        entity_writer(kind)(out, request)
        try:
            self._socket.sendall(_LENGTH.pack(out.tell()) + out.getvalue())
        except OSError as error:
            raise self._lost(error) from None
        self._awaited = load_response_schema(kind.__api_key__, kind.__version__)

    def receive(self) -> Any:
        kind, self._awaited = self._awaited, None
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if not 4 <= length <= _MAX_ANSWER_BYTES:
            raise CorruptRecord(f"{self._address} announces an answer of {length} bytes")
        frame = self._read(length)
        header, at = entity_reader(kind.__header_schema__)(frame, 0)
        if header.correlation_id != self._correlation_id:
            raise CorruptRecord(f"{self._address} answered {header.correlation_id}, not {self._correlation_id}")
        answer, _ = entity_reader(kind)(frame, at)
        return answer

    def _read(self, count: int) -> memoryview:
        buffer = bytearray(count)
        view = memoryview(buffer)
        while view:
            try:
                read = self._socket.recv_into(view)
            except OSError as error:
                raise self._lost(error) from None
            if read == 0:
                raise self._lost("it closed the connection")
            view = view[read:]
        return memoryview(buffer).toreadonly()  # kio takes nothing that could change

    def _lost(self, why: object) -> Unreachable:
        return Unreachable(f"lost the connection to {self._address}: {why}")

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        answer = self.call(load_request_schema(API_VERSIONS, 0)())
        return {int(api.api_key): (int(api.min_version), int(api.max_version)) for api in answer.api_keys}


def make(kind: type[Any], **fields: Any) -> Any:
    """A kio message from those of `fields` that this version of it has."""
    return kind(**{field.name: fields[field.name] for field in dataclasses.fields(kind) if field.name in fields})
