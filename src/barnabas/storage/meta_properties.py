"""Kafka's ``meta.properties``: which cluster and which node a data directory belongs to, and the directory's own id.

The file also says that all checkpoints of the directory were written once (see `checkpoints`). Earlier versions wrote
it for that alone, with nothing but ``version=1``: such a file holds no identity. It is replaced whole, and ``version``
is its last line, so that no beginning of a file passes for one of those.
"""

import re
from typing import Final

from barnabas.core.errors import CorruptLog
from barnabas.core.metadata.formation import MetaProperties
from barnabas.core.uuids import id_text, parse_id
from barnabas.storage.disk import Disk
from barnabas.storage.names import META
from barnabas.storage.small_file import read_file, replace_file

__all__ = ["MetaProperties", "read", "write", "write_format"]

_FORMAT: Final = b"version=1\n"
_MAX_NODE_ID: Final = 2**31 - 1
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))")


def read(disk: Disk, directory: str) -> MetaProperties | None:
    """Whose the directory is; None if nobody's, or that of an earlier version. `CorruptLog` when it is damaged."""
    path = f"{directory}/{META}"
    data = read_file(disk, path)
    if data is None or data == _FORMAT:
        return None
    try:
        return _parse(data)
    except ValueError as problem:
        raise CorruptLog(
            f"{path} is damaged ({problem}): it says which cluster and node the data belong to. Restore it from a "
            "backup; if there is none, and other nodes hold all of the data, empty the directory and format it again"
        ) from None


def write(disk: Disk, directory: str, meta: MetaProperties) -> None:
    """Make the identity durable."""
    replace_file(disk, f"{directory}/{META}", _encode(meta))


def write_format(disk: Disk, directory: str) -> None:
    """Record that all checkpoints are there, of a directory that belongs to nobody."""
    replace_file(disk, f"{directory}/{META}", _FORMAT)


def _encode(meta: MetaProperties) -> bytes:
    lines = (
        f"cluster.id={_escaped(meta.cluster_id)}",
        f"directory.id={id_text(meta.directory_id)}",
        f"node.id={meta.node_id}",
        "version=1",
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _parse(data: bytes) -> MetaProperties:
    lines = [line.strip() for line in data.decode("utf-8").splitlines()]
    fields: dict[str, str] = {}
    for line in lines:
        if line and line[0] not in "#!":
            name, equals, value = line.partition("=")
            if not equals or name.strip() in fields:
                raise ValueError(f"the line {line!r}")
            fields[name.strip()] = _unescaped(value.strip())
    for name in ("version", "cluster.id", "node.id", "directory.id"):
        if not fields.get(name):
            raise ValueError(f"there is no {name}")
    if fields["version"] != "1":
        raise ValueError(f"version {fields['version']}; 1 is known")
    node_id = fields["node.id"]
    if not (node_id.isascii() and node_id.isdecimal()) or int(node_id) > _MAX_NODE_ID:
        raise ValueError(f"node.id {node_id!r}")
    return MetaProperties(fields["cluster.id"], int(node_id), parse_id(fields["directory.id"]))


def _escaped(text: str) -> str:
    """As a value in a properties file of ASCII alone."""
    units = text.encode("utf-16-be", "surrogatepass")
    characters = [chr(int.from_bytes(units[at : at + 2])) for at in range(0, len(units), 2)]
    return "".join(each if "!" <= each <= "~" and each != "\\" else f"\\u{ord(each):04x}" for each in characters)


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[2], text)
    return plain.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
