"""The free space where the data is."""

import os
from typing import Final, NamedTuple


class DiskSpace(NamedTuple):
    """Bytes of a file system: all, and those available to this process."""

    total_bytes: int
    usable_bytes: int


UNKNOWN_SPACE: Final = DiskSpace(-1, -1)


def disk_space(path: str) -> DiskSpace:
    """The space of the file system that `path` is on; unknown if it does not report any. May block."""
    try:
        stat = os.statvfs(path)
    except OSError:
        return UNKNOWN_SPACE  # a simulated disk, or one that is gone, which whoever reads or writes will notice
    return DiskSpace(stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize)


def absolute_path(path: str) -> str:
    """The absolute path."""
    return os.path.abspath(path)
