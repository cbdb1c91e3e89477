"""kio is loaded without what it would teach hypothesis, and hypothesis is left as it was."""

import subprocess
import sys
from pathlib import Path

ALL_THAT_LOADS_IT = """
import sys
import barnabas.node, barnabas.client.connection
from barnabas.client.errors import words_of
from barnabas.wire.schemas import request_schema
words_of(3), request_schema(3, 9)
print(*[name for name in sys.modules if name.startswith("hypothesis")])
"""
BESIDE_HYPOTHESIS = """
import hypothesis.strategies as before
import barnabas.wire.schemas
from hypothesis import strategies, find
print(strategies is before, find(strategies.integers(), lambda number: number > 5))
"""


def printed(code: str, folder: Path) -> str:
    """What a process prints that runs in a folder where hypothesis has no cache."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.strip()


def test_hypothesis_is_not_loaded_for_it(tmp_path: Path) -> None:
    assert printed(ALL_THAT_LOADS_IT, tmp_path) == ""


def test_hypothesis_is_left_as_it_was(tmp_path: Path) -> None:
    assert printed(BESIDE_HYPOTHESIS, tmp_path) == "True 6"
