"""Members to be killed at work: each says what it reads and what it has committed, with the time. For test_groups.

A line is ``read|committed <partition> <offset> <monotonic ns>``. The clock is one for all processes of a machine.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.conformance.broker.group_members import LibrdkafkaMember

WAIT_S = 40.0


class Line(NamedTuple):
    what: str
    partition: int
    offset: int
    at_ns: int


class Workers:
    """Members in processes of their own, which write down what they do."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._directory = directory
        self._arguments = arguments
        self._running: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path] = []

    def start(self) -> None:
        self._logs.append(self._directory / f"worker-{len(self._logs)}.log")
        with self._logs[-1].open("wb") as log:
            command = [sys.executable, "-m", "tests.conformance.broker.worker", *self._arguments]
            self._running.append(subprocess.Popen(command, stdout=log))

    def kill_oldest(self) -> None:
        victim = self._running.pop(0)
        victim.send_signal(signal.SIGKILL)
        victim.wait()

    def kill_all(self) -> None:
        while self._running:
            self.kill_oldest()

    def lines(self) -> list[list[Line]]:
        """What each has done. A line that the kill cut off is left out."""
        found = []
        for log in self._logs:
            words = [line.split() for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
            found.append([Line(what, int(partition), int(offset), int(at)) for what, partition, offset, at in words])
        return found

    def seen(self) -> set[tuple[int, int]]:
        """Every record that was read, by its partition and offset."""
        return {(each.partition, each.offset) for lines in self.lines() for each in lines if each.what == "read"}

    def wait_seen(self, count: int) -> None:
        """Return when so many records have been read, by whomever."""
        deadline = time.monotonic() + WAIT_S
        while len(self.seen()) < count:
            assert time.monotonic() < deadline, f"{len(self.seen())} of {count} were read in time"
            time.sleep(0.05)


def check_redelivery(logs: list[list[Line]]) -> None:
    """Wherever a member began to read a partition, nothing from there on had been committed before."""
    commits = [each for lines in logs for each in lines if each.what == "committed"]
    assert commits
    for lines in logs:
        last: dict[int, int] = {}
        for read in lines:
            if read.what == "read":
                if last.get(read.partition) != read.offset - 1:
                    known = [each for each in commits if each.partition == read.partition and each.at_ns < read.at_ns]
                    assert read.offset >= max((each.offset for each in known), default=0)
                last[read.partition] = read.offset


def main(bootstrap: str, topic: str, protocol: str) -> None:
    member = LibrdkafkaMember(bootstrap, topic, topic, **{"group.protocol": protocol})
    while True:
        got = member.poll()
        for each in got:
            _say("read", each.partition, each.offset)
        for partition, offset in member.try_commit().items() if got else ():
            _say("committed", partition, offset)


def _say(what: str, partition: int, offset: int) -> None:
    print(what, partition, offset, time.monotonic_ns(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
