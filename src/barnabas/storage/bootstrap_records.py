"""The records that a cluster begins with: a file that a format writes, for the first controller that is active.

It stays where it is: once the cluster is formed nobody reads it for anything.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from barnabas.core.errors import CorruptLog
from barnabas.core.records.checksum import crc32c
from barnabas.storage.disk import Disk
from barnabas.storage.small_file import read_file, replace_file

NAME: Final = "bootstrap.records"
_CHECKSUM_SIZE: Final = 4
_decoder: Final = msgspec.msgpack.Decoder(list[bytes])


def write(disk: Disk, directory: str, records: Sequence[bytes]) -> None:
    """Write records, which are opaque here; durable when this returns."""
    body = msgspec.msgpack.encode(list(records))
    replace_file(disk, f"{directory}/{NAME}", crc32c(body).to_bytes(_CHECKSUM_SIZE, "big") + body)


def read(disk: Disk, directory: str) -> list[bytes]:
    """The records; none if there is no such file."""
    data = read_file(disk, f"{directory}/{NAME}")
    if data is None:
        return []
    body = data[_CHECKSUM_SIZE:]
    if crc32c(body).to_bytes(_CHECKSUM_SIZE, "big") != data[:_CHECKSUM_SIZE]:
        raise CorruptLog(f"{directory}/{NAME} is damaged: format the directory again")
    return _decoder.decode(body)
