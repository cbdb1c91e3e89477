"""Small directories that are made once for a user and found again: in the cache, or where that cannot be written,
among the temporary files.

A directory is always complete, also if several processes make it at once. Its name must identify its content.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from barnabas.spark.private_files import make_private_folder


def made_once(name: str, fill: Callable[[Path], None], environment: Mapping[str, str]) -> Path:
    """The directory of that name; `fill` puts into an empty one what belongs there."""
    try:
        return _create(_cache_directory(environment), name, fill)
    except OSError:  # no home directory, or one that is read-only or full
        return _create(Path(tempfile.mkdtemp(prefix="barnabas-")), name, fill)


def _cache_directory(environment: Mapping[str, str]) -> Path:
    cache = environment.get("XDG_CACHE_HOME")
    try:
        return Path(cache or Path.home() / ".cache") / "barnabas"
    except RuntimeError as no_home:
        raise FileNotFoundError("this user has no home directory") from no_home


def _create(parent: Path, name: str, fill: Callable[[Path], None]) -> Path:
    target = parent / name
    if target.is_dir():
        return target
    make_private_folder(parent)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=parent))
    try:
        fill(unfinished)
        unfinished.rename(target)
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        # Another process may have put its own, equal one there first.
        if not target.is_dir():
            raise
    return target
