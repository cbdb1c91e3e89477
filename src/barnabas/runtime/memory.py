"""The memory of this process, and the part of it that answers may use."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024
MOST_UNREAD_BYTES: Final = 512 * MIB
LEAST_UNREAD_BYTES: Final = 32 * MIB
UNREAD_PART: Final = 8
_CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


def memory_bytes(limit: Path = _CGROUP_LIMIT) -> int:
    """Bytes of memory of this machine, or of the container that this process is in."""
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no such file, or "max"
        return min(installed, int(limit.read_text()))
    return installed


def max_unread_bytes(wanted: int) -> int:
    """The memory for answers that clients have not read: as configured or, for -1, a part of all memory."""
    if wanted >= 0:
        return wanted
    return min(max(memory_bytes() // UNREAD_PART, LEAST_UNREAD_BYTES), MOST_UNREAD_BYTES)
