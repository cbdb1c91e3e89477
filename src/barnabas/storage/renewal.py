"""Writing again what an earlier process left and may have failed to sync, so that a sync makes it durable for certain.

After a failed sync Linux calls the pages clean: they are read as they were written, and the next sync, of the next
process too, reports success and writes none of them. So after an unclean end what is readable proves nothing. Whatever
is not known to be durable is written again, byte for byte where it is: its pages are dirty again, and the sync that
follows writes them or fails. A crash meanwhile finds what was there, or the same (docs/decisions/0020).

Names are the directory's: any change in it has it written again.
"""

from typing import Final

from barnabas.core.records.batch import Buffer
from barnabas.storage.disk import Disk, File
from barnabas.storage.names import TEMPORARY

PIECE: Final = 1024 * 1024
_SCRATCH: Final = "renewing" + TEMPORARY


class Rewriting:
    """Bytes of a file that were read and checked, written back from a position on, in large pieces.

    Those very bytes: what is read a second time may come from the disk, and be something else.
    """

    __slots__ = ("_file", "_pending", "_position")

    def __init__(self, file: File, position: int) -> None:
        self._file = file
        self._position = position
        self._pending = bytearray()

    def add(self, data: Buffer) -> None:
        """The next bytes of the file."""
        self._pending += data
        if len(self._pending) >= PIECE:
            self._write()

    def end(self) -> None:
        """Those were the last: the file ends there, for certain once it is synced."""
        self._write()
        self._file.truncate(self._position)

    def _write(self) -> None:
        if self._pending:
            self._file.write(self._position, bytes(self._pending))
            self._position += len(self._pending)
            self._pending.clear()


def rewrite_file(disk: Disk, path: str) -> None:
    """Make the bytes of a small file durable, whoever wrote them; its name is the directory's."""
    file = disk.open(path)
    rewriting = Rewriting(file, 0)
    rewriting.add(file.read(0, file.size()))
    rewriting.end()
    file.sync()


def renew_names(disk: Disk, directory: str) -> None:
    """Have the next sync of a directory write its names, whatever became of an earlier one."""
    disk.open(f"{directory}/{_SCRATCH}", create=True)
    disk.remove(f"{directory}/{_SCRATCH}")
