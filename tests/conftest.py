"""What holds for all tests: how long hypothesis may take is not a property of the code; no test fills another's log."""

import pytest
from hypothesis import settings

from barnabas.runtime import log_lines

settings.register_profile("barnabas", deadline=None)
settings.load_profile("barnabas")


@pytest.fixture(autouse=True)
def _log_begins_anew() -> None:
    log_lines.forget()
