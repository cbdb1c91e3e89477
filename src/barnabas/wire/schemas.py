"""kio's schemas, each loaded when it is first asked for: all of them would take longer than the start of a node does.

Loading one is an import, which takes a descriptor for a moment. One is set aside for that, so that the first request of
an API is answered by a process that has used up all others, too.

Must not know: what a schema says.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema


@cache
def request_schema(api_key: int, version: int) -> Any:
    """The class of a request."""
    return _spare.lend(lambda: load_request_schema(api_key, version))


@cache
def response_schema(api_key: int, version: int) -> Any:
    """The class of a response."""
    return _spare.lend(lambda: load_response_schema(api_key, version))


class _SpareDescriptor:
    """A descriptor that is given up for work that finds no other."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._descriptor: int | None = None
        self._set_aside()

    def lend(self, load: Callable[[], Any]) -> Any:
        """What `load` gives; when it finds no descriptor, in the place of this one."""
        with self._lock:
            try:
                return load()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
            self._give_up()
            try:
                return load()
            finally:
                self._set_aside()

    def _set_aside(self) -> None:
        if self._descriptor is None:
            with suppress(OSError):  # there is none until the next time
                self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _give_up(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


_spare: Final = _SpareDescriptor()
