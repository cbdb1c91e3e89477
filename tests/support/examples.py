"""How many examples hypothesis tries: few in `make test`, which has other tests to run, all of them in `make sim`."""

import os
from typing import Final

EXAMPLES_VARIABLE: Final = "TEST_EXAMPLES"
_PART: Final = 4


def examples(number: int) -> int:
    """That many where all are asked for, and a part of them where not."""
    return number if os.environ.get(EXAMPLES_VARIABLE) == "all" else number // _PART
