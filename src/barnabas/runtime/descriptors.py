"""The file descriptors of a process: raising the limit, and how they are shared.

Logs come first: a refused connection affects one client, a log that cannot be opened all clients of its partition.
"""

import resource
from contextlib import suppress
from typing import Final, NamedTuple

MOST: Final = 1_048_576  # where the operating system names no limit
OWN: Final = 64  # for what is neither: the loop, the listener, directories that are synced, standard streams
MOST_FILES: Final = 1024
FEWEST_FILES: Final = 16
FEWEST_CONNECTIONS: Final = 8


class Shares(NamedTuple):
    """How many descriptors are for log files, and how many for connections."""

    files: int
    connections: int


def raise_limit() -> None:
    """Raise the limit of open files to the hard limit. Only for a process of our own."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (hard, min(MOST, hard) if hard != resource.RLIM_INFINITY else MOST):
        with suppress(ValueError, OSError):  # a system may have a lower one than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return


def max_descriptors() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else min(soft, MOST)


def share(limit: int) -> Shares:
    """Divide so many descriptors: a quarter for files, within bounds, and the rest for connections."""
    left = max(limit - OWN, 0)
    files = min(max(left // 4, FEWEST_FILES), MOST_FILES)
    return Shares(files, max(left - files, FEWEST_CONNECTIONS))
