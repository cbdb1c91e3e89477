"""kio's schemas, each loaded on first use: loading all would take longer than the start of a node.

Loading one is an import, which needs a file descriptor for a moment. One is reserved for that, so that the first
request of an API is answered even by a process that has used up all others.

Must not know: what a schema says.
"""

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import Any, Final

from barnabas.wire.errors import UnservedVersion

# kio teaches hypothesis its types wherever that is installed, which can take seconds: more than all else that a node,
# a command or a Python worker of Spark does to start. It finds none, and whoever tests with hypothesis still does.
_hypothesis = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "hypothesis"}
sys.modules.update(dict.fromkeys([*_hypothesis, "hypothesis"]))  # type: ignore[arg-type]
try:
    from kio.index import load_request_schema, load_response_schema
    from kio.schema.errors import ErrorCode
    from kio.schema.index import api_key_map, schema_name_map
finally:
    del sys.modules["hypothesis"]
    sys.modules.update(_hypothesis)

__all__ = ["ErrorCode", "known_versions", "request_schema", "response_schema"]


@cache
def request_schema(api_key: int, version: int) -> Any:
    """The class of a request."""
    return _spare.lend(lambda: load_request_schema(api_key, version))


@cache
def response_schema(api_key: int, version: int) -> Any:
    """The class of a response."""
    return _spare.lend(lambda: load_response_schema(api_key, version))


@cache
def known_versions(api_key: int) -> tuple[int, int]:
    """The oldest and the newest version of an API that there are schemas of; loads none of them."""
    if api_key not in api_key_map:
        raise UnservedVersion(f"API {api_key} does not exist")
    versions = schema_name_map[api_key_map[api_key]]
    return min(versions), max(versions)


class _SpareDescriptor:
    """A descriptor that is freed for work that finds no other."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._descriptor: int | None = None
        self._set_aside()

    def lend(self, load: Callable[[], Any]) -> Any:
        """The result of `load`; if it finds no descriptor, this one is freed for it."""
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
