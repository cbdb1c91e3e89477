"""The data source `crashing`: the sink, with a hook at its steps that a test arms by a file.

A file `armed` in the directory of `PLAN` has a step and what is to happen there. Whoever comes first to that step, in
whichever process, takes the file, writes its process id to `reached`, and then: `exit` ends as by a SIGKILL; `wait`
waits until there is a file `go`; `outlive` does that too and ignores that Spark is gone, as a lost executor would.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from barnabas.spark import sink
from barnabas.spark.sink import steps
from barnabas.spark.sink.steps import Step
from barnabas.spark.sink.writers import StreamTopicWriter

PLAN: Final = "BARNABAS_TEST_PLAN"
_POLL_S: Final = 0.02
_LONGEST_S: Final = 120.0


def reached(step: Step) -> None:
    plan = Path(os.environ[PLAN])
    armed = plan / "armed"
    try:
        wanted, action = armed.read_text().split()
        if wanted != step.value:
            return
        armed.rename(plan / "taken")
    except FileNotFoundError:
        return
    note = plan / "note"
    note.write_text(str(os.getpid()))
    if action == "outlive":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    note.rename(plan / "reached")
    if action == "exit":
        os.kill(os.getpid(), signal.SIGKILL)
    deadline = time.monotonic() + _LONGEST_S
    while not (plan / "go").exists():
        assert time.monotonic() < deadline
        time.sleep(_POLL_S)


class CrashingWriter(StreamTopicWriter):
    def write(self, iterator: Iterator[Any]) -> Any:
        steps.reached = reached
        return super().write(iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        steps.reached = reached
        super().commit(messages, batchId)


class CrashingDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "crashing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        writer = sink.stream_writer(self.options, schema, overwrite)
        writer.__class__ = CrashingWriter
        return writer
