"""What holds for all tests: how long hypothesis may take is not a property of the code; no test fills another's log."""

import gc
import os

import pytest
from hypothesis import settings

from barnabas.runtime import log_lines

settings.register_profile("barnabas", deadline=None)
settings.load_profile("barnabas")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: in any of them a test waits now and then, for a timer or a client."""
    return len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)) + 1


def pytest_collection_finish() -> None:
    """Whatever is there by now stays to the end: no look for garbage goes through thousands of tests and schemas."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _log_begins_anew() -> None:
    log_lines.forget()
