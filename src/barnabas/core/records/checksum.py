"""CRC32C, which record batches and snapshots are sealed with.

The package `crc32c` loads its command line and its own version along with the one function that is needed here, forty
modules and a tenth of the time in which a node is ready. So the extension module inside is loaded by itself.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final, cast

Checksum = Callable[[bytes | bytearray | memoryview], int]


def _load() -> Checksum:
    package = PathFinder.find_spec("crc32c")
    inside = None if package is None else package.submodule_search_locations
    extension = None if inside is None else PathFinder.find_spec("crc32c._crc32c", inside)
    if extension is None or extension.loader is None:
        from crc32c import crc32c as whole  # noqa: PLC0415 - another version of the package

        return whole
    module = module_from_spec(extension)
    extension.loader.exec_module(module)
    return cast("Checksum", module.crc32c)


crc32c: Final = _load()
"""The checksum of some bytes."""
