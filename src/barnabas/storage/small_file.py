"""Small files that are replaced whole: written beside, synced, renamed over, the directory synced."""

from barnabas.storage.disk import Disk
from barnabas.storage.names import TEMPORARY, parent_of


def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Put `data` at `path`, durably: after a crash the file is whole, old or new."""
    temporary = path + TEMPORARY
    file = disk.open(temporary, create=True)
    file.truncate(0)
    file.write(0, data)
    file.sync()
    disk.rename(temporary, path)
    disk.sync_dir(parent_of(path))


def read_file(disk: Disk, path: str) -> bytes | None:
    """The whole of a small file, or None when there is none."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    return file.read(0, file.size())
