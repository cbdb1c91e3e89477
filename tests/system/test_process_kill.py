"""Real processes, SIGKILL again and again, of the processor and of the broker in turn: every record of the source comes
out of `Bus.process` once, whenever the kill came.
"""

import collections
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from barnabas.client import Bus
from tests.conformance.broker.served import ServedBroker

RECORDS = 4000
BATCH = 40
MAX_KILLS = 60

# Says each time that the function has seen one more batch.
PROCESSOR = """
import sys
from barnabas.client import Bus

bootstrap, instance, batch = sys.argv[1], sys.argv[2] or None, int(sys.argv[3])
seen = 0

def shout(message):
    global seen
    seen += 1
    if seen % batch == 0:
        print(seen, flush=True)
    return b"done " + message.value

with Bus(bootstrap) as bus:
    print(bus.process("source", shout, "sink", instance=instance, batch_size=batch, until_end=True), flush=True)
print("end", flush=True)
"""


class Victim:
    """A processor that can be killed after so many batches."""

    def __init__(self, bootstrap: str, instance: str) -> None:
        command = [sys.executable, "-c", PROCESSOR, bootstrap, instance, str(BATCH)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_batches(self, count: int) -> bool:
        """Whether it had so many before it came to its end."""
        assert self._process.stdout is not None
        for _ in range(count):
            line = self._process.stdout.readline()
            if line.startswith("end"):
                return False
            assert line, self._stderr()
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _stderr(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read()


def fill(bus: Bus) -> list[bytes]:
    values = [b"%05d" % number for number in range(RECORDS)]
    bus.create_topic("source", partitions=3)
    bus.create_topic("sink", partitions=2, config={"delivery.semantics": "exactly-once"})
    for value in values:
        bus.send("source", value, key=value)
    bus.flush(60)
    return values


def kill_until_done(broker: ServedBroker, dice: random.Random) -> collections.Counter[str]:
    """Kill one of the two, in turn, until the processor comes to its end; says how often each was killed."""
    kills: collections.Counter[str] = collections.Counter()
    victim = Victim(broker.bootstrap, "one")
    try:
        while victim.wait_batches(1 + dice.randrange(16)):
            time.sleep(dice.random() * 0.03)  # anywhere: before, in or after a commit
            assert kills.total() < MAX_KILLS
            if kills.total() % 2:
                broker.kill()
                broker.start()
                kills["broker"] += 1
            else:
                victim.kill()
                victim = Victim(broker.bootstrap, "one")
                kills["processor"] += 1
    finally:
        victim.kill()
    return kills


@pytest.mark.parametrize("seed", [1])
def test_input_equals_output_whoever_is_killed(tmp_path: Path, seed: int) -> None:
    with ServedBroker(tmp_path, "group.initial.rebalance.delay.ms=0") as broker:
        with Bus(broker.bootstrap) as bus:
            values = fill(bus)

        kills = kill_until_done(broker, random.Random(seed))

        with Bus(broker.bootstrap) as bus:
            found = [message.value or b"" for message in bus.consume("sink", until_end=True)]
            assert [each.state for each in bus.transactions()] == ["CompleteCommit"]
            assert bus.hanging_transactions(older_than=0) == []
        assert "Traceback" not in broker.log, broker.log
    assert sorted(found) == [b"done " + value for value in values]
    assert min(kills["broker"], kills["processor"]) >= 2
