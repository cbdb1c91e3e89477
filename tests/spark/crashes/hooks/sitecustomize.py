"""Every Python of a driver that is to crash imports this first: it puts its own `reached` into the hooks of the sinks.

A file in the directory `armed` of the plan is called for a sink and a step, or for a query and a step of its source.
Whoever comes first to that step, in whichever process, takes the file, writes its process id to `reached`, and waits
until there is a file `go`; also if Spark is gone meanwhile, as on a machine that was cut off.
"""

import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Final

PLAN: Final = "TEST_CRASH_PLAN"
_POLL_S: Final = 0.02
_LONGEST_S: Final = 400.0


def reached_in_sink(step: Enum, table: str = "topic") -> None:
    wait_at(f"{Path(table).name}.{step.value}")


def reached_in_source(step: Enum) -> None:
    from pyspark import TaskContext  # noqa: PLC0415 - most processes never need it

    context = TaskContext.get()
    query_id = context and context.getLocalProperty("sql.streaming.queryId")
    wait_at(f"{query_id}.{step.value}")


def wait_at(place: str) -> None:
    plan = Path(os.environ[PLAN])
    try:
        (plan / "armed" / place).rename(plan / "taken" / place)
    except FileNotFoundError:
        return
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    (plan / "taken" / place).write_text(str(os.getpid()))
    (plan / "taken" / place).rename(plan / "reached" / place)
    deadline = time.monotonic() + _LONGEST_S
    while not (plan / "go").exists():
        assert time.monotonic() < deadline
        time.sleep(_POLL_S)


def put_in_place(name: str, reached: Callable[..., None]) -> None:
    """Load a module of hooks by itself, without the packages it is in: most processes never need those."""
    package, *inner = name.split(".")
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.submodule_search_locations is not None
    path = Path(found.submodule_search_locations[0]).joinpath(*inner).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["reached"] = reached
    sys.modules[name] = module


put_in_place("barnabas.spark.sink.steps", reached_in_sink)
put_in_place("barnabas.spark.tables.steps", reached_in_sink)
put_in_place("barnabas.spark.source.steps", reached_in_source)
