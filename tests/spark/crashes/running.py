"""One pipeline of one topic into five sinks, its driver in a session of its own, and a broker: all may be killed."""

import os
import subprocess
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final

from barnabas.client import Bus
from tests.conformance.broker.served import ServedBroker
from tests.spark.crashes.outputs import ICEBERG_TABLE, OUTPUT_TOPIC, Outputs, Row
from tests.spark.crashes.processes import is_running, kill_session, wait_for

ROOT: Final = Path(__file__).parents[3]
HOOKS: Final = Path(__file__).parent / "hooks"
INPUT_TOPIC: Final = "input"
PARTITIONS: Final = 2
RECORDS: Final = 10
KEYS: Final = 7
PIPELINE: Final = f"""
name: crashes
bootstrap: BOOTSTRAP
sources:
  - {{name: records, type: topic, topic: {INPUT_TOPIC}, group: crashes, options: {{minPartitions: {PARTITIONS}}}}}
steps:
  - name: rows
    sql: SELECT string(key) AS name, bigint(string(value)) AS number FROM records
sinks:
  - {{name: topic, type: topic, topic: {OUTPUT_TOPIC}, key: name, value: number,
     options: {{kafka.reconnect.backoff.max.ms: 500}}}}
  - {{name: delta, type: delta, path: delta}}
  - {{name: merge, type: delta, path: merge, merge: {{keys: [name], order_by: [number]}}}}
  - {{name: iceberg, type: iceberg, warehouse: iceberg, table: {ICEBERG_TABLE}}}
  - {{name: parquet, type: parquet, path: parquet}}
trigger: every 300 milliseconds
checkpoint: checkpoints
"""
Armed = Mapping[str, Enum]


class CrashingPipeline:
    """Its driver may be killed and started again; at the steps of its sinks it can be made to wait."""

    def __init__(self, directory: Path, served: ServedBroker) -> None:
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
        (directory / "pipeline.yaml").write_text(PIPELINE.replace("BOOTSTRAP", served.bootstrap))
        with Bus(served.bootstrap) as bus:
            bus.create_topic(INPUT_TOPIC, partitions=PARTITIONS)
            bus.create_topic(OUTPUT_TOPIC, partitions=3)

    @property
    def failures(self) -> list[str]:
        """Why queries ended since the driver first started."""
        return self._failures.read_text().splitlines() if self._failures.exists() else []

    def start(self) -> None:
        assert self._driver is None
        command = [sys.executable, "-m", "tests.spark.crashes.driver"]
        command += [str(self._directory / "pipeline.yaml"), str(self._failures)]
        path = os.pathsep.join([str(HOOKS), str(ROOT / "src"), str(ROOT)])
        environment = {**os.environ, "TEST_CRASH_PLAN": str(self._plan), "PYTHONPATH": path}
        with self._log.open("ab") as log:
            self._driver = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, *, but: set[int] | None = None) -> None:
        """SIGKILL to the driver, its JVM and its Python workers, all at once or but a few of them."""
        driver, self._driver = self._driver, None
        assert driver is not None
        kill_session(driver.pid, but=but)
        driver.wait(10)

    def arm(self, armed: Armed) -> None:
        """Have a process of each of some sinks wait at a step."""
        (self._plan / "go").unlink(missing_ok=True)
        self._armed = [f"{sink}.{step.value}" for sink, step in armed.items()]
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

    def feed(self) -> None:
        """More input, in each partition."""
        begin = len(self._sent)
        with Bus(self._served.bootstrap) as bus:
            for number in range(begin, begin + RECORDS * PARTITIONS):
                row = (f"key {number % KEYS}", number)
                bus.send(INPUT_TOPIC, str(number), key=row[0], partition=number % PARTITIONS)
                self._sent.append(row)
            bus.flush()

    def wait_until_all_is_there(self) -> None:
        """Wait until every output has all of the input; and it is that, and no more."""
        missing = dict.fromkeys(["topic", "delta", "merge", "iceberg", "parquet"], "not looked at")

        def is_all_there() -> bool:
            nonlocal missing
            self._check_driver()
            missing = self._outputs.lacking(self._sent, missing)
            return not missing

        wait_for("the output", is_all_there, lambda: f": {missing}; failures: {self.failures[-5:]}")

    def check(self) -> None:
        assert self._outputs.lacking(self._sent) == {}
        self._outputs.check_marks()

    def wait_until_ended(self, pids: set[int]) -> None:
        wait_for("lost processes to give up", lambda: not any(is_running(pid) for pid in pids))

    def _check_driver(self) -> None:
        assert self._driver is not None
        assert self._driver.poll() is None, self._log.read_text()[-5000:]
