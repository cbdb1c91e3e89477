"""Modules are compiled once, by all test processes together.

Each process of pytest-xdist imports every test. In a fresh clone none of them is compiled, and with their asserts
rewritten that takes three times as long as the imports: each process did all of it at the same time as the others.
Here each has a part of its own, then looks from the end on for what others have not come to yet.
"""

import py_compile
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

import pytest
from _pytest.assertion import rewrite

SOURCES: Final = Path(__file__).parents[2] / "src"


def compile_together(config: pytest.Config, *, place: int, places: int) -> None:
    """Compile what is not, as the process of this place among all of them."""
    files = sorted(_modules(config))
    own = files[place::places]
    for file in [*own, *sorted(set(files).difference(own), reverse=True)]:
        if _is_rewritten(file):
            _rewrite(config, file)
        elif not Path(cache_from_source(str(file))).exists():
            py_compile.compile(str(file), doraise=True)


def _modules(config: pytest.Config) -> Iterator[Path]:
    yield from SOURCES.rglob("*.py")
    for argument in config.args:
        path = config.invocation_params.dir / argument.split("::")[0]
        yield from path.rglob("*.py") if path.is_dir() else ()


def _is_rewritten(file: Path) -> bool:
    """Of packages that have a plugin for pytest, as ours has, pytest rewrites every module."""
    return file.name.startswith("test_") or file.name == "conftest.py" or file.is_relative_to(SOURCES)


def _rewrite(config: pytest.Config, file: Path) -> None:
    """As pytest does when it imports the module."""
    compiled = rewrite.get_cache_dir(file) / (file.name.removesuffix(".py") + rewrite.PYC_TAIL)
    if compiled.exists():
        return
    compiled.parent.mkdir(exist_ok=True)
    source_hash, code = rewrite._rewrite_test(file, config)
    rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, compiled)
