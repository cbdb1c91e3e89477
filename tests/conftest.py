"""What holds for all tests: how long hypothesis may take is not a property of the code; no test fills another's log."""

import gc
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from barnabas.runtime import log_lines
from tests.support.compiling import compile_together
from tests.support.examples import are_all_tried

if TYPE_CHECKING:
    from tests.support.scheduling import Handfuls

# A run of all tests tries the same examples each time: what it finds is the fault of a change. `make sim` tries others.
settings.register_profile(
    "barnabas", deadline=None, derandomize=not are_all_tried(), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("barnabas")

# Of the nodes that tests start as processes one would take the address that `barnabas serve` has for HTTP by itself.
os.environ.setdefault("BARNABAS_HTTP_LISTENER", "off")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: in any of them a test waits now and then, for a timer or a client."""
    return len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "Handfuls | None":
    if config.getoption("dist") != "loadgroup":
        return None
    from tests.support.scheduling import Handfuls  # noqa: PLC0415 - only with xdist

    return Handfuls(config, log)


def pytest_sessionstart(session: pytest.Session) -> None:
    worker = getattr(session.config, "workerinput", None)  # of pytest-xdist
    if worker is not None and not sys.dont_write_bytecode:
        place = int(worker["workerid"].removeprefix("gw"))
        compile_together(session.config, place=place, places=worker["workercount"])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the tests of a group to one process, as `--dist loadgroup` says: xdist knows a group by the end of an id.

    It writes that end where pytest reads ids up to 9.1. Since 9.2 they are elsewhere, and each test went its own way,
    in silence (pytest-xdist, issue 1386): every process started the Sparks that the tests of a group share.
    """
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        groups = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
        end = f"@{'_'.join(groups)}"
        if groups and not item.nodeid.endswith(end):
            item._id = item.id.parse(item.nodeid + end)
        assert not groups or item.nodeid.endswith(end), "what shares a group runs apart, and takes far longer"


def pytest_collection_finish() -> None:
    """Whatever is there by now stays to the end: no look for garbage goes through thousands of tests and schemas."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a file of tests leaves behind, such as schemas that it was the first to load, stays to the end, too: looks
    for garbage took four times as long after thousands of tests.
    """
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def _log_begins_anew() -> None:
    log_lines.forget()
