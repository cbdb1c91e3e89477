"""Consume, transform, produce, with processors that are killed at work: what comes out is what went in, once."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.client import Bus
from tests.conformance.broker.clients import CLIENTS, TIMEOUT_S
from tests.conformance.broker.group_members import MEMBERS, SETTINGS
from tests.conformance.broker.served import ServedBroker

PARTITIONS = range(4)
COUNT = 2000
KILLS_AT = (COUNT // 5, COUNT // 2)  # records written, committed or not


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path, *SETTINGS) as served:
        yield served
    assert "Traceback" not in served.log, served.log


def source_of(kind: str) -> str:
    return f"{kind}-source"


def sink_of(kind: str) -> str:
    return f"{kind}-sink"


def start(served: ServedBroker, kind: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.conformance.broker.processor", served.bootstrap]
    return subprocess.Popen([*command, source_of(kind), sink_of(kind), kind])


def kill(processor: subprocess.Popen[bytes]) -> None:
    assert processor.poll() is None, "it ended by itself"
    processor.send_signal(signal.SIGKILL)
    processor.wait()


def kill_at_work(served: ServedBroker, running: dict[str, subprocess.Popen[bytes]]) -> None:
    """Kill each processor when it has written so and so much, and start another."""
    due = {kind: [*KILLS_AT] for kind in running}
    deadline = time.monotonic() + 2 * TIMEOUT_S
    with ExitStack() as stack:
        sinks = {
            kind: stack.enter_context(CLIENTS["librdkafka"].consume(served.bootstrap, sink_of(kind), PARTITIONS))
            for kind in running
        }
        while any(due.values()):
            assert time.monotonic() < deadline, f"still to be written: {due}"
            for kind, sink in sinks.items():
                if due[kind] and sum(sink.end_offsets(PARTITIONS).values()) >= due[kind][0]:
                    due[kind].pop(0)
                    kill(running[kind])
                    running[kind] = start(served, kind)


def read_committed(served: ServedBroker, kind: str) -> list[bytes]:
    """What came out: so many, and what should not come after them."""
    with CLIENTS["librdkafka"].consume(served.bootstrap, sink_of(kind), PARTITIONS, is_committed=True) as consumer:
        reads = consumer.read(COUNT) + consumer.read(1, timeout_s=0.3)
    return sorted(read.value or b"" for read in reads)


def test_processors_killed_at_work_write_each_record_once(quick: ServedBroker) -> None:
    """One of each kind, all at once, for a killed one holds its partitions until its session ends."""
    with Bus(quick.bootstrap) as bus:
        for kind in MEMBERS:
            bus.create_topic(source_of(kind), partitions=len(PARTITIONS))
            bus.create_topic(sink_of(kind), partitions=len(PARTITIONS))
            for number in range(COUNT):
                bus.send(source_of(kind), b"%d" % number, partition=number % 4)
        bus.flush(TIMEOUT_S)
    running = {kind: start(quick, kind) for kind in MEMBERS}
    try:
        kill_at_work(quick, running)
        expected = sorted(b"%d %d" % (number % 4, number // 4) for number in range(COUNT))
        for kind in MEMBERS:
            assert read_committed(quick, kind) == expected, kind
    finally:
        for processor in running.values():
            kill(processor)
