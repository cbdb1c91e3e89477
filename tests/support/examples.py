"""How many examples hypothesis tries, and which tests are long: a part in `make test`, all of them in `make sim`."""

import os
from typing import Final

import pytest

EXAMPLES_VARIABLE: Final = "TEST_EXAMPLES"
_PART: Final = 4


def are_all_tried() -> bool:
    return os.environ.get(EXAMPLES_VARIABLE) == "all"


def examples(number: int) -> int:
    """That many where all are asked for, and a part of them where not."""
    return number if are_all_tried() else number // _PART


LONG: Final = pytest.mark.skipif(not are_all_tried(), reason="many runs of a simulation: make sim does them")
"""A test whose long form is one of many: `make test` has the others."""
