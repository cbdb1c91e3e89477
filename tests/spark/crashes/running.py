"""A pipeline of a topic into sinks of all kinds, its driver in a session of its own, and a broker: all may die."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from barnabas.client import Bus
from barnabas.spark.source.steps import SourceStep
from tests.conformance.broker.served import ServedBroker
from tests.spark.crashes.driver import RETRYING
from tests.spark.crashes.outputs import ICEBERG_TABLE, OUTPUT_TOPIC, Outputs, Row
from tests.spark.crashes.processes import is_running, kill_all_of, wait_for

ROOT: Final = Path(__file__).parents[3]
HOOKS: Final = Path(__file__).parent / "hooks"
INPUT_TOPIC: Final = "input"
PARTITIONS: Final = 2
RECORDS: Final = 10
KEYS: Final = 7
SINKS: Final = ("topic", "delta", "merge", "iceberg", "parquet")
BROKEN: Final = "broken"
_READ_EVERY_S: Final = 1.0  # reading all outputs anew takes the processor from the pipeline that is to fill them
# Batches are small, so that some of a task's rows are sent while others are still to come.
_OPTIONS: Final = "{kafka.reconnect.backoff.max.ms: 500, kafka.batch.size: 100}"
_TOPIC: Final = f"topic, topic: {OUTPUT_TOPIC}, key: name, value: number, options: {_OPTIONS}"
_KINDS: Final = {
    "topic": _TOPIC,
    "state": _TOPIC,
    "delta": "delta, path: delta",
    "merge": "delta, path: merge, merge: {keys: [name], order_by: [number]}",
    "iceberg": f"iceberg, warehouse: iceberg, table: {ICEBERG_TABLE}",
    "parquet": "parquet, path: parquet",
}
_HEAD: Final = f"""\
name: crashes
bootstrap: BOOTSTRAP
sources:
  - {{name: records, type: topic, topic: {INPUT_TOPIC}, group: crashes, options: {{minPartitions: {PARTITIONS}}}}}
trigger: every 1 second
checkpoint: checkpoints
"""
# A row that is broken raises an error in the JVM of a task when a sink is first given it, and never again there.
_ROWS: Final = f"""\
  - name: rows_SINK
    sql: >-
      SELECT string(key) AS name, IF(
        string(key) LIKE '{BROKEN}%'
          AND coalesce(reflect('java.lang.System', 'setProperty', 'SINK ' || string(key), 'seen'), 'null') = 'null',
        raise_error('{BROKEN}'), bigint(string(value))) AS number
      FROM records
"""
_STATE: Final = """\
  - {name: rows_once, python: "once:each_once", inputs: [rows_state]}
"""
_ONCE: Final = """\
def each_once(frame):
    return frame.dropDuplicates(["name", "number"])
"""
Armed = Mapping[str, Enum]


def pipeline_of(sinks: Sequence[str], bootstrap: str) -> str:
    """The file of a pipeline into some sinks; `state` is the topic by way of a state that knows every row."""
    views = {sink: "rows_once" if sink == "state" else f"rows_{sink}" for sink in sinks}
    steps = "".join(_ROWS.replace("SINK", sink) for sink in sinks) + (_STATE if "state" in sinks else "")
    into = "".join(f"  - {{name: {sink}, from: {view}, type: {_KINDS[sink]}}}\n" for sink, view in views.items())
    return f"{_HEAD.replace('BOOTSTRAP', bootstrap)}steps:\n{steps}sinks:\n{into}"


class CrashingPipeline:
    """Its driver may be killed and started again; at the steps of its sinks it can be made to wait."""

    def __init__(
        self,
        directory: Path,
        served: ServedBroker,
        *,
        sinks: Sequence[str] = SINKS,
        master: str = RETRYING,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._sinks = sinks
        self._master = master
        self._settings = settings or {}
        self._directory = directory
        self._plan = directory / "plan"
        self._served = served
        self._driver: subprocess.Popen[bytes] | None = None
        self._log = directory / "driver.log"
        self._failures = directory / "failures"
        self._armed: list[str] = []
        self._sent: list[Row] = []
        self._outputs = Outputs(directory, served.bootstrap)
        for name in ("armed", "taken", "reached"):
            (self._plan / name).mkdir(parents=True)
        (directory / "pipeline.yaml").write_text(pipeline_of(sinks, served.bootstrap))
        (directory / "once.py").write_text(_ONCE)
        with Bus(served.bootstrap) as bus:
            bus.create_topic(INPUT_TOPIC, partitions=PARTITIONS)
            bus.create_topic(OUTPUT_TOPIC, partitions=3)

    @property
    def failures(self) -> list[str]:
        """Why queries ended since the driver first started."""
        return self._failures.read_text().splitlines() if self._failures.exists() else []

    def count_errors(self, text: str) -> int:
        """How many errors of tasks Spark has reported with a text."""
        return len(re.findall(rf"ERROR Executor: Exception in task .*\n.*{text}", self._log.read_text()))

    def start(self) -> None:
        assert self._driver is None
        command = [sys.executable, "-m", "tests.spark.crashes.driver"]
        command += [str(self._directory / "pipeline.yaml"), str(self._failures), self._master]
        ours = {
            "TEST_CRASH_PLAN": str(self._plan),
            "PYTHONPATH": os.pathsep.join(map(str, (HOOKS, ROOT / "src", ROOT))),
        }
        executors = {f"spark.executorEnv.{name}": value for name, value in ours.items()}
        command += [f"{name}={value}" for name, value in {**self._settings, **executors}.items()]
        environment = {**os.environ, **ours}
        with self._log.open("ab") as log:
            self._driver = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, *, but: set[int] | None = None) -> None:
        """SIGKILL to the driver, its JVM and its Python workers, all at once or but a few of them."""
        driver, self._driver = self._driver, None
        assert driver is not None
        kill_all_of(driver.pid, but=but)
        driver.wait(60)

    def arm(self, armed: Armed) -> None:
        """Have a process of each of some sinks wait at a step: of the sink, or of its query's source."""
        (self._plan / "go").unlink(missing_ok=True)
        self._armed = [
            f"{self._query_id(sink) if isinstance(step, SourceStep) else sink}.{step.value}"
            for sink, step in armed.items()
        ]
        for place in self._armed:
            (self._plan / "reached" / place).unlink(missing_ok=True)
            (self._plan / "armed" / place).touch()

    def wait_until_reached(self) -> set[int]:
        """Wait for all the steps that are armed; gives the processes that came to them."""
        wait_for(f"the steps {', '.join(self._armed)}", self._are_reached)
        return {int((self._plan / "reached" / place).read_text()) for place in self._armed}

    def _are_reached(self) -> bool:
        self._check_driver()
        return all((self._plan / "reached" / place).exists() for place in self._armed)

    def go_on(self) -> None:
        (self._plan / "go").touch()

    def feed(self, *, is_broken: bool = False) -> None:
        """More input, in each partition; the last record of each may be broken."""
        begin = len(self._sent)
        end = begin + RECORDS * PARTITIONS
        with Bus(self._served.bootstrap) as bus:
            for number in range(begin, end):
                row = (
                    f"{BROKEN} {number}" if is_broken and number >= end - PARTITIONS else f"key {number % KEYS}",
                    number,
                )
                bus.send(INPUT_TOPIC, str(number), key=row[0], partition=number % PARTITIONS)
                self._sent.append(row)
            bus.flush()

    def wait_until_all_is_there(self) -> None:
        """Wait until every output has all of the input; and it is that, and no more."""
        missing = dict.fromkeys(self._sinks, "not looked at")

        def is_all_there() -> bool:
            nonlocal missing
            self._check_driver()
            missing = self._outputs.lacking(self._sent, missing)
            return not missing

        def what_is_not() -> str:
            return f": {missing}; failures: {self.failures[-5:]}"

        wait_for("the output", is_all_there, what_is_not, poll_s=_READ_EVERY_S)

    def check(self) -> None:
        assert self._outputs.lacking(self._sent, self._sinks) == {}
        self._outputs.check_marks()

    def wait_until_ended(self, pids: set[int]) -> None:
        wait_for("lost processes to give up", lambda: not any(is_running(pid) for pid in pids))

    def checkpoint_of(self, sink: str) -> Path:
        return self._directory / "checkpoints" / sink

    def _query_id(self, sink: str) -> str:
        metadata = self.checkpoint_of(sink) / "metadata"
        wait_for(f"the query of {sink} to begin", metadata.exists)  # it is moved there whole
        query_id: str = json.loads(metadata.read_text())["id"]
        return query_id

    def _check_driver(self) -> None:
        assert self._driver is not None
        assert self._driver.poll() is None, self._log.read_text()[-5000:]
